/**
 * What it is: the packing of pages: pages of the last chunk move to free pages of other chunks, and
 * the chunk goes. So memory falls with the entries.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: run inside an operation (node ids change): the index packs after it.
 */
import { FIRST_PAGE, LAST_PAGE } from "./chain-store.ts";
import type { Chains } from "./chains.ts";
import {
  baseOf,
  CHAIN,
  CHUNK_PAGES,
  HOLDERS,
  NEXT,
  NONE,
  ORDINAL,
  PAGE_NODES,
  PAGE_WORDS,
  PREVIOUS,
} from "./page-store.ts";
import { word } from "./words.ts";

/** Free pages stay below 1/16 of all pages and a chunk. */
const FREE_SHARE_SHIFT = 4;

/** Drops at most `maxChunks` chunks, each when the other chunks have room for its pages. */
export function packPages(chains: Chains, maxChunks: number): void {
  const { pages } = chains;
  for (let i = 0; i < maxChunks; i++) {
    if (pages.freeCount < CHUNK_PAGES + (pages.bound >>> FREE_SHARE_SHIFT)) return;
    emptyLastChunk(chains);
  }
}

function emptyLastChunk(chains: Chains): void {
  const { pages } = chains;
  const first = (pages.chunks.length - 1) * CHUNK_PAGES;
  for (let page = first; page < pages.bound; page++) {
    if (pages.get(page, CHAIN) === NONE) pages.unlinkFree(page);
  }
  for (let page = first; page < pages.bound; page++) {
    if (pages.get(page, CHAIN) !== NONE) movePage(chains, page);
  }
  pages.dropLastChunk();
}

function movePage(chains: Chains, page: number): void {
  const { pages, facts, keys } = chains;
  const chain = pages.get(page, CHAIN);
  const next = pages.get(page, NEXT);
  const previous = pages.get(page, PREVIOUS);
  const target = pages.take(chain, pages.get(page, ORDINAL));
  const source = pages.chunkOf(page);
  const base = baseOf(page);
  pages.chunkOf(target).set(source.subarray(base, base + PAGE_WORDS), baseOf(target));
  if (previous === NONE) facts.set(chain, FIRST_PAGE, target);
  else pages.set(previous, NEXT, target);
  if (next === NONE) facts.set(chain, LAST_PAGE, target);
  else pages.set(next, PREVIOUS, target);
  for (let slot = 0; slot < PAGE_NODES; slot++) {
    if (word(source, base + HOLDERS + slot) === 0) continue;
    const low = word(source, base + slot * 2);
    const high = word(source, base + slot * 2 + 1);
    keys.move(low, high, page * PAGE_NODES + slot, target * PAGE_NODES + slot);
  }
}
