/**
 * What it is: a recorded engine's dense stores, each of whose hashes is computed again from tokens.
 * Owns: the digests known so far by published hash.
 * Refuses: a recording whose stores cannot be read (throws).
 * Does not do: say what the numbers must be.
 */
import { decodeBatch } from "../../../src/bridge/dist/validate.js";
import type { ExtraKey, StoreEvent } from "../../../src/bridge/dist/vllm-event.js";
import { openTrace } from "../../../src/cli/dist/trace-file.js";
import {
  BlockHasher,
  type HashedExtras,
  type HashedItem,
  publishedHash,
  seedDigest,
} from "../../../src/engine-hash/dist/index.js";
import { type Digest, digestOf, HASH_ALGORITHMS } from "../../../src/protocol/dist/index.js";

/** How many hashes were computed again, by what they cover, and what could not be. */
export interface Recomputed {
  readonly plain: number;
  readonly lora: number;
  readonly salt: number;
  readonly items: number;
  readonly lookahead: number;
  /** Hashes that came out otherwise. */
  readonly wrong: number;
  /** Stores whose parent's digest is not known. */
  readonly orphans: number;
  /** Stores whose tokens are not those of their hashes alone. */
  readonly sparse: number;
}

type Counts = { -readonly [Key in keyof Recomputed]: number };

/** What a recording does not say itself. */
export interface RecordingFacts {
  readonly seedText: string | undefined;
  readonly extraKeyForm: "tagged" | "untagged";
  /** Where LoRA adapters were loaded from, unless the recording says it. */
  readonly loraFolder: string;
}

/** Plays one recording. Blocks of several units count once each. */
export async function recompute(path: string, facts: RecordingFacts): Promise<Recomputed> {
  const { engine, entries } = await openTrace(path);
  const algorithm = HASH_ALGORITHMS.find((name) => name === engine.hash_algo);
  if (algorithm === undefined) throw new TypeError("the recording names its algorithm");
  const root = facts.seedText === undefined ? undefined : seedDigest(algorithm, facts.seedText);
  const hasher = new BlockHasher(algorithm, facts.extraKeyForm);
  const folder = engine["lora_folder"];
  const loraFolder = typeof folder === "string" ? folder : facts.loraFolder;
  const chain = new Chain(hasher, root, engine.hash_block_size, loraFolder);
  for await (const entry of entries) {
    if (entry.type !== "frame") continue;
    const batch = decodeBatch(entry.frames[2] ?? new Uint8Array(0));
    if (!batch.ok) throw new TypeError("a recorded batch decodes");
    for (const event of batch.value.events) if (event.type === "stored") chain.store(event);
  }
  return chain.counts;
}

class Chain {
  readonly counts: Counts = {
    plain: 0,
    lora: 0,
    salt: 0,
    items: 0,
    lookahead: 0,
    wrong: 0,
    orphans: 0,
    sparse: 0,
  };
  private readonly digests = new Map<string, Digest>();
  private readonly hasher: BlockHasher;
  private readonly root: Digest | undefined;
  private readonly unitTokens: number;
  private readonly loraFolder: string;

  constructor(
    hasher: BlockHasher,
    root: Digest | undefined,
    unitTokens: number,
    loraFolder: string,
  ) {
    this.hasher = hasher;
    this.root = root;
    this.unitTokens = unitTokens;
    this.loraFolder = loraFolder;
  }

  store(event: StoreEvent): void {
    const { counts } = this;
    const { hashes, blockSizeTokens, tokens } = event;
    if (event.medium !== "GPU") return;
    const isDense =
      hashes.length > 0 &&
      hashes.length * blockSizeTokens === tokens.length &&
      blockSizeTokens % this.unitTokens === 0;
    if (!isDense) {
      counts.sparse += 1;
      return;
    }
    let digest = this.parentOf(event);
    if (digest === undefined) {
      counts.orphans += 1;
      return;
    }
    for (let index = 0; index < hashes.length; index++) {
      digest = this.block(event, index, digest);
      if (digest === undefined) return;
    }
  }

  private parentOf({ parent }: StoreEvent): Digest | undefined {
    if (parent === undefined) return this.root;
    if (parent.length > 8) return digestOf(Buffer.from(parent, "latin1"));
    return this.digests.get(parent);
  }

  private block(event: StoreEvent, index: number, parent: Digest): Digest | undefined {
    const { tokens, blockSizeTokens, hashes } = event;
    const ahead = event.lookaheadTokens?.[index] ?? new Uint32Array(0);
    const start = index * blockSizeTokens;
    const isUnit = blockSizeTokens === this.unitTokens;
    let digest: Digest | undefined = parent;
    for (let from = start; from < start + blockSizeTokens; from += this.unitTokens) {
      const to = from + this.unitTokens;
      const extras = this.extrasOf(event, index, from === start);
      if (extras === undefined || (!isUnit && (extras.items.length > 0 || ahead.length > 0)))
        return undefined;
      const block = { tokens, from, to, ahead, aheadFrom: 0, aheadTo: ahead.length };
      digest = digest && this.hasher.digest(digest, block, extras);
    }
    const published = hashes[index];
    if (digest === undefined || published === undefined) return undefined;
    const form = published.length === 8 ? "integer" : "bytes";
    if (publishedHash(digest, form) === published) this.count(event, index);
    else this.counts.wrong += 1;
    this.digests.set(published, digest);
    return digest;
  }

  /** Undefined = keys that are not understood. */
  private extrasOf(
    event: StoreEvent,
    index: number,
    isFirstUnit: boolean,
  ): HashedExtras | undefined {
    const items: HashedItem[] = [];
    const texts: string[] = [];
    for (const key of event.extraKeys?.[index] ?? []) {
      if (key.type === "opaque") return undefined;
      if (key.type === "text") texts.push(key.value);
      else if (key.offset === undefined) return undefined;
      else items.push({ identifier: key.identifier, offset: key.offset });
    }
    const { loraName } = event;
    if (loraName !== undefined) texts.shift();
    const loraPath = loraName === undefined ? undefined : `${this.loraFolder}/${loraName}`;
    return { loraName, loraPath, items, cacheSalt: isFirstUnit ? texts[0] : undefined };
  }

  private count(event: StoreEvent, index: number): void {
    const { counts } = this;
    const keys: readonly ExtraKey[] = event.extraKeys?.[index] ?? [];
    const isLora = event.loraName !== undefined;
    const isSalted = keys.filter(({ type }) => type === "text").length > (isLora ? 1 : 0);
    const isMixed = keys.some(({ type }) => type === "item");
    const isAhead = (event.lookaheadTokens?.[index]?.length ?? 0) > 0;
    if (isLora) counts.lora += 1;
    if (isSalted) counts.salt += 1;
    if (isMixed) counts.items += 1;
    if (isAhead) counts.lookahead += 1;
    if (!(isLora || isSalted || isMixed || isAhead)) counts.plain += 1;
  }
}
