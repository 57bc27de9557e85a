/**
 * What it is: the writing of one run: consecutive keys of one group of one rank in one medium become
 * nodes and as few records as possible.
 * Owns: the stretch of the run that is not written as a record yet: offsets of one chain, evenly
 * spaced, in a range where the holder has no record.
 * Refuses: keys at a ceiling or known at another position (counted in the outcome).
 * Does not do: check handles, groups or media; the index did.
 */
import type { Chains } from "./chains.ts";
import type { StoreOutcome } from "./outcomes.ts";
import { NONE, ORDINAL, PAGE_NODES } from "./page-store.ts";
import { MAX_SHIFT } from "./record.ts";

/** One writer, used again for every run. */
export class RunStore {
  private readonly chains: Chains;
  private holder = 0;
  private stepTokens = 0;
  /** Entries that the rank may still get. */
  private room = 0;
  /** The last key's node, or NONE when it has none. */
  private previous = NONE;
  /** The stretch: its chain, or NONE. */
  private chain = NONE;
  private first = 0;
  private last = 0;
  private shift = 0;
  private freeUntil = 0;
  /** The record of the holder that the last key was found in: its chain, or NONE. */
  private heldChain = NONE;

  constructor(chains: Chains) {
    this.chains = chains;
  }

  /**
   * Begins a run of keys `stepTokens` apart. `previous`: the node a step before its first key, or
   * NONE. `room`: how many entries the rank may still get.
   */
  begin(holder: number, stepTokens: number, previous: number, room: number): void {
    this.holder = holder;
    this.stepTokens = stepTokens;
    this.previous = previous;
    this.room = room;
    this.chain = NONE;
    this.heldChain = NONE;
  }

  /** Stores the next key; adds 1 to one field of `outcome`. */
  store(low: number, high: number, positionTokens: number, outcome: StoreOutcome): void {
    const { chains, previous } = this;
    let node = previous === NONE ? NONE : chains.follow(previous, this.stepTokens, low, high);
    if (node === NONE) {
      node = chains.keys.find(low, high);
      if (node === NONE) {
        this.storeNew(low, high, positionTokens, outcome);
        return;
      }
      if (chains.positionOf(node) !== positionTokens) {
        outcome.refusedClash += 1;
        this.previous = NONE;
        return;
      }
      if (previous !== NONE) {
        this.flush();
        node = chains.absorb(node, previous, this.stepTokens);
      }
    }
    this.previous = node;
    this.storeKnown(node, outcome);
  }

  /** Writes what is not written yet. */
  flush(): void {
    if (this.chain !== NONE) {
      this.chains.lists.addRange(this.chain, this.holder, this.first, this.last, this.shift);
    }
    this.chain = NONE;
    this.heldChain = NONE;
  }

  private storeNew(low: number, high: number, positionTokens: number, outcome: StoreOutcome): void {
    const { chains } = this;
    if (this.room === 0) {
      outcome.refusedAtCeiling += 1;
      this.previous = NONE;
      return;
    }
    const node = chains.create(low, high, positionTokens, this.stepTokens, this.previous);
    this.previous = node;
    if (node === NONE) {
      outcome.refusedAtCeiling += 1;
      return;
    }
    this.enter(node, outcome);
  }

  private storeKnown(node: number, outcome: StoreOutcome): void {
    const { lists, pages } = this.chains;
    const chain = this.chains.chainOf(node);
    const offset = pages.get(node >>> 3, ORDINAL) * PAGE_NODES + (node & 7);
    const isHeld =
      chain === this.heldChain &&
      offset <= lists.heldLast &&
      offset >= lists.heldFirst &&
      ((offset - lists.heldFirst) & ((1 << lists.heldShift) - 1)) === 0;
    if (isHeld) {
      outcome.alreadyHeld += 1;
      return;
    }
    if (this.extends(chain, offset) && this.room > 0) {
      this.grow(node, offset, outcome);
      return;
    }
    this.flush();
    const found = lists.locate(chain, this.holder, offset);
    if (found === 1) {
      outcome.alreadyHeld += 1;
      this.heldChain = chain;
    } else if (this.room === 0) {
      outcome.refusedAtCeiling += 1;
    } else {
      this.start(node, chain, offset, found, outcome);
    }
  }

  /** Takes a node in whose chain the place may continue the stretch. */
  private enter(node: number, outcome: StoreOutcome): void {
    const { lists } = this.chains;
    const chain = this.chains.chainOf(node);
    const offset = this.chains.offsetOf(node);
    if (this.extends(chain, offset)) {
      this.grow(node, offset, outcome);
      return;
    }
    this.flush();
    this.start(node, chain, offset, lists.locate(chain, this.holder, offset), outcome);
  }

  private extends(chain: number, offset: number): boolean {
    if (chain !== this.chain || offset >= this.freeUntil) return false;
    const gap = offset - this.last;
    if (this.first !== this.last) return gap === 1 << this.shift;
    const shift = 31 - Math.clz32(gap);
    if (gap <= 0 || gap !== 1 << shift || shift > MAX_SHIFT) return false;
    this.shift = shift;
    return true;
  }

  private grow(node: number, offset: number, outcome: StoreOutcome): void {
    this.last = offset;
    this.count(node, outcome);
  }

  private start(
    node: number,
    chain: number,
    offset: number,
    found: number,
    outcome: StoreOutcome,
  ): void {
    this.count(node, outcome);
    if (found === -1) {
      // A gap of a record: rare, written at once.
      this.chains.lists.addOne(chain, this.holder, offset);
      return;
    }
    this.chain = chain;
    this.first = offset;
    this.last = offset;
    this.shift = 0;
    this.freeUntil = this.chains.lists.freeUntil;
  }

  private count(node: number, outcome: StoreOutcome): void {
    this.chains.hold(node);
    this.room -= 1;
    outcome.stored += 1;
  }
}
