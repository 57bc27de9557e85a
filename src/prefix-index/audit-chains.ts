/**
 * What it is: the recomputation of all invariants of pages, chains, key table and record lists.
 * Owns: nothing.
 * Refuses: any state in which two structures disagree, by InvariantViolation.
 * Does not do: know ranks.
 */
import { invariant } from "@kv-group-bridge/runtime";
import {
  FIRST_PAGE,
  LAST_PAGE,
  LENGTH,
  LIST_ADDRESS,
  LIST_CLASS,
  LIST_COUNT,
  MAX_CHAIN_NODES,
  STEP,
} from "./chain-store.ts";
import type { Chains } from "./chains.ts";
import {
  CHAIN,
  CHUNK_PAGES,
  HOLDERS,
  LIVE,
  NEXT,
  NONE,
  ORDINAL,
  PAGE_NODES,
  PREVIOUS,
} from "./page-store.ts";
import { word } from "./words.ts";

/** What the record lists say. */
export interface HeldEntries {
  /** Entries by "slot/medium/bit". */
  readonly entries: ReadonlyMap<string, number>;
  /** Records by "slot/chain". */
  readonly records: ReadonlyMap<string, number>;
}

/** Throws InvariantViolation unless all structures under the entries agree. Slow; allocates. */
export function auditChains(chains: Chains): HeldEntries {
  const { pages, facts, keys, lists } = chains;
  const entries = new Map<string, number>();
  const records = new Map<string, number>();
  const blocks: [number, number][] = [];
  let pagesInUse = 0;
  let nodes = 0;
  let recordCount = 0;
  let inUse = 0;
  for (let chain = 0; chain < facts.bound; chain++) {
    if (facts.get(chain, LENGTH) === 0) continue;
    inUse += 1;
    const holders = auditRecords(chains, chain, entries, records);
    const count = facts.get(chain, LIST_COUNT);
    recordCount += count;
    if (count > 0) {
      const capacity = 1 << facts.get(chain, LIST_CLASS);
      invariant(count <= capacity, "a chain's records fit into their block");
      blocks.push([facts.get(chain, LIST_ADDRESS), capacity]);
    }
    const found = auditPages(chains, chain, holders);
    pagesInUse += found.pages;
    nodes += found.nodes;
  }
  invariant(inUse === facts.count, "the chain count is right");
  invariant(
    nodes === keys.count && nodes <= chains.maxNodes,
    "every node has its key in the table",
  );
  invariant(pagesInUse + pages.freeCount === pages.bound, "every other page is free");
  invariant(pages.chunks.length === Math.ceil(pages.bound / CHUNK_PAGES), "chunks hold the pages");
  invariant(recordCount === lists.recordCount, "the record count is right");
  keys.audit();
  auditArena(chains, blocks);
  return { entries, records };
}

/** Checks a chain's records; returns how many entries each offset has. */
function auditRecords(
  { facts, lists }: Chains,
  chain: number,
  entries: Map<string, number>,
  records: Map<string, number>,
): Int32Array {
  const length = facts.get(chain, LENGTH);
  const holders = new Int32Array(length);
  let holderBefore = -1;
  let lastBefore = -1;
  for (let i = 0; i < lists.countOf(chain); i++) {
    const head = word(lists.wordsOf(chain), lists.baseOf(chain) + i * 2);
    const range = word(lists.wordsOf(chain), lists.baseOf(chain) + i * 2 + 1);
    const [holder, first, last] = [head >>> 3, range >>> 16, range & 0xffff];
    const stride = 1 << (head & 7);
    const isSorted = holder > holderBefore || (holder === holderBefore && first > lastBefore);
    invariant(isSorted, "records are sorted and do not overlap");
    invariant(first <= last && last < length, "a record is inside its chain");
    invariant((last - first) % stride === 0, "a record's last offset is on its stride");
    invariant(first < last || stride === 1, "a record of one offset has no stride");
    for (let offset = first; offset <= last; offset += stride) {
      holders[offset] = word(holders, offset) + 1;
    }
    const slot = (holder >>> 5) & 0xf_ffff;
    const key = `${slot}/${holder >>> 25}/${holder & 31}`;
    entries.set(key, (entries.get(key) ?? 0) + (last - first) / stride + 1);
    records.set(`${slot}/${chain}`, (records.get(`${slot}/${chain}`) ?? 0) + 1);
    holderBefore = holder;
    lastBefore = last;
  }
  return holders;
}

/** Checks a chain's pages against the entries of its offsets; counts pages and nodes. */
function auditPages(
  chains: Chains,
  chain: number,
  holders: Int32Array,
): { pages: number; nodes: number } {
  const { pages, facts, keys } = chains;
  const length = facts.get(chain, LENGTH);
  invariant(length <= MAX_CHAIN_NODES && facts.get(chain, STEP) > 0, "a chain keeps to its bounds");
  let count = 0;
  let nodes = 0;
  let previous = NONE;
  let ordinal = -1;
  for (let page = facts.get(chain, FIRST_PAGE); page !== NONE; page = pages.get(page, NEXT)) {
    invariant(pages.get(page, CHAIN) === chain, "a page is its chain's");
    invariant(pages.get(page, PREVIOUS) === previous, "pages are linked both ways");
    invariant(pages.get(page, ORDINAL) > ordinal, "pages are in order");
    ordinal = pages.get(page, ORDINAL);
    let live = 0;
    for (let slot = 0; slot < PAGE_NODES; slot++) {
      const offset = ordinal * PAGE_NODES + slot;
      const entriesOfNode = pages.get(page, HOLDERS + slot);
      invariant(entriesOfNode === (holders[offset] ?? 0), "a node counts its entries");
      if (entriesOfNode === 0) continue;
      live += 1;
      const [low, high] = [pages.get(page, slot * 2), pages.get(page, slot * 2 + 1)];
      invariant(keys.find(low, high) === page * PAGE_NODES + slot, "a node is found by its key");
      holders[offset] = 0;
    }
    invariant(live > 0 && live === pages.get(page, LIVE), "a page counts its nodes and has one");
    nodes += live;
    count += 1;
    previous = page;
  }
  invariant(count > 0 && facts.get(chain, LAST_PAGE) === previous, "a chain knows its last page");
  invariant(
    holders.every((entriesOfNode) => entriesOfNode === 0),
    "a record covers nodes only",
  );
  let last = PAGE_NODES - 1;
  while (last > 0 && pages.get(previous, HOLDERS + last) === 0) last -= 1;
  invariant(length === ordinal * PAGE_NODES + last + 1, "a chain ends at its last node");
  return { pages: count, nodes };
}

/** Checks that blocks in use and free blocks tile the arena. */
function auditArena({ lists }: Chains, blocks: [number, number][]): void {
  let records = 0;
  lists.arena.eachFree((address, count) => void blocks.push([address, count]));
  blocks.sort(([a], [b]) => a - b);
  let end = 0;
  for (const [address, count] of blocks) {
    invariant(address >= end, "two blocks do not overlap");
    // The addresses of a chunk of its own say nothing of its size.
    end = address + Math.min(count, 4096);
    records += count;
  }
  invariant(records * 8 === lists.arena.sizeBytes, "no record of the arena is lost");
}
