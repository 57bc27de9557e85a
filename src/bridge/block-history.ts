/**
 * What it is: the bounded history of a mirror: blocks that nothing holds, whose places later events may name as
 * parents.
 * Owns: their order, the one unneeded for longest first. A block's stamp tells its place in that order.
 * Refuses: nothing; beyond the bound the oldest block is handed back.
 * Does not do: forget a block anywhere else (the mirror does).
 */
import type { BlockHash } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { Block } from "./block.ts";

/** One a mirror. A block is in it exactly when its stamp is not 0. */
export class BlockHistory {
  private readonly maxBlocks: number;
  private readonly byHash = new Map<BlockHash, Block>();
  private oldestFirst: IterableIterator<Block> | undefined = undefined;
  private lastStamp = 0;

  constructor(maxBlocks: number) {
    this.maxBlocks = maxBlocks;
  }

  /** Blocks in it. */
  get size(): number {
    return this.byHash.size;
  }

  /** Puts a block at the young end; gives the oldest one when the bound is passed. */
  remember(block: Block): Block | undefined {
    this.byHash.set(block.hash, block);
    this.lastStamp += 1;
    block.historyStamp = this.lastStamp;
    if (this.byHash.size <= this.maxBlocks) return undefined;
    // One iterator for good: what it has passed is deleted, and a new one would step over all of that again.
    this.oldestFirst ??= this.byHash.values();
    const oldest = this.oldestFirst.next();
    if (oldest.done === true) {
      this.oldestFirst = undefined;
      return undefined;
    }
    this.delete(oldest.value);
    return oldest.value;
  }

  /** Moves a block to the young end; false = it is not in the history. */
  refresh(block: Block): boolean {
    if (!this.delete(block)) return false;
    this.remember(block);
    return true;
  }

  /** Takes a block out; false = it was not in. */
  delete(block: Block): boolean {
    if (block.historyStamp === 0) return false;
    block.historyStamp = 0;
    return this.byHash.delete(block.hash);
  }

  /** Forgets everything. */
  clear(): void {
    for (const block of this.byHash.values()) block.historyStamp = 0;
    this.byHash.clear();
    this.oldestFirst = undefined;
  }

  /** Recomputes the invariants: linear in its size. */
  audit(): void {
    invariant(this.byHash.size <= this.maxBlocks, "the history is bounded");
    let before = 0;
    for (const [hash, block] of this.byHash) {
      invariant(block.hash === hash, "a block of the history is filed under its hash");
      invariant(block.historyStamp > before, "stamps of the history ascend");
      before = block.historyStamp;
    }
  }
}
