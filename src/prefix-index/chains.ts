/**
 * What it is: the nodes of an index. A node is a key at a place of a chain: a run of nodes that are
 * a step of tokens apart, on linked pages. Its position follows from the place. Chains have no
 * parents: a node is found by its key alone, and a chain only says which key is likely the next one.
 * Owns: pages, chains, key table and record lists, kept in step. A node without an entry is freed: a
 * hole in its chain, a page without nodes is given back, a chain without pages goes.
 * Refuses: more nodes than the ceiling (`create` says so by NONE).
 * Does not do: count a rank's entries; decide what is stored.
 */
import { invariant } from "@kv-group-bridge/runtime";
import {
  ChainStore,
  FIRST_PAGE,
  LAST_PAGE,
  LENGTH,
  MAX_CHAIN_NODES,
  START,
  STEP,
} from "./chain-store.ts";
import { HolderLists, type RecordCounter } from "./holder-lists.ts";
import { KeyTable } from "./key-table.ts";
import {
  baseOf,
  CHAIN,
  HOLDERS,
  LIVE,
  NEXT,
  NONE,
  ORDINAL,
  PAGE_NODES,
  PageStore,
  PREVIOUS,
} from "./page-store.ts";
import { word } from "./words.ts";

/** Nodes by id: page * 8 + slot. An id is valid until its node is freed, moved or pages are packed. */
export class Chains {
  readonly pages = new PageStore();
  readonly facts = new ChainStore();
  readonly keys = new KeyTable(this.pages);
  readonly lists: HolderLists;
  readonly maxNodes: number;

  constructor(maxNodes: number, counter: RecordCounter) {
    this.maxNodes = maxNodes;
    this.lists = new HolderLists(this.facts, counter);
  }

  /** The chain of a node. */
  chainOf(node: number): number {
    return this.pages.get(node >>> 3, CHAIN);
  }

  /** The place of a node in its chain. */
  offsetOf(node: number): number {
    return this.pages.get(node >>> 3, ORDINAL) * PAGE_NODES + (node & 7);
  }

  /** Tokens from the root to a node: the end of its entries plus their ranks' look-ahead. */
  positionOf(node: number): number {
    const chain = this.chainOf(node);
    return this.facts.get(chain, START) + this.offsetOf(node) * this.facts.get(chain, STEP);
  }

  /** Entries of a node. */
  holdersOf(node: number): number {
    return this.pages.get(node >>> 3, HOLDERS + (node & 7));
  }

  /** Counts an entry of a node. */
  hold(node: number): void {
    const chunk = this.pages.chunkOf(node >>> 3);
    const at = baseOf(node >>> 3) + HOLDERS + (node & 7);
    chunk[at] = word(chunk, at) + 1;
  }

  /**
   * The node a step behind `previous` when its chain has the key there, else NONE: a guess that
   * spares a probe of the table.
   */
  follow(previous: number, stepTokens: number, low: number, high: number): number {
    const page = previous >>> 3;
    if (this.facts.get(this.chainOf(previous), STEP) !== stepTokens) return NONE;
    let node = previous + 1;
    if ((node & 7) === 0) {
      const next = this.pages.get(page, NEXT);
      if (next === NONE || this.pages.get(next, ORDINAL) !== this.pages.get(page, ORDINAL) + 1) {
        return NONE;
      }
      node = next * PAGE_NODES;
    }
    const chunk = this.pages.chunkOf(node >>> 3);
    const base = baseOf(node >>> 3);
    const slot = node & 7;
    const isSame =
      word(chunk, base + slot * 2) === low &&
      word(chunk, base + slot * 2 + 1) === high &&
      word(chunk, base + HOLDERS + slot) !== 0;
    return isSame ? node : NONE;
  }

  /**
   * A new node, or NONE at the ceiling. The caller counts an entry of it at once. It goes behind
   * `previous` (a node a step before it, or NONE) where that place is free, else begins a chain.
   */
  create(
    low: number,
    high: number,
    positionTokens: number,
    stepTokens: number,
    previous: number,
  ): number {
    if (this.keys.count >= this.maxNodes) return NONE;
    let node = previous === NONE ? NONE : this.placeAfter(previous, stepTokens);
    if (node === NONE) {
      const chain = this.facts.take(positionTokens, stepTokens);
      node = this.linkPage(chain, NONE, 0) * PAGE_NODES;
    }
    this.occupy(node, low, high);
    this.keys.insert(low, high, node);
    return node;
  }

  /**
   * Moves a node behind `previous` when it stands alone or in a chain of larger steps, so that a
   * chain holds whatever a finer run passes. Returns the node's id from then on.
   */
  absorb(node: number, previous: number, stepTokens: number): number {
    const from = this.chainOf(node);
    if (from === this.chainOf(previous)) return node;
    const isMovable = this.facts.get(from, LENGTH) === 1 || this.facts.get(from, STEP) > stepTokens;
    if (!isMovable) return node;
    const target = this.placeAfter(previous, stepTokens);
    if (target === NONE) return node;
    const chunk = this.pages.chunkOf(node >>> 3);
    const at = baseOf(node >>> 3);
    const low = word(chunk, at + (node & 7) * 2);
    const high = word(chunk, at + (node & 7) * 2 + 1);
    this.occupy(target, low, high);
    this.pages.set(target >>> 3, HOLDERS + (target & 7), this.holdersOf(node));
    this.keys.move(low, high, node, target);
    this.moveRecords(from, this.offsetOf(node), this.chainOf(target), this.offsetOf(target));
    this.vacate(node);
    return target;
  }

