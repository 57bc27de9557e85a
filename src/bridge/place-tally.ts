/**
 * What it is: how the entries of stores got their places, counted.
 * Owns: four sums, and on each block how many of its stores wait.
 * Refuses: nothing.
 * Does not do: decide anything. An entry is one hash of one store.
 */
import type { Block } from "./block.ts";
import type { PlacedCounts } from "./mirror-options.ts";
import type { PlacedBy } from "./place-types.ts";

/** One a mirror. Never goes back. */
export class PlaceTally {
  private dense = 0;
  private equalHash = 0;
  private recomputed = 0;
  private lost = 0;
  /** Placed by recomputing since the store that is being applied began. */
  private readonly fresh = new Set<Block>();

  /** The sums. */
  get counts(): PlacedCounts {
    const { dense, equalHash, recomputed, lost: gone } = this;
    return { dense, equalHash, recomputed, gone };
  }

  /** A store begins. */
  begin(): void {
    this.fresh.clear();
  }

  /** An entry was stored. `isDense`: its own store told its place. */
  stored(block: Block, isDense: boolean): void {
    if (isDense) this.dense += 1;
    else if (!block.isPlaced) block.waitingStores += 1;
    else if (this.fresh.has(block)) this.recomputed += 1;
    else this.equalHash += 1;
  }

  /** A block got its place. */
  found(block: Block, by: PlacedBy): void {
    if (by === "recomputed") {
      this.recomputed += block.waitingStores;
      this.fresh.add(block);
    } else this.equalHash += block.waitingStores;
    block.waitingStores = 0;
  }

  /** Nothing of a block is held any more. */
  gone(block: Block): void {
    this.lost += block.waitingStores;
    block.waitingStores = 0;
  }
}
