/**
 * What it is: pages of 8 nodes. A page is 32 words: keys (low, high) of its nodes, how many entries
 * each node has, the page's chain, its ordinal in the chain, next and previous page, live nodes.
 * Owns: the pages' memory in chunks, the free pages. A node is live while its count is above 0.
 * Refuses: giving back a page that is free (our bug).
 * Does not do: know chains or keys; move pages (`Chains` does, it knows who points at them).
 */
import { invariant } from "@kv-group-bridge/runtime";
import { chunkAt, word } from "./words.ts";

/** Nodes of a page. */
export const PAGE_NODES = 8;
export const PAGE_WORDS = 32;
export const PAGE_SHIFT = 9;
/** Pages of a chunk. */
export const CHUNK_PAGES = 1 << PAGE_SHIFT;
export const PAGE_MASK = CHUNK_PAGES - 1;
/** Word offsets in a page. Keys stand at 2 * slot and 2 * slot + 1. */
export const HOLDERS = 16;
export const CHAIN = 24;
export const ORDINAL = 25;
export const NEXT = 26;
export const PREVIOUS = 27;
export const LIVE = 28;
/** No page, no node, no chain. */
export const NONE = -1;

/** The pages. `chunks` is for reading in hot loops; its arrays stay while a chunk is in use. */
export class PageStore {
  readonly chunks: Int32Array[] = [];
  private freeHead = NONE;
  /** Free pages below `bound`. */
  freeCount = 0;
  /** Pages below this bound have been in use since their chunk was made. */
  bound = 0;

  /** A page without live nodes for a chain. Its links are NONE. */
  take(chain: number, ordinal: number): number {
    const page = this.freeHead === NONE ? this.extend() : this.freeHead;
    const chunk = this.chunkOf(page);
    const base = baseOf(page);
    if (page === this.freeHead) this.unlinkFree(page);
    chunk.fill(0, base, base + PAGE_WORDS);
    chunk[base + CHAIN] = chain;
    chunk[base + ORDINAL] = ordinal;
    chunk[base + NEXT] = NONE;
    chunk[base + PREVIOUS] = NONE;
    return page;
  }

  /** Frees a page that nothing points at any more. */
  give(page: number): void {
    invariant(this.get(page, CHAIN) !== NONE, "a page is freed once");
    const head = this.freeHead;
    this.set(page, CHAIN, NONE);
    this.set(page, NEXT, head);
    this.set(page, PREVIOUS, NONE);
    if (head !== NONE) this.set(head, PREVIOUS, page);
    this.freeHead = page;
    this.freeCount += 1;
  }

  /** Takes a free page out of the free list. */
  unlinkFree(page: number): void {
    const next = this.get(page, NEXT);
    const previous = this.get(page, PREVIOUS);
    if (previous === NONE) this.freeHead = next;
    else this.set(previous, NEXT, next);
    if (next !== NONE) this.set(next, PREVIOUS, previous);
    this.freeCount -= 1;
  }

  /** Drops the last chunk; its pages are neither in use nor in the free list. */
  dropLastChunk(): void {
    this.chunks.pop();
    this.bound = this.chunks.length * CHUNK_PAGES;
  }

  get(page: number, field: number): number {
    return word(this.chunkOf(page), baseOf(page) + field);
  }

  set(page: number, field: number, value: number): void {
    this.chunkOf(page)[baseOf(page) + field] = value;
  }

  chunkOf(page: number): Int32Array {
    return chunkAt(this.chunks, page >>> PAGE_SHIFT);
  }

  /** Bytes of all chunks. */
  get sizeBytes(): number {
    return this.chunks.length * CHUNK_PAGES * PAGE_WORDS * 4;
  }

  private extend(): number {
    const page = this.bound;
    if ((page & PAGE_MASK) === 0) this.chunks.push(new Int32Array(CHUNK_PAGES * PAGE_WORDS));
    this.bound = page + 1;
    return page;
  }
}

/** Index of a page's first word in its chunk. */
export function baseOf(page: number): number {
  return (page & PAGE_MASK) * PAGE_WORDS;
}
