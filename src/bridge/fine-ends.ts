/**
 * What it is: the bounded memory of ends that no event names and that were computed: a partial entry, or the next span
 * of a sparse group, names such an end as its parent.
 * Owns: places of those ends, by the hash that the engine would publish; the oldest first.
 * Refuses: nothing; beyond the bound the oldest one is forgotten.
 * Does not do: say that anything is held.
 */
import {
  type BlockHash,
  type Digest,
  LIMITS,
  type PrefixState,
  STATE_WORDS,
} from "@kv-group-bridge/protocol";
import { Block } from "./block.ts";

/** Words of one end: tokens, key, state. */
const WORDS = 3 + STATE_WORDS;

/** What is remembered of an end. */
export interface FineEnd {
  readonly state: PrefixState;
  readonly keyLow: number;
  readonly keyHigh: number;
  readonly digest: Digest;
  readonly loraName: string | undefined;
  readonly isPlain: boolean;
}

/** One a rank. Flat: there are many, and few are ever asked for. */
export class FineEnds {
  private readonly places = new Map<BlockHash, number>();
  private readonly maxEnds: number;
  private readonly hashes: (BlockHash | undefined)[] = [];
  private readonly digests: Digest[] = [];
  private readonly loraNames: (string | undefined)[] = [];
  private isPlain = new Uint8Array(0);
  /** Of each end: its tokens, its key, its state. */
  private words = new Uint32Array(0);
  /** The place that is filled next; the oldest end stands there once all are filled. */
  private next = 0;

  constructor(maxEnds: number = LIMITS.fineEnds.value) {
    this.maxEnds = maxEnds;
  }

  /** Ends in it. */
  get size(): number {
    return this.places.size;
  }

  /** True when the end of this hash is in it. */
  has(hash: BlockHash): boolean {
    return this.places.has(hash);
  }

  /** The end of this hash as a block with a place and a digest, which belongs to no mirror; made anew each time. */
  find(hash: BlockHash): Block | undefined {
    const place = this.places.get(hash);
    const digest = place === undefined ? undefined : this.digests[place];
    if (place === undefined || digest === undefined) return undefined;
    const block = new Block(hash, 0);
    // What stands on it may name it, as it may name a block that was forgotten.
    block.isForgotten = true;
    const at = place * WORDS;
    block.restorePlace(this.words[at] ?? 0, this.words.slice(at + 3, at + WORDS));
    block.keyLow = this.words[at + 1] ?? 0;
    block.keyHigh = this.words[at + 2] ?? 0;
    block.digest = digest;
    block.loraName = this.loraNames[place];
    block.isPlain = this.isPlain[place] === 1;
    return block;
  }

  /** Remembers an end that is not in it. */
  add(hash: BlockHash, end: FineEnd): void {
    if (this.words.length === 0) {
      this.words = new Uint32Array(this.maxEnds * WORDS);
      this.isPlain = new Uint8Array(this.maxEnds);
    }
    const place = this.next;
    this.next = (place + 1) % this.maxEnds;
    const oldest = this.hashes[place];
    if (oldest !== undefined && this.places.get(oldest) === place) this.places.delete(oldest);
    this.places.set(hash, place);
    this.hashes[place] = hash;
    this.digests[place] = end.digest;
    this.loraNames[place] = end.loraName;
    this.isPlain[place] = end.isPlain ? 1 : 0;
    const at = place * WORDS;
    this.words[at] = end.state.endTokens;
    this.words[at + 1] = end.keyLow;
    this.words[at + 2] = end.keyHigh;
    end.state.save(this.words, at + 3);
  }

  /** It is a block of the mirror now, or void. */
  delete(hash: BlockHash): void {
    this.places.delete(hash);
  }

  /** Forgets everything. */
  clear(): void {
    this.places.clear();
    this.hashes.length = 0;
    this.digests.length = 0;
    this.loraNames.length = 0;
    this.words.fill(0);
    this.next = 0;
  }
}
