/**
 * What it is: the live ranks of an index by slot, and the handles that name them.
 * Owns: slots, generations, free slots, and how many ranks walk on each grid.
 * Refuses: a handle whose rank was retired (`find` says undefined, `live` throws: our bug).
 * Does not do: touch nodes; the index empties a rank before it leaves.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { GridSet } from "./grid-set.ts";
import { MEDIA_COUNT } from "./holder-arena.ts";
import type { RankLayout } from "./layout.ts";
import { type RankHandle, RankState } from "./rank-state.ts";

/** Most ranks of one index; a slot and a medium fit into a holder's tag. */
export const MAX_RANKS = 1 << 20;

/**
 * Ranks by slot. A slot is used again with the next generation, so an old handle never names a new
 * rank.
 */
export class RankRoster {
  /** Undefined for free slots. */
  readonly bySlot: (RankState | undefined)[] = [];
  readonly grids = new GridSet();
  private readonly generations: number[] = [];
  private readonly freeSlots: number[] = [];
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
    state.adopt(layout);
    if (state.gridId !== -1) this.grids.release(state.gridId);
    const compiled = state.layout;
    state.gridId =
      compiled === undefined
        ? -1
        : this.grids.acquire(compiled.hashBlockSizeTokens, compiled.lookaheadTokens);
  }

  /** Notes that a holder record of a node, named by its tag, has another index now. */
  holderMoved(node: number, tag: number, index: number): void {
    const mediumId = tag % MEDIA_COUNT;
    const state = this.bySlot[(tag - mediumId) / MEDIA_COUNT];
    invariant(state !== undefined, "a holder's rank is live");
    state.places.set(node, mediumId, index);
  }

  /** Frees the slot of an empty rank. */
  remove(state: RankState): void {
    invariant(state.entryCount === 0 && state.places.count === 0, "a leaving rank is empty");
    invariant(this.bySlot[state.slot] === state, "a leaving rank is live");
    this.setLayout(state, undefined);
    this.bySlot[state.slot] = undefined;
    this.freeSlots.push(state.slot);
    this.count -= 1;
  }
}
