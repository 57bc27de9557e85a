/**
 * What it is: the keys under which an unplaced block is told: of its hash, and of its last tokens. Both sides compute
 * them with this file and nothing else.
 * Owns: the two domains. Keys are those of the prefix key's state, under roots of their own, so that neither a hash
 * key nor a tail key is ever a prefix key.
 * Refuses: nothing.
 * Does not do: compute the engine's hashes.
 */
import { type KeyedHasher, PrefixState } from "./prefix-key.ts";

/** Computes keys; the result stands in `keyLow` and `keyHigh` until the next call. Allocates nothing. */
export class HashKeys {
  keyLow = 0;
  keyHigh = 0;
  private readonly hashRoot: Uint32Array;
  private readonly tailRoot: Uint32Array;
  private readonly state = new PrefixState();
  private readonly words = new Uint32Array(2);

  constructor(hasher: KeyedHasher) {
    this.hashRoot = hasher.domainWords("block hash");
    this.tailRoot = hasher.domainWords("tail");
  }

  /** The key of a block hash or digest (latin1, at least 8 chars): of its last 8 bytes, as integer hashes have. */
  ofHash(hash: string): void {
    const from = hash.length - 8;
    this.words[0] = wordAt(hash, from);
    this.words[1] = wordAt(hash, from + 4);
    this.compute(this.hashRoot, this.words, 0, 2);
  }

  /** The key of tokens[from … to − 1], the last ones before a block's end. */
  ofTail(tokens: ArrayLike<number>, from: number, to: number): void {
    this.compute(this.tailRoot, tokens, from, to);
  }

  private compute(root: Uint32Array, words: ArrayLike<number>, from: number, to: number): void {
    const { state } = this;
    state.load(root, 0, 0);
    state.absorb(words, from, to);
    state.finish();
    this.keyLow = state.keyLow;
    this.keyHigh = state.keyHigh;
  }
}

function wordAt(text: string, at: number): number {
  const high = (text.charCodeAt(at) << 24) | (text.charCodeAt(at + 1) << 16);
  return (high | (text.charCodeAt(at + 2) << 8) | text.charCodeAt(at + 3)) >>> 0;
}
