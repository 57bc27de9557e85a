/**
 * What it is: what one walk finds: per rank the runs of ends whose keys the prompt has, and how far a
 * rank may still gain.
 * Owns: flat arrays that are used again from query to query: runs in the order found, linked per
 * rank; per rank the end up to which its lead group's chain may be unbroken, never too small.
 * Refuses: nothing.
 * Does not do: look keys up; apply the reuse rules.
 */
import type { EndRuns } from "./end-runs.ts";
import {
  GRID,
  LANE_WORDS,
  LEAD_BIT,
  LEAD_BLOCK,
  LOOKAHEAD,
  type RankRoster,
  REACH,
} from "./rank-roster.ts";
import { resized, word } from "./words.ts";

const FIRST_RUNS = 256;
const NEVER = 0x7fff_ffff;
/** Words of a run found: slot * 32 + bit, first, last, step (tokens), the rank's run before or -1. */
const RUN = 8;
const FIRST = 1;
const LAST = 2;
const STEP = 3;
const OLDER = 4;
/**
 * Words of a rank: the query in which something was found, its newest run, the end of the lead
 * group's chain, the smallest end of the lead group found beyond it.
 */
const RANK = 4;
const NEWEST = 1;
const LEAD_END = 2;
const AHEAD = 3;
/** Every rank, in `onlySlot`. */
export const EVERY_RANK = -1;

/** A stretch of a chain that the prompt may have: from an offset on. */
export interface Stretch {
  readonly startTokens: number;
  readonly stepTokens: number;
  readonly offset: number;
}

/** The runs of one query. */
export class FoundEnds {
  private readonly roster: RankRoster;
  private runs = new Int32Array(FIRST_RUNS * RUN);
  private ranks = new Int32Array(0);
  private touched = new Int32Array(0);
  private touchedCount = 0;
  private query = 0;
  private onlySlot = EVERY_RANK;
  /** Runs found. */
  count = 0;
  /** No rank gains from a position beyond this one. */
  horizonTokens = 0;
  private firstHorizon = 0;

  constructor(roster: RankRoster) {
    this.roster = roster;
  }

  /**
   * Forgets everything. `horizonTokens`: how far a walk goes in any case. `onlySlot`: the only rank
   * that counts, or EVERY_RANK.
   */
  restart(horizonTokens: number, onlySlot: number): void {
    this.count = 0;
    this.touchedCount = 0;
    this.query += 1;
    this.onlySlot = onlySlot;
    this.firstHorizon = horizonTokens;
    this.horizonTokens = horizonTokens;
    const slots = this.roster.lanes.length / LANE_WORDS;
    if (this.touched.length === slots && this.query < NEVER) return;
    this.ranks = new Int32Array(slots * RANK);
    this.touched = new Int32Array(slots);
    this.query = 1;
  }

  /** Whether anything was found for the rank in a slot. */
  hasAny(slot: number): boolean {
    return word(this.ranks, slot * RANK) === this.query;
  }

  /** Whether the same runs of the same bits were found for two ranks that have any. */
  isSame(slot: number, otherSlot: number): boolean {
    const { runs } = this;
    let run = word(this.ranks, slot * RANK + NEWEST);
    let other = word(this.ranks, otherSlot * RANK + NEWEST);
    while (run !== -1 && other !== -1) {
      const isEqual =
        word(runs, run + FIRST) === word(runs, other + FIRST) &&
        word(runs, run + LAST) === word(runs, other + LAST) &&
        word(runs, run + STEP) === word(runs, other + STEP) &&
        ((word(runs, run) ^ word(runs, other)) & 31) === 0;
      if (!isEqual) return false;
      run = word(runs, run + OLDER);
      other = word(runs, other + OLDER);
    }
    return run === other;
  }

