/**
 * What it is: what one walk finds: per rank and group the runs of ends whose keys the prompt has,
 * and how far a rank may still gain.
 * Owns: flat arrays that are used again from query to query: runs in the order found, linked per
 * (rank, group); per rank the end up to which its lead group's chain may be unbroken, never too small.
 * Refuses: nothing.
 * Does not do: look keys up; apply the reuse rules.
 */
import type { EndRuns } from "./end-runs.ts";
import type { RankRoster } from "./rank-roster.ts";
import { resized, word } from "./words.ts";

const GROUP_BITS = 5;
const FIRST_RUNS = 1024;
const NEVER = 0x7fff_ffff;

/** The runs of one query. */
export class FoundEnds {
  private readonly roster: RankRoster;
  private lists = new Int32Array(FIRST_RUNS);
  private firsts = new Int32Array(FIRST_RUNS);
  private lasts = new Int32Array(FIRST_RUNS);
  private steps = new Int32Array(FIRST_RUNS);
  /** The run found before in the same list, or -1. */
  private olders = new Int32Array(FIRST_RUNS);
  /** By slot * 32 + bit: the newest run, or -1. */
  private newest = new Int32Array(0);
  /** By slot: the query in which something was found. */
  private queries = new Int32Array(0);
  /** By slot: end of the lead group's chain. */
  private leadEnds = new Int32Array(0);
  /** By slot: the smallest end of the lead group found beyond its chain. */
  private aheads = new Int32Array(0);
  private touched = new Int32Array(0);
  private touchedCount = 0;
  private queryNumber = 0;
  /** Runs found. */
  count = 0;
  /** No rank gains from a position beyond this one. */
  horizonTokens = 0;
  private firstHorizon = 0;

  constructor(roster: RankRoster) {
    this.roster = roster;
  }

  /** Forgets everything; `horizonTokens`: how far a walk goes in any case. */
  restart(horizonTokens: number): void {
    for (let run = 0; run < this.count; run++) this.newest[word(this.lists, run)] = -1;
    this.count = 0;
    this.touchedCount = 0;
    this.queryNumber = (this.queryNumber + 1) & 0x3fff_ffff;
    if (this.queryNumber === 0) {
      this.queries.fill(0);
      this.queryNumber = 1;
    }
    this.firstHorizon = horizonTokens;
    this.horizonTokens = horizonTokens;
    const slots = this.roster.gridIds.length;
    if (this.queries.length < slots) this.growRanks(slots);
  }

  /** Whether anything was found for the rank in a slot. */
  hasAny(slot: number): boolean {
    return word(this.queries, slot) === this.queryNumber;
  }

  /** Adds a run of ends (tokens) of a rank's group. */
  add(slot: number, bit: number, firstTokens: number, lastTokens: number, stepTokens: number): void {
    const run = this.count;
    if (run === this.lists.length) this.growRuns();
    const list = (slot << GROUP_BITS) | bit;
    this.lists[run] = list;
    this.firsts[run] = firstTokens;
    this.lasts[run] = lastTokens;
    this.steps[run] = stepTokens;
    this.olders[run] = word(this.newest, list);
    this.newest[list] = run;
    this.count = run + 1;
    if (word(this.queries, slot) !== this.queryNumber) this.touch(slot);
    if (word(this.roster.leadBits, slot) === bit) {
      this.meetLead(slot, firstTokens, lastTokens, stepTokens);
    }
  }

  /**
   * Cuts runs from ... to - 1 at a position: nothing beyond it is the prompt's. `isOver`: the walk
   * has ended and asks no more for the horizon.
   */
  cut(from: number, to: number, positionTokens: number, isOver: boolean): void {
    const { lookaheads, leadBits } = this.roster;
    let isLeadCut = false;
    for (let run = from; run < to; run++) {
      const list = word(this.lists, run);
      const slot = list >>> GROUP_BITS;
      const bound = positionTokens - word(lookaheads, slot);
      if (word(this.lasts, run) <= bound) continue;
      const first = word(this.firsts, run);
      const step = word(this.steps, run);
      // A run of no ends has its last one before its first.
      this.lasts[run] = bound < first ? first - 1 : first + (bound - first) - ((bound - first) % step);
      if (isOver || word(leadBits, slot) !== (list & 31)) continue;
      isLeadCut = true;
      this.leadEnds[slot] = 0;
      this.extendLead(slot);
    }
    if (isLeadCut) this.findHorizon();
  }

