/**
 * What it is: the hash keys of one prompt under one engine's scheme, computed as far as a query asks for them.
 * Owns: where the chain stands in the present query.
 * Refuses: ends that cannot be computed (undefined).
 * Does not do: keep the prompt beyond the query.
 */
import { type HashedPrompt, hashWork } from "@kv-group-bridge/engine-hash";
import type { HashKeys, HashScheme } from "@kv-group-bridge/protocol";
import type { MultimodalItem, NamedPrompt } from "./prompt-keys.ts";
import { keyText } from "./unplaced-block.ts";

/** The engine's own hashes of a prompt; PromptHashes of the engine-hash package is one. */
export interface PromptHashReader {
  /** The last end whose digest can be computed, a multiple of H; 0 = none. */
  readonly reachTokens: number;
  /** Begins another prompt. */
  reset(prompt: HashedPrompt): void;
  /** The digest of the prefix up to an end within reach; ends ascend. Undefined = neither it nor a later one can be had. */
  digestAt(endTokens: number): string | undefined;
}

/** Makes a reader of one scheme and look-ahead. */
export type PromptHashFactory = (scheme: HashScheme, lookaheadTokens: number) => PromptHashReader;

const NO_PROMPT: HashedPrompt = {
  tokens: [],
  loraName: undefined,
  cacheSalt: undefined,
  items: [],
};

/** One reader, begun at most once a query. */
export class HashChain {
  private readonly reader: PromptHashReader;
  private readonly scheme: HashScheme;
  private readonly lookaheadTokens: number;
  private readonly keys: HashKeys;
  /** What one hash of the present prompt costs, in hashes of 64 tokens. */
  private workPerHash = 1;
  private queryNumber = -1;
  private endTokens = 0;
  private hashKey: string | undefined = undefined;

  /** `scheme` and `lookaheadTokens`: the reader's. */
  constructor(
    reader: PromptHashReader,
    scheme: HashScheme,
    lookaheadTokens: number,
    keys: HashKeys,
  ) {
    this.reader = reader;
    this.scheme = scheme;
    this.lookaheadTokens = lookaheadTokens;
    this.keys = keys;
  }

  /** Begins a query's prompt; false = that was done before. */
  begin(queryNumber: number, prompt: HashedPrompt): boolean {
    if (this.queryNumber === queryNumber) return false;
    this.queryNumber = queryNumber;
    this.endTokens = 0;
    this.reader.reset(prompt);
    const { loraName = "" } = prompt;
    const texts = loraName.length + (this.scheme.loraPaths.get(loraName)?.length ?? 0);
    const hashed = this.scheme.unitTokens + this.lookaheadTokens + texts;
    this.workPerHash = hashWork(hashed);
    return true;
  }

  /** What it costs to get there from where the chain stands, in hashes of 64 tokens. */
  workTo(endTokens: number): number {
    if (endTokens > this.reader.reachTokens) return 0;
    return ((endTokens - this.endTokens) / this.scheme.unitTokens) * this.workPerHash;
  }

  /** The key of the hash at an end, as `keyText`; ends do not descend. Undefined = it cannot be computed. */
  hashKeyAt(endTokens: number): string | undefined {
    if (endTokens > this.reader.reachTokens) return undefined;
    if (endTokens === this.endTokens) return this.hashKey;
    this.endTokens = endTokens;
    const digest = this.reader.digestAt(endTokens);
    this.hashKey = digest === undefined ? undefined : this.keyOf(digest);
    return this.hashKey;
  }

  /** Lets go of the prompt. */
  release(): void {
    this.reader.reset(NO_PROMPT);
  }

  private keyOf(digest: string): string {
    this.keys.ofHash(digest);
    return keyText(this.keys.keyLow, this.keys.keyHigh);
  }
}

/** The prompt as the engine hashes it. */
export function hashedPrompt(prompt: NamedPrompt): HashedPrompt {
  const { tokens, loraName, cacheSalt, multimodalItems = [] } = prompt;
  return { tokens, loraName, cacheSalt, items: multimodalItems.map(hashedItem) };
}

function hashedItem({ identifier, offset, length }: MultimodalItem): HashedPrompt["items"][number] {
  return { identifier, offset, length: length === 0 ? undefined : length };
}