  /**
   * Adds the runs of a chain's records (words from ... bound - 1, those of medium 0 first) from the
   * stretch's offset on, as if the prompt had all of them.
   */
  collect(records: Int32Array, from: number, bound: number, stretch: Stretch): void {
    const { startTokens: start, stepTokens: step, offset } = stretch;
    const { lanes, grids } = this.roster;
    const { onlySlot } = this;
    let grid = -1;
    let isOnGrid = false;
    for (let at = from; at < bound; at += 2) {
      const head = word(records, at);
      if (head >>> 28 !== 0) return;
      const range = word(records, at + 1);
      const last = range & 0xffff;
      if (last < offset) continue;
      const slot = head >>> 8;
      if (onlySlot !== EVERY_RANK && onlySlot !== slot) continue;
      const lane = slot * LANE_WORDS;
      if (word(lanes, lane + GRID) !== grid) {
        if (word(lanes, lane + GRID) === -1) continue;
        grid = word(lanes, lane + GRID);
        isOnGrid = grids.isOn(grid, start, step);
      }
      const shift = head & 7;
      let first = range >>> 16;
      if (first < offset) first += ((offset - first + (1 << shift) - 1) >>> shift) << shift;
      const zero = start - word(lanes, lane + LOOKAHEAD);
      if (isOnGrid) this.add(head >>> 3, zero + first * step, zero + last * step, step << shift);
      else this.addOnGrid(head >>> 3, zero + first * step, zero + last * step, step << shift);
    }
  }

  /**
   * Cuts the runs from ... to - 1 at a position: nothing beyond it is the prompt's. `isOver`: the
   * walk has ended and asks no more for the horizon.
   */
  cut(from: number, to: number, positionTokens: number, isOver: boolean): void {
    const { runs } = this;
    const { lanes } = this.roster;
    let isLeadCut = false;
    for (let run = from * RUN; run < to * RUN; run += RUN) {
      const slot = word(runs, run) >>> 5;
      const bound = positionTokens - word(lanes, slot * LANE_WORDS + LOOKAHEAD);
      if (word(runs, run + LAST) <= bound) continue;
      const first = word(runs, run + FIRST);
      // A run of no ends has its last one before its first.
      runs[run + LAST] =
        bound < first ? first - 1 : bound - ((bound - first) % word(runs, run + STEP));
      if (isOver || word(lanes, slot * LANE_WORDS + LEAD_BIT) !== (word(runs, run) & 31)) continue;
      isLeadCut = true;
      this.ranks[slot * RANK + LEAD_END] = 0;
      this.extendLead(slot);
    }
    if (isLeadCut) this.findHorizon();
  }

  /** Writes a group's runs into `runs`, whose group is open: ascending when they were found so. */
  writeTo(slot: number, bit: number, group: number, target: EndRuns): void {
    const { runs } = this;
    let run = this.hasAny(slot) ? word(this.ranks, slot * RANK + NEWEST) : -1;
    let count = 0;
    for (; run !== -1; run = word(runs, run + OLDER)) {
      if ((word(runs, run) & 31) !== bit) continue;
      const first = word(runs, run + FIRST);
      const last = word(runs, run + LAST);
      if (last < first) continue;
      target.add(first, last, word(runs, run + STEP));
      count += 1;
    }
    if (count > 1) target.reverse(group);
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    return (this.runs.length + this.ranks.length + this.touched.length) * 4;
  }

  /** Adds a run. `list`: slot * 32 + bit. */
  private add(list: number, first: number, last: number, step: number): void {
    const run = this.count * RUN;
    if (run === this.runs.length) this.runs = resized(this.runs, run * 2);
    const { runs, ranks } = this;
    const rank = (list >>> 5) * RANK;
    if (word(ranks, rank) !== this.query) this.touch(list >>> 5);
    runs[run] = list;
    runs[run + FIRST] = first;
    runs[run + LAST] = last;
    runs[run + STEP] = step;
    runs[run + OLDER] = word(ranks, rank + NEWEST);
    ranks[rank + NEWEST] = run;
    this.count += 1;
    if (word(this.roster.lanes, (list >>> 5) * LANE_WORDS + LEAD_BIT) === (list & 31)) {
      this.meetLead(list >>> 5, first, last, step);
    }
  }

