/**
 * What it is: what changed in a mirror while a cut of it is taken.
 * Owns: the blocks that changed since they were last written, and the numbers of those that were forgotten.
 * Refuses: nothing.
 * Does not do: outlive a new beginning: a mirror that is reset makes it void.
 */
import type { Block } from "./block.ts";

/** One a cut; the mirror fills it while it is attached. */
export class BlockChanges {
  /** Changed since they were last written; whoever writes one takes it out first. */
  readonly touched = new Set<Block>();
  /** Serial numbers of forgotten blocks; whoever writes them empties it. */
  readonly forgotten: number[] = [];
  private isReset = false;

  /** The mirror began anew: what was written so far belongs to nothing. */
  get isVoid(): boolean {
    return this.isReset;
  }

  /** A block is gone for good. */
  forget(block: Block): void {
    this.touched.delete(block);
    this.forgotten.push(block.serial);
  }

  /** Everything is gone. */
  reset(): void {
    this.isReset = true;
    this.touched.clear();
    this.forgotten.length = 0;
  }
}
