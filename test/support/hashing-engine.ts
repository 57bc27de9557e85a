/**
 * What it is: a small engine that names its blocks as vLLM does: hash units, groups of any kind and size, sparse and empty
 * stores, partial entries whose parents were never published, LoRA, salts, images, look-ahead.
 * Owns: the truth: for every hash unit of every prompt the hash, and the prefix key of the place where it stands.
 * Refuses: nothing. Hashes come from BlockHasher, which recordings of vLLM judge.
 * Does not do: evict, or answer lookups.
 */
import type { ExtraKey, StoreEvent } from "../../src/bridge/dist/vllm-event.js";
import {
  BlockHasher,
  type PublishedForm,
  publishedHash,
  seedDigest,
} from "../../src/engine-hash/dist/index.js";
import {
  type BlockHash,
  type Digest,
  type ExtraKeyForm,
  type HashAlgorithm,
  KeyedHasher,
  PrefixState,
  STATE_WORDS,
} from "../../src/protocol/dist/index.js";
import type { Dice } from "./random-caches.ts";
import { group } from "./typed-events.ts";
import type { WireFields } from "./wire-builder.ts";

/** The fleet's seed of these tests. */
export const HASHING_SEED = "sixteen characters";

/** A group of the engine. */
export interface ModelGroup {
  readonly id: number;
  readonly kind: "full_attention" | "sliding_window" | "mamba";
  readonly blockSizeTokens: number;
  /** Of a sliding window. */
  readonly windowTokens?: number;
  /** Stores a partial entry at a prompt's end (fine mode). */
  readonly hasPartials?: boolean;
}

/** How it hashes and publishes. */
export interface ModelOptions {
  readonly groups: readonly ModelGroup[];
  /** H. */
  readonly unitTokens: number;
  /** L. */
  readonly lookaheadTokens?: number;
  readonly algorithm?: HashAlgorithm;
  readonly seedText?: string;
  readonly form?: PublishedForm;
  readonly extraKeyForm?: ExtraKeyForm;
  /** As hashed. */
  readonly loraPaths?: ReadonlyMap<string, string>;
}

/** A prompt with all that is hashed of it. */
export interface ModelPrompt {
  readonly tokens: Uint32Array;
  readonly loraName?: string;
  readonly cacheSalt?: string;
  readonly items?: readonly {
    readonly identifier: string;
    readonly offset: number;
    readonly length: number;
  }[];
}

/** Where a hash stands. */
export interface TrueEnd {
  readonly endTokens: number;
  readonly keyLow: number;
  readonly keyHigh: number;
}

interface Chain {
  readonly prompt: ModelPrompt;
  /** By unit; the n-th ends after (n + 1) · H tokens. */
  readonly hashes: BlockHash[];
}

/** One engine process. */
export class HashingEngine {
  /** By hash; every hash unit of every prompt seen. */
  readonly truth = new Map<BlockHash, TrueEnd>();
  readonly options: ModelOptions;
  readonly hasher = new KeyedHasher(HASHING_SEED);
  private readonly blockHasher: BlockHasher;
  private readonly root: Digest;
  private readonly chains = new Map<ModelPrompt, Chain>();

  constructor(options: ModelOptions) {
    this.options = options;
    const algorithm = options.algorithm ?? "sha256";
    this.blockHasher = new BlockHasher(algorithm, options.extraKeyForm ?? "tagged");
    const root = seedDigest(algorithm, options.seedText ?? "vllm-none-hash");
    if (root === undefined) throw new RangeError("a seed has a digest");
    this.root = root;
  }

  /** The hash that ends after so many tokens of a prompt; undefined = 0 or none. */
  hashAt(prompt: ModelPrompt, endTokens: number): BlockHash | undefined {
    return this.chain(prompt).hashes[endTokens / this.options.unitTokens - 1];
  }

  /**
   * The stores of one step, by group: tokens `from` to `to` of a prompt were computed. `keep`: of which blocks hashes are
   * listed. `isEnd`: the prompt is whole, so that partial entries are made.
   */
  step(
    prompt: ModelPrompt,
    from: number,
    to: number,
    keep: (group: ModelGroup, endTokens: number, lastTokens: number) => boolean,
    isEnd: boolean,
  ): readonly (readonly StoreEvent[])[] {
    return this.options.groups.map((of) => {
      const events: StoreEvent[] = [];
      const span = this.span(prompt, of, from, to, keep);
      if (span !== undefined) events.push(span);
      const partial = isEnd && of.hasPartials === true ? this.partial(prompt, of, to) : undefined;
      if (partial !== undefined) events.push(partial);
      return events;
    });
  }