  /** Takes an entry of a node away; frees the node with its last one. Its record went before. */
  release(node: number): void {
    const chunk = this.pages.chunkOf(node >>> 3);
    const base = baseOf(node >>> 3);
    const slot = node & 7;
    const holders = word(chunk, base + HOLDERS + slot) - 1;
    invariant(holders >= 0, "a node does not lose more than it held");
    chunk[base + HOLDERS + slot] = holders;
    if (holders > 0) return;
    this.keys.delete(word(chunk, base + slot * 2), word(chunk, base + slot * 2 + 1), node);
    this.vacate(node);
  }

  /** `release` for the nodes at first, first + 2^shift ... last of a chain. */
  releaseRange(chain: number, first: number, last: number, shift: number): void {
    let page = this.facts.get(chain, FIRST_PAGE);
    for (let offset = first; offset <= last; ) {
      const ordinal = offset >>> 3;
      while (this.pages.get(page, ORDINAL) < ordinal) page = this.pages.get(page, NEXT);
      const next = this.pages.get(page, NEXT);
      for (; offset <= last && offset >>> 3 === ordinal; offset += 1 << shift) {
        this.release(page * PAGE_NODES + (offset & 7));
      }
      page = next;
    }
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    const ofLists = this.facts.sizeBytes + this.lists.arena.sizeBytes;
    return this.pages.sizeBytes + this.keys.sizeBytes + ofLists;
  }

  /** Writes a key into an empty place. */
  private occupy(node: number, low: number, high: number): void {
    const page = node >>> 3;
    const chunk = this.pages.chunkOf(page);
    const base = baseOf(page);
    chunk[base + (node & 7) * 2] = low;
    chunk[base + (node & 7) * 2 + 1] = high;
    chunk[base + LIVE] = word(chunk, base + LIVE) + 1;
    const chain = word(chunk, base + CHAIN);
    const length = word(chunk, base + ORDINAL) * PAGE_NODES + (node & 7) + 1;
    if (length > this.facts.get(chain, LENGTH)) this.facts.set(chain, LENGTH, length);
  }

  /** Leaves a place; gives back what is empty then. */
  private vacate(node: number): void {
    const page = node >>> 3;
    const chain = this.chainOf(node);
    const offset = this.offsetOf(node);
    const live = this.pages.get(page, LIVE) - 1;
    this.pages.set(page, HOLDERS + (node & 7), 0);
    this.pages.set(page, LIVE, live);
    if (live === 0) this.dropPage(page, chain);
    const last = this.facts.get(chain, LAST_PAGE);
    if (last === NONE) this.facts.give(chain);
    else if (offset + 1 === this.facts.get(chain, LENGTH)) this.shorten(chain, last);
  }

  /** The length again, after the last place was left. */
  private shorten(chain: number, lastPage: number): void {
    let slot = PAGE_NODES - 1;
    while (this.pages.get(lastPage, HOLDERS + slot) === 0) slot -= 1;
    const length = this.pages.get(lastPage, ORDINAL) * PAGE_NODES + slot + 1;
    this.facts.set(chain, LENGTH, length);
  }

  /** The empty place a step behind a node, or NONE: taken, another step, or the longest length. */
  private placeAfter(previous: number, stepTokens: number): number {
    const page = previous >>> 3;
    const chain = this.chainOf(previous);
    const next = this.offsetOf(previous) + 1;
    if (next >= MAX_CHAIN_NODES) return NONE;
    if (this.facts.get(chain, STEP) !== stepTokens) {
      // A node that stands alone has no neighbour to be a step apart from.
      if (this.facts.get(chain, LENGTH) !== 1) return NONE;
      this.facts.set(chain, STEP, stepTokens);
    }
    if ((next & 7) !== 0) return this.holdersOf(previous + 1) === 0 ? previous + 1 : NONE;
    const nextPage = this.pages.get(page, NEXT);
    if (nextPage === NONE || this.pages.get(nextPage, ORDINAL) !== next >>> 3) {
      return this.linkPage(chain, page, next >>> 3) * PAGE_NODES;
    }
    return this.holdersOf(nextPage * PAGE_NODES) === 0 ? nextPage * PAGE_NODES : NONE;
  }

  /** A new page of a chain behind another one, or as its first. */
  private linkPage(chain: number, previous: number, ordinal: number): number {
    const page = this.pages.take(chain, ordinal);
    const next = previous === NONE ? NONE : this.pages.get(previous, NEXT);
    this.pages.set(page, PREVIOUS, previous);
    this.pages.set(page, NEXT, next);
    if (previous === NONE) this.facts.set(chain, FIRST_PAGE, page);
    else this.pages.set(previous, NEXT, page);
    if (next === NONE) this.facts.set(chain, LAST_PAGE, page);
    else this.pages.set(next, PREVIOUS, page);
    return page;
  }

  private dropPage(page: number, chain: number): void {
    const next = this.pages.get(page, NEXT);
    const previous = this.pages.get(page, PREVIOUS);
    if (previous === NONE) this.facts.set(chain, FIRST_PAGE, next);
    else this.pages.set(previous, NEXT, next);
    if (next === NONE) this.facts.set(chain, LAST_PAGE, previous);
    else this.pages.set(next, PREVIOUS, previous);
    this.pages.give(page);
  }

  /** Moves every holder's record of one offset to another chain. */
  private moveRecords(from: number, offset: number, to: number, newOffset: number): void {
    const { lists } = this;
    for (let i = 0; i < lists.countOf(from); ) {
      const count = lists.countOf(from);
      const holder = word(lists.wordsOf(from), lists.baseOf(from) + i * 2) >>> 3;
      if (lists.removeOne(from, holder, offset)) lists.addOne(to, holder, newOffset);
      // A record that went brings the next one to its index.
      if (lists.countOf(from) >= count) i += 1;
    }
  }
}
