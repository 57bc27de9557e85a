/**
 * What it is: the bounded memory of ends that no event names and that were computed: a partial entry, or the next span
 * of a sparse group, names such an end as its parent.
 * Owns: places of those ends, by the hash that the engine would publish; the oldest first.
 * Refuses: nothing; beyond the bound the oldest one is forgotten.
 * Does not do: say that anything is held.
 */
import { type BlockHash, LIMITS } from "@kv-group-bridge/protocol";
import { Block } from "./block.ts";

/** One a rank. */
export class FineEnds {
  private readonly byHash = new Map<BlockHash, Block>();
  private readonly maxEnds: number;

  constructor(maxEnds: number = LIMITS.fineEnds.value) {
    this.maxEnds = maxEnds;
  }

  /** Ends in it. */
  get size(): number {
    return this.byHash.size;
  }

  /** The end of this hash; it has a place and a digest. */
  find(hash: BlockHash): Block | undefined {
    return this.byHash.get(hash);
  }

  /** An end to be given a place by the caller. It belongs to no mirror. */
  add(hash: BlockHash): Block {
    const known = this.byHash.get(hash);
    if (known !== undefined) {
      this.byHash.delete(hash);
      this.byHash.set(hash, known);
      return known;
    }
    const block = new Block(hash, 0);
    // What stands on it may name it, as it may name a block that was forgotten.
    block.isForgotten = true;
    this.byHash.set(hash, block);
    if (this.byHash.size > this.maxEnds) {
      for (const oldest of this.byHash.keys()) {
        this.byHash.delete(oldest);
        break;
      }
    }
    return block;
  }

  /** It is a block of the mirror now, or void. */
  delete(hash: BlockHash): void {
    this.byHash.delete(hash);
  }

  /** Forgets everything. */
  clear(): void {
    this.byHash.clear();
  }
}