  /** Writes a group's runs into `runs`, whose group is open: ascending when they were found so. */
  writeTo(slot: number, bit: number, group: number, runs: EndRuns): void {
    let run = word(this.newest, (slot << GROUP_BITS) | bit);
    if (run === -1) return;
    let count = 0;
    for (; run !== -1; run = word(this.olders, run)) {
      const first = word(this.firsts, run);
      const last = word(this.lasts, run);
      if (last < first) continue;
      runs.add(first, last, word(this.steps, run));
      count += 1;
    }
    if (count > 1) runs.reverse(group);
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    const ofRanks = this.newest.length + this.queries.length * 4;
    return (this.lists.length * 5 + ofRanks) * 4;
  }

  private touch(slot: number): void {
    this.queries[slot] = this.queryNumber;
    this.leadEnds[slot] = 0;
    this.aheads[slot] = NEVER;
    this.touched[this.touchedCount] = slot;
    this.touchedCount += 1;
  }

  /** Lengthens the lead group's chain by a run that begins in or right behind its next block. */
  private meetLead(slot: number, first: number, last: number, step: number): void {
    const block = word(this.roster.leadBlocks, slot);
    const end = word(this.leadEnds, slot);
    if (first > end + block) {
      if (first < word(this.aheads, slot)) this.aheads[slot] = first;
      return;
    }
    // Steps larger than a block break the chain: only the first end is in reach.
    const reached = step <= block ? last : first;
    if (reached < last) this.aheads[slot] = Math.min(word(this.aheads, slot), first + step);
    if (reached > end) this.leadEnds[slot] = reached;
    if (word(this.aheads, slot) <= word(this.leadEnds, slot) + block) this.extendLead(slot);
    const horizon = word(this.leadEnds, slot) + word(this.roster.reaches, slot);
    if (horizon > this.horizonTokens) this.horizonTokens = horizon;
  }

  /** Lengthens the lead group's chain by all its runs, whatever their order. */
  private extendLead(slot: number): void {
    const block = word(this.roster.leadBlocks, slot);
    const list = (slot << GROUP_BITS) | word(this.roster.leadBits, slot);
    let end = word(this.leadEnds, slot);
    let ahead = 0;
    for (let isLonger = true; isLonger; ) {
      isLonger = false;
      ahead = NEVER;
      for (let run = word(this.newest, list); run !== -1; run = word(this.olders, run)) {
        const first = word(this.firsts, run);
        const last = word(this.lasts, run);
        const step = word(this.steps, run);
        if (last <= end || last < first) continue;
        const next = end < first ? first : end + step - ((end - first) % step);
        if (next > end + block) {
          ahead = Math.min(ahead, next);
          continue;
        }
        end = step <= block ? last : next;
        isLonger = true;
      }
    }
    this.leadEnds[slot] = end;
    this.aheads[slot] = ahead;
  }

  private findHorizon(): void {
    let horizon = this.firstHorizon;
    for (let i = 0; i < this.touchedCount; i++) {
      const slot = word(this.touched, i);
      if (word(this.roster.leadBits, slot) === -1 || word(this.leadEnds, slot) === 0) continue;
      horizon = Math.max(horizon, word(this.leadEnds, slot) + word(this.roster.reaches, slot));
    }
    this.horizonTokens = horizon;
  }

  private growRuns(): void {
    const length = this.lists.length * 2;
    this.lists = resized(this.lists, length);
    this.firsts = resized(this.firsts, length);
    this.lasts = resized(this.lasts, length);
    this.steps = resized(this.steps, length);
    this.olders = resized(this.olders, length);
  }

  private growRanks(slots: number): void {
    this.newest = new Int32Array(slots << GROUP_BITS).fill(-1);
    this.queries = new Int32Array(slots);
    this.leadEnds = new Int32Array(slots);
    this.aheads = new Int32Array(slots);
    this.touched = new Int32Array(slots);
  }
}
