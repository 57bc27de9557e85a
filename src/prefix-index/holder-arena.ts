/**
 * What it is: who holds each node. Per node one contiguous block of records (tag, group mask), so
 * that a walk reads a node's holders in a row.
 * Owns: the words of all blocks, the free blocks by size class, start and count by node. A block's
 * capacity is a power of two; freed blocks are used again in their size and are never joined.
 * Refuses: an index outside a node's block (our bug).
 * Does not do: find a holder (the place tables know the index), know what a rank is.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { grown } from "./key-table.ts";

/** Bits of a medium id in a tag and in a place. */
export const MEDIA_BITS = 4;

/** Media of one rank: ids 0 ... 15. */
export const MEDIA_COUNT = 1 << MEDIA_BITS;

/** Index of a record's words: words[2 * record] is the tag, words[2 * record + 1] the mask. */
const RECORD_WORDS = 2;
const SIZE_CLASSES = 26;
const NONE = 0xffff_ffff;

/** The tag of a holder: rank slot and medium. */
export function holderTag(slot: number, mediumId: number): number {
  return slot * MEDIA_COUNT + mediumId;
}

/**
 * Records of all nodes. Public arrays are for reading in hot loops; they are replaced when they
 * grow.
 */
export class HolderArena {
  words = new Uint32Array(64 * RECORD_WORDS);
  /** First record of a node's block. */
  starts = new Uint32Array(64);
  /** Records of a node. */
  counts = new Uint32Array(64);
  private sizeClasses = new Uint8Array(64);
  /** First free block by size class; its first word names the next one. */
  private readonly freeHeads = new Uint32Array(SIZE_CLASSES).fill(NONE);
  private bound = 0;
  /** Records of all nodes. */
  recordCount = 0;

  /** Adds a record to a node; returns its index in the node's block. */
  add(node: number, tag: number, mask: number): number {
    this.reserveNode(node);
    const count = this.counts[node] as number;
    if (count === 0) {
      this.starts[node] = this.take(0);
      this.sizeClasses[node] = 0;
    } else if (count === 1 << (this.sizeClasses[node] as number)) {
      this.move(node, (this.sizeClasses[node] as number) + 1);
    }
    const word = ((this.starts[node] as number) + count) * RECORD_WORDS;
    this.words[word] = tag;
    this.words[word + 1] = mask;
    this.counts[node] = count + 1;
    this.recordCount += 1;
    return count;
  }

  /** The group mask of a record, as a signed 32-bit pattern. */
  maskAt(node: number, index: number): number {
    return (this.words[this.wordOf(node, index) + 1] as number) | 0;
  }

  /** Replaces a group mask. */
  setMask(node: number, index: number, mask: number): void {
    this.words[this.wordOf(node, index) + 1] = mask;
  }

  /** The tag of a record. */
  tagAt(node: number, index: number): number {
    return this.words[this.wordOf(node, index)] as number;
  }

  /**
   * Removes a record. The node's last record takes its index: returns that record's tag, or -1 when
   * the removed one was the last. A node whose count is 0 has no block.
   */
  remove(node: number, index: number): number {
    const word = this.wordOf(node, index);
    const last = (this.counts[node] as number) - 1;
    let moved = -1;
    if (index !== last) {
      const from = this.wordOf(node, last);
      moved = this.words[from] as number;
      this.words[word] = moved;
      this.words[word + 1] = this.words[from + 1] as number;
    }
    this.counts[node] = last;
    this.recordCount -= 1;
    const sizeClass = this.sizeClasses[node] as number;
    if (last === 0) this.give(this.starts[node] as number, sizeClass);
    else if (sizeClass > 1 && last <= 1 << (sizeClass - 2)) this.move(node, sizeClass - 1);
    return moved;
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    const perNode = this.starts.byteLength + this.counts.byteLength + this.sizeClasses.byteLength;
    return this.words.byteLength + perNode;
  }

  /**
   * Checks that blocks in use and free blocks tile the arena. Allocates; for tests and checkpoints.
   */
  audit(): void {
    const owners = new Uint8Array(this.bound);
    let records = 0;
    for (let node = 0; node < this.counts.length; node++) {
      const count = this.counts[node] ?? 0;
      if (count === 0) continue;
      const capacity = 1 << (this.sizeClasses[node] ?? 0);
      invariant(count <= capacity, "a node's records fit into its block");
      claim(owners, this.starts[node] ?? NONE, capacity);
      records += count;
    }
    invariant(records === this.recordCount, "the record count is right");
    for (let sizeClass = 0; sizeClass < SIZE_CLASSES; sizeClass++) {
      let start = this.freeHeads[sizeClass] ?? NONE;
      while (start !== NONE) {
        claim(owners, start, 1 << sizeClass);
        start = this.words[start * RECORD_WORDS] ?? NONE;
      }
    }
    for (const owner of owners) invariant(owner === 1, "no record of the arena is lost");
  }

  private wordOf(node: number, index: number): number {
    invariant(index < (this.counts[node] as number), "a record is inside its node's block");
    return ((this.starts[node] as number) + index) * RECORD_WORDS;
  }

  private reserveNode(node: number): void {
    while (node >= this.starts.length) {
      this.starts = grown(this.starts);
      this.counts = grown(this.counts);
      const next = new Uint8Array(this.sizeClasses.length * 2);
      next.set(this.sizeClasses);
      this.sizeClasses = next;
    }
  }

  private move(node: number, sizeClass: number): void {
    const from = this.starts[node] as number;
    const to = this.take(sizeClass);
    const word = from * RECORD_WORDS;
    const count = this.counts[node] as number;
    this.words.copyWithin(to * RECORD_WORDS, word, word + count * RECORD_WORDS);
    this.give(from, this.sizeClasses[node] as number);
    this.starts[node] = to;
    this.sizeClasses[node] = sizeClass;
  }

  private take(sizeClass: number): number {
    invariant(sizeClass < SIZE_CLASSES, "a node has at most one record per rank and medium");
    const free = this.freeHeads[sizeClass] as number;
    if (free !== NONE) {
      this.freeHeads[sizeClass] = this.words[free * RECORD_WORDS] as number;
      return free;
    }
    const start = this.bound;
    this.bound += 1 << sizeClass;
    while (this.bound * RECORD_WORDS > this.words.length) this.words = grown(this.words);
    return start;
  }

  private give(start: number, sizeClass: number): void {
    this.words[start * RECORD_WORDS] = this.freeHeads[sizeClass] as number;
    this.freeHeads[sizeClass] = start;
  }
}

function claim(owners: Uint8Array, start: number, capacity: number): void {
  invariant(start + capacity <= owners.length, "a block lies inside the arena");
  for (let i = start; i < start + capacity; i++) {
    invariant(owners[i] === 0, "two blocks do not overlap");
    owners[i] = 1;
  }
}