  /** Adds those ends of a run that are on the rank's grid. */
  private addOnGrid(list: number, first: number, last: number, step: number): void {
    const grid = word(this.roster.lanes, (list >>> 5) * LANE_WORDS + GRID);
    const unit = this.roster.grids.unitOf(grid);
    for (let end = first; end <= last; end += step) {
      if (end % unit === 0) this.add(list, end, end, unit);
    }
  }

  private touch(slot: number): void {
    const rank = slot * RANK;
    this.ranks[rank] = this.query;
    this.ranks[rank + NEWEST] = -1;
    this.ranks[rank + LEAD_END] = 0;
    this.ranks[rank + AHEAD] = NEVER;
    this.touched[this.touchedCount] = slot;
    this.touchedCount += 1;
  }

  /** Lengthens the lead group's chain by a run that begins in or right behind its next block. */
  private meetLead(slot: number, first: number, last: number, step: number): void {
    const { ranks } = this;
    const { lanes } = this.roster;
    const rank = slot * RANK;
    const lane = slot * LANE_WORDS;
    const block = word(lanes, lane + LEAD_BLOCK);
    const end = word(ranks, rank + LEAD_END);
    if (first > end + block) {
      if (first < word(ranks, rank + AHEAD)) ranks[rank + AHEAD] = first;
      return;
    }
    // Steps larger than a block break the chain: only the first end is in reach.
    const reached = step <= block ? last : first;
    if (reached < last) ranks[rank + AHEAD] = Math.min(word(ranks, rank + AHEAD), first + step);
    if (reached > end) ranks[rank + LEAD_END] = reached;
    if (word(ranks, rank + AHEAD) <= word(ranks, rank + LEAD_END) + block) this.extendLead(slot);
    const horizon = word(ranks, rank + LEAD_END) + word(lanes, lane + REACH);
    if (horizon > this.horizonTokens) this.horizonTokens = horizon;
  }

  /** Lengthens the lead group's chain by all its runs, whatever their order. */
  private extendLead(slot: number): void {
    const { runs } = this;
    const { lanes } = this.roster;
    const block = word(lanes, slot * LANE_WORDS + LEAD_BLOCK);
    const list = (slot << 5) | word(lanes, slot * LANE_WORDS + LEAD_BIT);
    let end = word(this.ranks, slot * RANK + LEAD_END);
    let ahead = 0;
    for (let isLonger = true; isLonger; ) {
      isLonger = false;
      ahead = NEVER;
      let run = word(this.ranks, slot * RANK + NEWEST);
      for (; run !== -1; run = word(runs, run + OLDER)) {
        const first = word(runs, run + FIRST);
        const last = word(runs, run + LAST);
        const step = word(runs, run + STEP);
        if (word(runs, run) !== list || last <= end || last < first) continue;
        const next = end < first ? first : end + step - ((end - first) % step);
        if (next > end + block) {
          ahead = Math.min(ahead, next);
          continue;
        }
        end = step <= block ? last : next;
        isLonger = true;
      }
    }
    this.ranks[slot * RANK + LEAD_END] = end;
    this.ranks[slot * RANK + AHEAD] = ahead;
  }

  private findHorizon(): void {
    const { ranks } = this;
    const { lanes } = this.roster;
    let horizon = this.firstHorizon;
    for (let i = 0; i < this.touchedCount; i++) {
      const slot = word(this.touched, i);
      const end = word(ranks, slot * RANK + LEAD_END);
      if (end === 0 || word(lanes, slot * LANE_WORDS + LEAD_BIT) === -1) continue;
      horizon = Math.max(horizon, end + word(lanes, slot * LANE_WORDS + REACH));
    }
    this.horizonTokens = horizon;
  }
}
