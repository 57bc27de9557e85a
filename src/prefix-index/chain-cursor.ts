/**
 * What it is: a place in a chain that a walk follows: which of the chain's nodes the prompt has had.
 * Owns: the place, and which runs were found when the chain was opened.
 * Refuses: nothing; positions ascend.
 * Does not do: probe the key table, read records.
 */

import { LENGTH, START, STEP } from "./chain-store.ts";
import type { Chains } from "./chains.ts";
import { baseOf, HOLDERS, NEXT, NONE, ORDINAL } from "./page-store.ts";
import { word } from "./words.ts";

/** What a chain says of a position. */
export const ELSEWHERE = 0;
export const MATCH = 1;
export const MISMATCH = 2;
export const PAST = 3;

/** One cursor, used again from chain to chain. */
export class ChainCursor {
  private readonly chains: Chains;
  chain = NONE;
  startTokens = 0;
  stepTokens = 1;
  /** Nodes of the chain, holes included. */
  length = 0;
  page = NONE;
  ordinal = 0;
  /** Slot of the last match in its page; a search for the next one may have moved to a later page. */
  slot = 0;
  /** Position of the last match. */
  lastTokens = 0;
  /** Runs from ... to - 1 were found in this chain. */
  from = 0;
  to = 0;

  constructor(chains: Chains) {
    this.chains = chains;
  }

  /** Stands at a node that the prompt has. */
  open(node: number, positionTokens: number): void {
    const { pages, facts } = this.chains;
    const chain = this.chains.chainOf(node);
    this.chain = chain;
    this.startTokens = facts.get(chain, START);
    this.stepTokens = facts.get(chain, STEP);
    this.length = facts.get(chain, LENGTH);
    this.page = node >>> 3;
    this.ordinal = pages.get(this.page, ORDINAL);
    this.slot = node & 7;
    this.lastTokens = positionTokens;
  }

  /** Place of the last match in the chain. */
  get offset(): number {
    return (this.lastTokens - this.startTokens) / this.stepTokens;
  }

  /** Whether the last match was the chain's last node. */
  get isAtEnd(): boolean {
    return this.offset + 1 >= this.length;
  }

  /**
   * Compares the key at a position. ELSEWHERE: the chain has no node there. After a MATCH the cursor
   * stands there.
   */
  compare(positionTokens: number, low: number, high: number): number {
    const distance = positionTokens - this.startTokens;
    const offset = Math.floor(distance / this.stepTokens);
    if (offset * this.stepTokens !== distance) return ELSEWHERE;
    if (offset >= this.length) return PAST;
    const { pages } = this.chains;
    const ordinal = offset >>> 3;
    while (this.ordinal < ordinal) {
      this.page = pages.get(this.page, NEXT);
      this.ordinal = pages.get(this.page, ORDINAL);
    }
    if (this.ordinal !== ordinal) return ELSEWHERE;
    const slot = offset & 7;
    const chunk = pages.chunkOf(this.page);
    const base = baseOf(this.page);
    if (word(chunk, base + HOLDERS + slot) === 0) return ELSEWHERE;
    const isSame =
      word(chunk, base + slot * 2) === low && word(chunk, base + slot * 2 + 1) === high;
    if (!isSame) return MISMATCH;
    this.slot = slot;
    this.lastTokens = positionTokens;
    return MATCH;
  }
}
