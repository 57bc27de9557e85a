/**
 * What it is: memory for lists of records (two words each), in blocks whose capacity is a power of
 * two.
 * Owns: the words in chunks, the free blocks by size class. A block larger than a chunk has a chunk
 * of its own, which goes when the block is given back.
 * Refuses: more than 2^31 records (our bug).
 * Does not do: know what a record says; join freed blocks.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { NONE } from "./page-store.ts";
import { chunkAt, word } from "./words.ts";

const CHUNK_CLASS = 12;
const CHUNK_RECORDS = 1 << CHUNK_CLASS;
const SIZE_CLASSES = 31;
const NO_WORDS = new Int32Array(0);

/** Blocks by address: the chunk's number times its size, plus the first record's index. */
export class RecordArena {
  readonly chunks: Int32Array[] = [];
  private readonly freeHeads = new Int32Array(CHUNK_CLASS + 1).fill(NONE);
  /** Numbers of chunks that went. */
  private readonly freeChunks: number[] = [];
  private chunkNow = NONE;
  private used = CHUNK_RECORDS;
  sizeBytes = 0;

  /** A block of 2^sizeClass records. */
  take(sizeClass: number): number {
    invariant(sizeClass < SIZE_CLASSES, "a list has less than 2^31 records");
    if (sizeClass > CHUNK_CLASS) return this.addChunk(1 << sizeClass) * CHUNK_RECORDS;
    const free = word(this.freeHeads, sizeClass);
    if (free !== NONE) {
      this.freeHeads[sizeClass] = word(this.chunkOf(free), indexOf(free));
      return free;
    }
    const size = 1 << sizeClass;
    if (this.used + size > CHUNK_RECORDS) this.startChunk();
    const address = this.chunkNow * CHUNK_RECORDS + this.used;
    this.used += size;
    return address;
  }

  /** Gives a block back. */
  give(address: number, sizeClass: number): void {
    if (sizeClass > CHUNK_CLASS) {
      const chunk = address / CHUNK_RECORDS;
      this.sizeBytes -= this.chunkOf(address).byteLength;
      this.chunks[chunk] = NO_WORDS;
      this.freeChunks.push(chunk);
      return;
    }
    this.chunkOf(address)[indexOf(address)] = word(this.freeHeads, sizeClass);
    this.freeHeads[sizeClass] = address;
  }

  /** The array that a block is in. */
  chunkOf(address: number): Int32Array {
    return chunkAt(this.chunks, address >>> CHUNK_CLASS);
  }

  /** Calls back for every free block. For tests and checkpoints. */
  eachFree(visit: (address: number, records: number) => void): void {
    for (let sizeClass = 0; sizeClass <= CHUNK_CLASS; sizeClass++) {
      let address = word(this.freeHeads, sizeClass);
      while (address !== NONE) {
        visit(address, 1 << sizeClass);
        address = word(this.chunkOf(address), indexOf(address));
      }
    }
    if (this.chunkNow !== NONE && this.used < CHUNK_RECORDS) {
      visit(this.chunkNow * CHUNK_RECORDS + this.used, CHUNK_RECORDS - this.used);
    }
  }

  /** The rest of the present chunk becomes free blocks. */
  private startChunk(): void {
    while (this.used < CHUNK_RECORDS) {
      // The largest block that begins here and is aligned to its size.
      const sizeClass = 31 - Math.clz32(this.used & -this.used);
      this.give(this.chunkNow * CHUNK_RECORDS + this.used, sizeClass);
      this.used += 1 << sizeClass;
    }
    this.chunkNow = this.addChunk(CHUNK_RECORDS);
    this.used = 0;
  }

  private addChunk(records: number): number {
    const chunk = this.freeChunks.pop() ?? this.chunks.length;
    const words = new Int32Array(records * 2);
    this.chunks[chunk] = words;
    this.sizeBytes += words.byteLength;
    return chunk;
  }
}

/** Index of a block's first word in its chunk. */
export function indexOf(address: number): number {
  return (address & (CHUNK_RECORDS - 1)) * 2;
}
