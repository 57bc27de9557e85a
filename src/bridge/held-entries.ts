/**
 * What it is: how many (block, slot) pairs are held: with a place, without one, and of those the ones that can be told.
 * Owns: the sums.
 * Refuses: nothing.
 * Does not do: count copies (each block does).
 */
import type { Block, Slot } from "./block.ts";

/** One a mirror. */
export class HeldEntries {
  /** Pairs whose place is known. */
  placed = 0;
  /** Pairs whose place is not known. */
  unplaced = 0;
  /** Of the unplaced ones, those that are told all the same. */
  told = 0;
  private readonly inSlot: number[] = [];

  /** Blocks held in a slot. */
  in(slot: Slot): number {
    return this.inSlot[slot.index] ?? 0;
  }

  /** A block came into a slot (1), went out of it (-1) or stayed (0). */
  changed(block: Block, slot: Slot, change: number): void {
    if (block.isPlaced) this.placed += change;
    else this.unplaced += change;
    if (block.isTellable) this.told += change;
    this.inSlot[slot.index] = (this.inSlot[slot.index] ?? 0) + change;
  }

  /** A block got its place. */
  gotPlace(block: Block): void {
    this.placed += block.heldSlots;
    this.unplaced -= block.heldSlots;
  }

  /** A block lost its place. */
  lostPlace(block: Block): void {
    this.placed -= block.heldSlots;
    this.unplaced += block.heldSlots;
  }

  /** A block without a place can be told from now on. */
  gotTail(block: Block): void {
    this.told += block.heldSlots;
  }

  /** It cannot any more. */
  lostTail(block: Block): void {
    this.told -= block.heldSlots;
  }

  /** A block as it was written down before. */
  add(block: Block): void {
    if (block.isPlaced) this.placed += block.heldSlots;
    else this.unplaced += block.heldSlots;
    if (block.isTellable) this.told += block.heldSlots;
    for (let at = 0; at < block.copies.length; at++) {
      if ((block.copies[at] ?? 0) > 0) this.inSlot[at] = (this.inSlot[at] ?? 0) + 1;
    }
  }

  /** Nothing is held. */
  clear(): void {
    this.placed = 0;
    this.unplaced = 0;
    this.told = 0;
    this.inSlot.length = 0;
  }
}
