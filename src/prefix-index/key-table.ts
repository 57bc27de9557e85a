/**
 * What it is: 64-bit prefix key -> node, by open addressing in segments.
 * Owns: per segment slots of two words (low half of the key, node + 1). A segment grows by a quarter
 * at a load of 0.78 and shrinks below 0.6, on its own: no operation copies the whole table.
 * No tombstones: a deletion shifts the rest of its run back.
 * Refuses: deleting a key that is not there (our bug).
 * Does not do: keep the keys (the pages do); mix bits. Keys come from a keyed pseudo-random
 * function, so the high half names the segment and the low half the address.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { baseOf, type PageStore } from "./page-store.ts";
import { chunkAt, word } from "./words.ts";

/** Most nodes of one index; even with one node a page, page numbers fit into 28 bits. */
export const MAX_NODES = 0x0fff_ffff;

const SEGMENT_SHIFT = 24;
const SEGMENTS = 1 << (32 - SEGMENT_SHIFT);
const FIRST_SLOTS = 8;
const MOST_LOAD = 0.78;
const LEAST_LOAD = 0.6;
const MIDDLE_LOAD = 0.69;
const TO_UNIT = 2 ** -32;

/** The keys of one index and their nodes. */
export class KeyTable {
  private readonly segments: Int32Array[] = [];
  private readonly counts = new Int32Array(SEGMENTS);
  private readonly pages: PageStore;
  /** Slots of all segments. */
  private slotCount = 0;
  /** Keys held now. */
  count = 0;

  constructor(pages: PageStore) {
    this.pages = pages;
    for (let i = 0; i < SEGMENTS; i++) this.segments.push(this.makeSlots(FIRST_SLOTS));
  }

  /** The node of a key, or -1. Both halves are signed 32-bit patterns. */
  find(low: number, high: number): number {
    const slots = chunkAt(this.segments, high >>> SEGMENT_SHIFT);
    const { chunks } = this.pages;
    const bound = slots.length;
    let at = homeOf(low, bound);
    for (;;) {
      const entry = word(slots, at + 1);
      if (entry === 0) return -1;
      if (word(slots, at) === low) {
        const node = entry - 1;
        const chunk = chunkAt(chunks, node >>> 12);
        if (word(chunk, baseOf(node >>> 3) + (node & 7) * 2 + 1) === high) return node;
      }
      at += 2;
      if (at === bound) at = 0;
    }
  }

  /** Adds a key that `find` does not know. */
  insert(low: number, high: number, node: number): void {
    const segment = high >>> SEGMENT_SHIFT;
    const count = word(this.counts, segment) + 1;
    const present = chunkAt(this.segments, segment).length / 2;
    if (count > present * MOST_LOAD) this.resize(segment, present + (present >>> 2));
    place(chunkAt(this.segments, segment), low, node + 1);
    this.counts[segment] = count;
    this.count += 1;
  }

  /** Gives a known key another node. */
  move(low: number, high: number, from: number, to: number): void {
    const slots = chunkAt(this.segments, high >>> SEGMENT_SHIFT);
    slots[slotOf(slots, low, from) + 1] = to + 1;
  }

  /** Forgets a key. */
  delete(low: number, high: number, node: number): void {
    const segment = high >>> SEGMENT_SHIFT;
    const slots = chunkAt(this.segments, segment);
    const bound = slots.length;
    let hole = slotOf(slots, low, node);
    let at = hole;
    for (;;) {
      at += 2;
      if (at === bound) at = 0;
      const entry = word(slots, at + 1);
      if (entry === 0) break;
      const other = word(slots, at);
      const home = homeOf(other, bound);
      // An entry may move to the hole when the hole lies between its home and its slot.
      if (distance(home, at, bound) < distance(hole, at, bound)) continue;
      slots[hole] = other;
      slots[hole + 1] = entry;
      hole = at;
    }
    slots[hole + 1] = 0;
    const count = word(this.counts, segment) - 1;
    this.counts[segment] = count;
    this.count -= 1;
    const present = bound / 2;
    if (present > FIRST_SLOTS && count < present * LEAST_LOAD) {
      this.resize(segment, Math.max(FIRST_SLOTS, Math.ceil(count / MIDDLE_LOAD)));
    }
  }

  /** Bytes of all segments. */
  get sizeBytes(): number {
    return this.slotCount * 8;
  }

  /** Checks that every slot is found and counted. For tests and checkpoints. */
  audit(): void {
    let seen = 0;
    let slotCount = 0;
    for (const [segment, slots] of this.segments.entries()) {
      let count = 0;
      slotCount += slots.length / 2;
      for (let at = 0; at < slots.length; at += 2) {
        const entry = word(slots, at + 1);
        if (entry === 0) continue;
        count += 1;
        const node = entry - 1;
        const field = (node & 7) * 2;
        const low = this.pages.get(node >>> 3, field);
        const high = this.pages.get(node >>> 3, field + 1);
        invariant(low === word(slots, at), "a slot has its key's low half");
        invariant(high >>> SEGMENT_SHIFT === segment, "a key is in its segment");
        invariant(this.find(low, high) === node, "a key is found");
      }
      invariant(count === word(this.counts, segment), "a segment counts its keys");
      invariant(count < slots.length / 2, "a segment has an empty slot");
      seen += count;
    }
    invariant(seen === this.count, "the key count is right");
    invariant(slotCount === this.slotCount, "the slot count is right");
  }

  private resize(segment: number, slotCount: number): void {
    const old = chunkAt(this.segments, segment);
    const slots = this.makeSlots(slotCount);
    this.slotCount -= old.length / 2;
    this.segments[segment] = slots;
    for (let at = 0; at < old.length; at += 2) {
      const entry = word(old, at + 1);
      if (entry !== 0) place(slots, word(old, at), entry);
    }
  }

  private makeSlots(slotCount: number): Int32Array {
    this.slotCount += slotCount;
    return new Int32Array(slotCount * 2);
  }
}

/** Index of the first word of a key's home slot: the low half scaled to the slots. */
function homeOf(low: number, bound: number): number {
  return (((low >>> 0) * (bound * 0.5) * TO_UNIT) | 0) * 2;
}

function distance(from: number, to: number, bound: number): number {
  return to >= from ? to - from : to - from + bound;
}

function place(slots: Int32Array, low: number, entry: number): void {
  const bound = slots.length;
  let at = homeOf(low, bound);
  while (word(slots, at + 1) !== 0) {
    at += 2;
    if (at === bound) at = 0;
  }
  slots[at] = low;
  slots[at + 1] = entry;
}

function slotOf(slots: Int32Array, low: number, node: number): number {
  const bound = slots.length;
  let at = homeOf(low, bound);
  for (;;) {
    const entry = word(slots, at + 1);
    invariant(entry !== 0, "a node in use is in the table");
    if (entry === node + 1) return at;
    at += 2;
    if (at === bound) at = 0;
  }
}