  /** What vLLM keeps under retention 0: everything of full attention, of a window its last blocks, of a state the last. */
  readonly usual = (of: ModelGroup, endTokens: number, lastTokens: number): boolean => {
    if (of.kind === "full_attention") return true;
    if (of.kind === "mamba") return endTokens === lastTokens;
    return endTokens > lastTokens - (of.windowTokens ?? 0);
  };

  private span(
    prompt: ModelPrompt,
    of: ModelGroup,
    from: number,
    to: number,
    keep: (group: ModelGroup, endTokens: number, lastTokens: number) => boolean,
  ): StoreEvent | undefined {
    const size = of.blockSizeTokens;
    const ahead = this.options.lookaheadTokens ?? 0;
    const first = Math.floor(Math.max(0, from - ahead) / size) * size;
    const last = Math.floor(Math.max(0, to - ahead) / size) * size;
    if (last <= first) return undefined;
    const ends: number[] = [];
    for (let end = first + size; end <= last; end += size) if (keep(of, end, last)) ends.push(end);
    return this.store(prompt, of, { first, last, ends, size });
  }

  private partial(prompt: ModelPrompt, of: ModelGroup, to: number): StoreEvent | undefined {
    const { unitTokens, lookaheadTokens = 0 } = this.options;
    const end = Math.floor((to - lookaheadTokens) / unitTokens) * unitTokens;
    if (end <= 0 || end % of.blockSizeTokens === 0) return undefined;
    return this.store(prompt, of, {
      first: end - unitTokens,
      last: end,
      ends: [end],
      size: unitTokens,
    });
  }

  private store(
    prompt: ModelPrompt,
    of: ModelGroup,
    span: { first: number; last: number; ends: readonly number[]; size: number },
  ): StoreEvent {
    const { first, last, ends, size } = span;
    const { lookaheadTokens = 0 } = this.options;
    const { tokens, loraName } = prompt;
    const hashes = ends.map((end) => this.mustHash(prompt, end));
    const isTold = ends.length > 0;
    return {
      type: "stored",
      groupId: group(of.id),
      kind: of.kind,
      windowTokens: of.windowTokens,
      medium: "GPU",
      locality: "",
      ownership: "",
      hashes,
      parent: first === 0 ? undefined : this.mustHash(prompt, first),
      tokens: tokens.slice(first, last),
      blockSizeTokens: size,
      loraId: loraName === undefined ? undefined : 1n,
      loraName,
      extraKeys: isTold ? ends.map((end) => this.keysOf(prompt, end - size, end)) : undefined,
      lookaheadTokens:
        isTold && lookaheadTokens > 0
          ? ends.map((end) => tokens.slice(end, end + lookaheadTokens))
          : undefined,
      notes: [],
    };
  }

  private mustHash(prompt: ModelPrompt, endTokens: number): BlockHash {
    const hash = this.hashAt(prompt, endTokens);
    if (hash === undefined) throw new RangeError(`no hash ends at ${endTokens}`);
    return hash;
  }

  /** As published: untagged, of the group's own block. */
  private keysOf(prompt: ModelPrompt, from: number, to: number): readonly ExtraKey[] | undefined {
    const keys: ExtraKey[] = [];
    if (prompt.loraName !== undefined) keys.push({ type: "text", value: prompt.loraName });
    for (const { identifier, offset } of this.itemsIn(prompt, from, to)) {
      keys.push({ type: "item", identifier, offset: offset - from });
    }
    if (from === 0 && prompt.cacheSalt !== undefined) {
      keys.push({ type: "text", value: prompt.cacheSalt });
    }
    return keys.length === 0 ? undefined : keys;
  }

  private itemsIn(prompt: ModelPrompt, from: number, to: number) {
    const hashedTo = to + (this.options.lookaheadTokens ?? 0);
    return (prompt.items ?? []).filter(
      ({ offset, length }) => offset < hashedTo && offset + length > from,
    );
  }

  private chain(prompt: ModelPrompt): Chain {
    let chain = this.chains.get(prompt);
    if (chain === undefined) {
      chain = { prompt, hashes: [] };
      this.chains.set(prompt, chain);
      this.fill(chain);
    }
    return chain;
  }

