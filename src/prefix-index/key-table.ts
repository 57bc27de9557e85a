/**
 * What it is: 64-bit prefix key -> dense node id, by open addressing over typed arrays.
 * Owns: slots of two words (low half of the key, id + 1), the keys by id, the free ids. Load <=
 * 0.6; no tombstones: a deletion shifts the rest of its run back. Never shrinks.
 * Refuses: more than MAX_NODES keys, a key twice, an id that is not in use (all our bugs).
 * Does not do: mix bits. Keys come from a keyed pseudo-random function, so their low bits are the
 * address.
 */
import { invariant } from "@kv-group-bridge/runtime";

/** Most nodes of one index: a node id and a medium fit into 32 bits. */
export const MAX_NODES = 0x0fff_ffff;

const FIRST_SLOTS = 64;

/** Keys and their ids. Ids are dense: a freed id is used again before a new one is made. */
export class KeyTable {
  private slots = new Uint32Array(FIRST_SLOTS * 2);
  private slotMask = FIRST_SLOTS - 1;
  private lows = new Uint32Array(FIRST_SLOTS);
  private highs = new Uint32Array(FIRST_SLOTS);
  /** Stack of free ids. */
  private freeIds = new Uint32Array(FIRST_SLOTS);
  private freeCount = 0;
  /** Keys held now. */
  count = 0;
  /** Ids below this bound have been in use. */
  idBound = 0;

  /** The id of a key, or -1. Both halves are uint32. */
  find(low: number, high: number): number {
    const { slots, slotMask, highs } = this;
    let slot = low & slotMask;
    let entry = slots[slot * 2 + 1] as number;
    while (entry !== 0) {
      if (slots[slot * 2] === low && highs[entry - 1] === high) return entry - 1;
      slot = (slot + 1) & slotMask;
      entry = slots[slot * 2 + 1] as number;
    }
    return -1;
  }

  /**
   * Adds a key that `find` does not know; returns its id. Amortised O(1); a growth rehashes all
   * keys.
   */
  insert(low: number, high: number): number {
    invariant(this.count < MAX_NODES, "the key table has room");
    if ((this.count + 1) * 5 > (this.slotMask + 1) * 3) this.growSlots();
    const id = this.takeId();
    this.lows[id] = low;
    this.highs[id] = high;
    this.place(low, id + 1);
    this.count += 1;
    return id;
  }

  /** Forgets the key of an id in use. */
  delete(id: number): void {
    invariant(id < this.idBound && this.count > 0, "a deleted id was in use");
    const { slots, slotMask } = this;
    let hole = (this.lows[id] as number) & slotMask;
    while (slots[hole * 2 + 1] !== id + 1) {
      invariant(slots[hole * 2 + 1] !== 0, "an id in use is in the table");
      hole = (hole + 1) & slotMask;
    }
    let slot = (hole + 1) & slotMask;
    let entry = slots[slot * 2 + 1] as number;
    while (entry !== 0) {
      const low = slots[slot * 2] as number;
      // The entry may move back unless its home lies behind the hole.
      if (((slot - low) & slotMask) >= ((slot - hole) & slotMask)) {
        slots[hole * 2] = low;
        slots[hole * 2 + 1] = entry;
        hole = slot;
      }
      slot = (slot + 1) & slotMask;
      entry = slots[slot * 2 + 1] as number;
    }
    slots[hole * 2 + 1] = 0;
    this.releaseId(id);
    this.count -= 1;
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    return (
      this.slots.byteLength + this.lows.byteLength + this.highs.byteLength + this.freeIds.byteLength
    );
  }

  /** Checks every slot and returns 1 for each id in use. Allocates; for tests and checkpoints. */
  audit(): Uint8Array {
    const used = new Uint8Array(this.idBound);
    let seen = 0;
    for (let slot = 0; slot <= this.slotMask; slot++) {
      const entry = this.slots[slot * 2 + 1] ?? 0;
      if (entry === 0) continue;
      const id = entry - 1;
      invariant(id < this.idBound && used[id] === 0, "an id stands in one slot");
      invariant(this.slots[slot * 2] === this.lows[id], "a slot has its key's low half");
      invariant(this.find(this.lows[id] ?? 0, this.highs[id] ?? 0) === id, "a key is found");
      used[id] = 1;
      seen += 1;
    }
    invariant(seen === this.count, "the key count is right");
    invariant(seen * 5 <= (this.slotMask + 1) * 3, "the load is at most 0.6");
    invariant(seen + this.freeCount === this.idBound, "every other id is free");
    const free = new Uint8Array(this.idBound);
    for (let i = 0; i < this.freeCount; i++) {
      const id = this.freeIds[i] ?? 0;
      invariant(used[id] === 0 && free[id] === 0, "a free id is free once");
      free[id] = 1;
    }
    return used;
  }

  private place(low: number, entry: number): void {
    const { slots, slotMask } = this;
    let slot = low & slotMask;
    while (slots[slot * 2 + 1] !== 0) slot = (slot + 1) & slotMask;
    slots[slot * 2] = low;
    slots[slot * 2 + 1] = entry;
  }

  private growSlots(): void {
    const old = this.slots;
    const slotCount = (this.slotMask + 1) * 2;
    this.slots = new Uint32Array(slotCount * 2);
    this.slotMask = slotCount - 1;
    for (let i = 0; i < old.length; i += 2) {
      const entry = old[i + 1] as number;
      if (entry !== 0) this.place(old[i] as number, entry);
    }
  }

  private takeId(): number {
    if (this.freeCount > 0) {
      this.freeCount -= 1;
      return this.freeIds[this.freeCount] as number;
    }
    const id = this.idBound;
    if (id === this.lows.length) {
      this.lows = grown(this.lows);
      this.highs = grown(this.highs);
    }
    this.idBound += 1;
    return id;
  }

  private releaseId(id: number): void {
    if (this.freeCount === this.freeIds.length) this.freeIds = grown(this.freeIds);
    this.freeIds[this.freeCount] = id;
    this.freeCount += 1;
  }
}

/** A copy with twice the room. */
export function grown(array: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const next = new Uint32Array(array.length * 2);
  next.set(array);
  return next;
}
