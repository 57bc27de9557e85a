/**
 * What it is: for one rank, (node, medium) -> index of the rank's record in the node's block, by
 * open addressing. It finds a holder in O(1) however many ranks share a node, and lists all of a
 * rank's nodes.
 * Owns: slots of two words (place, index + 1). Load <= 0.6, no tombstones; shrinks only on `reset`.
 * Refuses: a place that is not there where one is promised (our bug).
 * Does not do: know masks or ranks.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { MEDIA_COUNT } from "./holder-arena.ts";

const FIRST_SLOTS = 16;

/** Places of one rank. */
export class PlaceTable {
  private slots = new Uint32Array(FIRST_SLOTS * 2);
  private slotMask = FIRST_SLOTS - 1;
  /** Places held now. */
  count = 0;

  /** Bound of the slot numbers that `placeAt` takes. */
  get slotCount(): number {
    return this.slotMask + 1;
  }

  /** Bytes of the slots. */
  get sizeBytes(): number {
    return this.slots.byteLength;
  }

  /** The record index of a place, or -1. */
  get(node: number, mediumId: number): number {
    return (this.slots[this.find(placeOf(node, mediumId)) * 2 + 1] as number) - 1;
  }

  /** Sets the record index of a place, new or known. */
  set(node: number, mediumId: number, index: number): void {
    const place = placeOf(node, mediumId);
    let slot = this.find(place);
    if (this.slots[slot * 2 + 1] === 0) {
      if ((this.count + 1) * 5 > this.slotCount * 3) {
        this.grow();
        slot = this.find(place);
      }
      this.slots[slot * 2] = place;
      this.count += 1;
    }
    this.slots[slot * 2 + 1] = index + 1;
  }

  /** Removes a place that is there. */
  delete(node: number, mediumId: number): void {
    const { slots, slotMask } = this;
    let hole = this.find(placeOf(node, mediumId));
    invariant(slots[hole * 2 + 1] !== 0, "a deleted place was there");
    let slot = (hole + 1) & slotMask;
    while (slots[slot * 2 + 1] !== 0) {
      const place = slots[slot * 2] as number;
      if (((slot - homeOf(place)) & slotMask) >= ((slot - hole) & slotMask)) {
        slots[hole * 2] = place;
        slots[hole * 2 + 1] = slots[slot * 2 + 1] as number;
        hole = slot;
      }
      slot = (slot + 1) & slotMask;
    }
    slots[hole * 2 + 1] = 0;
    this.count -= 1;
  }

  /**
   * The place in a slot as node * 16 + medium, or -1. A deletion may bring a later place into the
   * slot: who deletes while listing asks for the same slot again. Places seen may be seen a second
   * time.
   */
  placeAt(slot: number): number {
    return this.slots[slot * 2 + 1] === 0 ? -1 : (this.slots[slot * 2] as number);
  }

  /** Forgets all places and the memory. */
  reset(): void {
    this.slots = new Uint32Array(FIRST_SLOTS * 2);
    this.slotMask = FIRST_SLOTS - 1;
    this.count = 0;
  }

  /** Checks that every place is found and counted. For tests and checkpoints. */
  audit(): void {
    let seen = 0;
    for (let slot = 0; slot < this.slotCount; slot++) {
      const place = this.placeAt(slot);
      if (place === -1) continue;
      invariant(this.find(place) === slot, "a place is found where it stands");
      seen += 1;
    }
    invariant(seen === this.count, "the place count is right");
    invariant(seen * 5 <= this.slotCount * 3, "the load is at most 0.6");
  }

  /** The slot of a place, or the empty slot where it would go. */
  private find(place: number): number {
    const { slots, slotMask } = this;
    let slot = homeOf(place) & slotMask;
    while (slots[slot * 2 + 1] !== 0 && slots[slot * 2] !== place) slot = (slot + 1) & slotMask;
    return slot;
  }

  private grow(): void {
    const old = this.slots;
    const slotCount = this.slotCount * 2;
    this.slots = new Uint32Array(slotCount * 2);
    this.slotMask = slotCount - 1;
    for (let i = 0; i < old.length; i += 2) {
      if (old[i + 1] === 0) continue;
      const slot = this.find(old[i] as number);
      this.slots[slot * 2] = old[i] as number;
      this.slots[slot * 2 + 1] = old[i + 1] as number;
    }
  }
}

function placeOf(node: number, mediumId: number): number {
  return node * MEDIA_COUNT + mediumId;
}

/**
 * Node ids are dense, so their bits are mixed: multiplied by an odd number, high half folded in.
 */
function homeOf(place: number): number {
  const product = Math.imul(place, 0x9e37_79b1);
  return product ^ (product >>> 15);
}