  private fill({ prompt, hashes }: Chain): void {
    const { unitTokens, lookaheadTokens = 0, form = "integer" } = this.options;
    const { tokens, loraName, cacheSalt } = prompt;
    const loraPath = loraName === undefined ? undefined : this.options.loraPaths?.get(loraName);
    const state = new PrefixState();
    state.load(this.hasher.rootWords({ loraName, cacheSalt }), 0, 0);
    let parent = this.root;
    for (let to = unitTokens; to + lookaheadTokens <= tokens.length; to += unitTokens) {
      const from = to - unitTokens;
      const items = this.itemsIn(prompt, from, to).map(({ identifier, offset }) => ({
        identifier,
        offset: offset - from,
      }));
      const salt = from === 0 ? cacheSalt : undefined;
      const isPlain = loraName === undefined && salt === undefined && items.length === 0;
      const digest = this.blockHasher.digest(
        parent,
        { tokens, from, to, ahead: tokens, aheadFrom: to, aheadTo: to + lookaheadTokens },
        isPlain ? undefined : { loraName, loraPath, items, cacheSalt: salt },
      );
      if (digest === undefined) throw new RangeError("the model hashes what can be hashed");
      parent = digest;
      const hash = publishedHash(digest, form);
      hashes.push(hash);
      this.absorb(state, prompt, from, to);
      this.truth.set(hash, { endTokens: to, ...this.keyAt(state, prompt) });
    }
  }

  /** Absorbs tokens `from` to `to`, and each item where it starts. */
  private absorb(state: PrefixState, prompt: ModelPrompt, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      for (const { identifier, offset } of prompt.items ?? []) {
        if (offset === at) state.absorbItem(this.hasher.itemWords({ identifier, startTokens: at }));
      }
      state.absorb(prompt.tokens, at, at + 1);
    }
  }

  /** The prefix key of what the state stands at and the look-ahead after it. */
  private keyAt(state: PrefixState, prompt: ModelPrompt): { keyLow: number; keyHigh: number } {
    const words = new Uint32Array(STATE_WORDS);
    const ahead = new PrefixState();
    state.save(words, 0);
    ahead.load(words, 0, state.endTokens);
    const to = state.endTokens + (this.options.lookaheadTokens ?? 0);
    this.absorb(ahead, prompt, state.endTokens, to);
    ahead.finish();
    return { keyLow: ahead.keyLow, keyHigh: ahead.keyHigh };
  }
}

/** Tokens drawn one by one. */
export function drawTokens(dice: Dice, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, () => dice.int(0, 150_000));
}

/** The groups' stores in one batch, the groups' own orders kept, otherwise mixed. */
export function mixed(groups: readonly (readonly StoreEvent[])[], dice: Dice): StoreEvent[] {
  const open = groups.filter((events) => events.length > 0).map((events) => [...events]);
  const batch: StoreEvent[] = [];
  while (open.length > 0) {
    const at = dice.int(0, open.length - 1);
    const event = open[at]?.shift();
    if (event !== undefined) batch.push(event);
    if (open[at]?.length === 0) open.splice(at, 1);
  }
  return batch;
}

/** A store as vLLM's map. */
export function storeToWire(event: StoreEvent): WireFields {
  const { extraKeys, lookaheadTokens } = event;
  return {
    type: "BlockStored",
    block_hashes: event.hashes.map(hashToWire),
    parent_block_hash: event.parent === undefined ? null : hashToWire(event.parent),
    token_ids: [...event.tokens],
    block_size: event.blockSizeTokens,
    lora_id: event.loraId === undefined ? null : Number(event.loraId),
    lora_name: event.loraName ?? null,
    medium: event.medium,
    group_idx: event.groupId,
    kv_cache_spec_kind: event.kind,
    ...(event.windowTokens === undefined
      ? {}
      : { kv_cache_spec_sliding_window: event.windowTokens }),
    ...(extraKeys === undefined
      ? {}
      : { extra_keys: extraKeys.map((keys) => keys?.map(keyToWire) ?? null) }),
    ...(lookaheadTokens === undefined
      ? {}
      : { lookahead_token_ids: lookaheadTokens.map((tokens) => [...tokens]) }),
  };
}

/** A hash on the wire: eight bytes are an integer. */
export function hashToWire(hash: BlockHash): bigint | Uint8Array {
  const bytes = Buffer.from(hash, "latin1");
  return bytes.length === 8 ? bytes.readBigUInt64BE() : new Uint8Array(bytes);
}

function keyToWire(key: ExtraKey): unknown {
  if (key.type === "text") return key.value;
  return key.type === "item" ? [key.identifier, key.offset] : [];
}
