/**
 * What it is: the live ranks of an index by slot, the handles that name them, and what a walk needs
 * of each of them as flat arrays.
 * Owns: slots, generations, free slots, how many ranks walk on each grid, layouts in use, and how
 * far a walk goes when nobody holds anything.
 * Refuses: a handle whose rank was retired (`find` says undefined, `live` throws: our bug).
 * Does not do: touch nodes; the index empties a rank before it leaves.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { GridSet } from "./grid-set.ts";
import type { RecordCounter } from "./holder-lists.ts";
import type { RankLayout } from "./layout.ts";
import { LayoutPool } from "./layout-pool.ts";
import { type RankHandle, RankState } from "./rank-state.ts";
import { resized, word } from "./words.ts";

/** Most ranks of one index; a slot fits into a holder's 20 bits. */
export const MAX_RANKS = 1 << 20;

/** Words of a slot's lane: the grid, -1 without a layout; */
export const LANE_WORDS = 8;
export const GRID = 0;
/** the look-ahead in tokens; */
export const LOOKAHEAD = 1;
/** the lead group's bit, -1 without one, and its block size in tokens; */
export const LEAD_BIT = 2;
export const LEAD_BLOCK = 3;
/** how far beyond an unbroken end of the lead group a lookup reads, as a position in tokens; */
export const REACH = 4;
/** The id of the layout in the pool, or one of these. */
export const LAYOUT = 5;
export const NO_LAYOUT = -1;
export const NO_RANK = -2;

/** In `firstReachTokens`: a rank may gain anywhere. */
export const ANYWHERE = -1;

/**
 * Ranks by slot. A slot is used again with the next generation, so an old handle never names a new
 * rank.
 */
export class RankRoster implements RecordCounter {
  /** Undefined for free slots. */
  readonly bySlot: (RankState | undefined)[] = [];
  readonly grids = new GridSet();
  readonly layouts = new LayoutPool();
  /** What a walk needs of each slot, LANE_WORDS each. For reading; replaced when it grows. */
  lanes = new Int32Array(0);
  /** By slot: the handle of the rank there now, or of one before. */
  handles = new Float64Array(0);
  private readonly generations: number[] = [];
  private readonly freeSlots: number[] = [];
  private firstReach = 0;
  private isFirstReachKnown = false;
  /** Live ranks. */
  count = 0;

  /** A new empty rank without a layout. */
  add(): RankState {
    const slot = this.freeSlots.pop() ?? this.bySlot.length;
    invariant(slot < MAX_RANKS, "an index has at most MAX_RANKS ranks");
    const generation = (this.generations[slot] ?? 0) + 1;
    this.generations[slot] = generation;
    const handle = generation * MAX_RANKS + slot;
    invariant(Number.isSafeInteger(handle), "a slot's generations do not run out");
    const state = new RankState(handle as RankHandle, slot);
    this.bySlot[slot] = state;
    const lane = slot * LANE_WORDS;
    if (lane >= this.lanes.length) this.lanes = resized(this.lanes, Math.max(128, lane * 2));
    if (slot >= this.handles.length) {
      const handles = new Float64Array(Math.max(16, slot * 2));
      handles.set(this.handles);
      this.handles = handles;
    }
    this.lanes[lane + GRID] = -1;
    this.lanes[lane + LAYOUT] = NO_LAYOUT;
    this.handles[slot] = handle;
    this.count += 1;
    return state;
  }

  /** The rank of a handle, or undefined when it was retired. */
  find(rank: RankHandle): RankState | undefined {
    const state = this.bySlot[rank % MAX_RANKS];
    return state?.handle === rank ? state : undefined;
  }

  /** The rank of a handle that must be live. */
  live(rank: RankHandle): RankState {
    const state = this.find(rank);
    invariant(state !== undefined, "a rank handle is not used after its rank was retired");
    return state;
  }

  /** Gives a rank a layout it accepts, and the grid that goes with it. */
  setLayout(state: RankState, layout: RankLayout | undefined): void {
    const lane = state.slot * LANE_WORDS;
    const old = state.layout;
    const bits = state.adopt(layout);
    const pooled = layout === undefined ? undefined : this.layouts.acquire(layout, bits);
    state.layout = pooled;
    this.lanes[lane + LAYOUT] = pooled?.id ?? NO_LAYOUT;
    if (old !== undefined) this.layouts.release(old);
    if (state.gridId !== -1) this.grids.release(state.gridId);
    this.isFirstReachKnown = false;
    if (pooled === undefined) {
      state.gridId = -1;
    } else {
      const { compiled } = pooled;
      const { lookaheadTokens, leadGroup } = compiled;
      state.gridId = this.grids.acquire(compiled.hashBlockSizeTokens, lookaheadTokens);
      this.lanes[lane + LOOKAHEAD] = lookaheadTokens;
      this.lanes[lane + LEAD_BIT] = leadGroup === -1 ? -1 : word(bits, leadGroup);
      this.lanes[lane + LEAD_BLOCK] = compiled.classes[0]?.blockSizeTokens ?? 0;
      this.lanes[lane + REACH] = compiled.reachTokens + lookaheadTokens;
    }
    this.lanes[lane + GRID] = state.gridId;
  }

  /**
   * The largest position that a walk looks at when nobody holds anything of the prompt, or ANYWHERE
   * when a rank without a lead group holds entries. An empty rank gains nothing (a chunk's start
   * needs no entry).
   */
  get firstReachTokens(): number {
    if (this.isFirstReachKnown) return this.firstReach;
    let reach = 0;
    for (const state of this.bySlot) {
      if (state?.layout === undefined || state.entryCount === 0) continue;
      const lane = state.slot * LANE_WORDS;
      if (word(this.lanes, lane + LEAD_BIT) === -1) {
        reach = ANYWHERE;
        break;
      }
      reach = Math.max(reach, word(this.lanes, lane + REACH));
    }
    this.firstReach = reach;
    this.isFirstReachKnown = true;
    return reach;
  }

  /** Notes that a rank became empty or stopped being empty. */
  emptinessChanged(): void {
    this.isFirstReachKnown = false;
  }

  /** Keeps a rank's count of its records by chain. */
  countRecord(slot: number, chain: number, change: 1 | -1): void {
    const state = this.bySlot[slot];
    invariant(state !== undefined, "a holder's rank is live");
    if (change === 1) state.chains.add(chain);
    else state.chains.remove(chain);
  }

  /** Frees the slot of an empty rank. */
  remove(state: RankState): void {
    invariant(state.entryCount === 0 && state.chains.count === 0, "a leaving rank is empty");
    invariant(this.bySlot[state.slot] === state, "a leaving rank is live");
    this.setLayout(state, undefined);
    this.bySlot[state.slot] = undefined;
    this.lanes[state.slot * LANE_WORDS + LAYOUT] = NO_RANK;
    this.freeSlots.push(state.slot);
    this.count -= 1;
  }
}
