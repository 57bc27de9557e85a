/**
 * What it is: the recomputation of all invariants of an index from its raw arrays.
 * Owns: nothing.
 * Refuses: any state in which two structures disagree, by InvariantViolation.
 * Does not do: repair.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { auditChains } from "./audit-chains.ts";
import type { Chains } from "./chains.ts";
import type { Entries } from "./entries.ts";
import { GRID, LANE_WORDS, LAYOUT, LOOKAHEAD, NO_LAYOUT, type RankRoster } from "./rank-roster.ts";
import type { RankState } from "./rank-state.ts";
import { MEDIA_COUNT } from "./record.ts";
import { word } from "./words.ts";

/**
 * Throws InvariantViolation unless nodes, records, counts, layouts and grids agree. Slow; allocates.
 */
export function auditIndex(chains: Chains, roster: RankRoster, entries: Entries): void {
  const held = auditChains(chains);
  let entryCount = 0;
  let live = 0;
  let pairs = 0;
  const gridUsers = new Map<number, number>();
  const layoutUsers = new Map<object, number>();
  for (const [slot, state] of roster.bySlot.entries()) {
    if (state === undefined) continue;
    live += 1;
    pairs += state.chains.count;
    entryCount += auditRank(roster, state, slot, held.entries);
    invariant(state.entryCount <= entries.maxPerRank, "a rank keeps to its ceiling");
    gridUsers.set(state.gridId, (gridUsers.get(state.gridId) ?? 0) + 1);
    if (state.layout !== undefined) {
      layoutUsers.set(state.layout, (layoutUsers.get(state.layout) ?? 0) + 1);
    }
    for (const chain of state.chains.list()) {
      const records = held.records.get(`${slot}/${chain}`) ?? 0;
      invariant(state.chains.recordsOf(chain) === records, "a rank counts its records of a chain");
    }
  }
  for (const [gridId, users] of gridUsers) {
    invariant(gridId === -1 || roster.grids.usersOf(gridId) === users, "a grid counts its ranks");
  }
  for (const [layout, users] of layoutUsers) {
    invariant("users" in layout && layout.users === users, "a layout counts its ranks");
  }
  invariant(layoutUsers.size === roster.layouts.size, "no layout is left over");
  invariant(pairs === held.records.size, "every rank with a record in a chain knows the chain");
  invariant(live === roster.count, "the rank count is right");
  invariant(entryCount === entries.count, "the entry count is right");
  let counted = 0;
  for (const count of held.entries.values()) counted += count;
  invariant(counted === entryCount, "no record is that of a rank that left");
}

/** Checks one rank against the records; returns its entries. */
function auditRank(
  roster: RankRoster,
  state: RankState,
  slot: number,
  held: ReadonlyMap<string, number>,
): number {
  const { chains, groupIds, layout } = state;
  const bits = groupIds.length;
  invariant(roster.find(state.handle) === state && state.slot === slot, "a handle finds its rank");
  invariant(new Set(groupIds).size === bits, "a group has one bit");
  invariant((layout !== undefined) === (state.gridId !== -1), "a layout goes with a grid");
  const lane = slot * LANE_WORDS;
  invariant(word(roster.lanes, lane + GRID) === state.gridId, "a walk knows the rank's grid");
  invariant(layout === undefined || layout.bits.length === bits, "a group of the layout has a bit");
  const lookahead = layout?.compiled.lookaheadTokens ?? 0;
  invariant(lookahead === state.lookaheadTokens, "the look-ahead is known");
  const known = word(roster.lanes, lane + LOOKAHEAD);
  invariant(layout === undefined || known === lookahead, "a walk knows the look-ahead");
  invariant(state.entryCounts.length === bits * MEDIA_COUNT, "counts are kept for every group");
  invariant(word(roster.lanes, lane + LAYOUT) === (layout?.id ?? NO_LAYOUT), "a walk knows it");
  invariant(roster.handles[slot] === state.handle, "a walk knows the handle");
  chains.audit();
  let total = 0;
  for (const [index, count] of state.entryCounts.entries()) {
    const bit = Math.floor(index / MEDIA_COUNT);
    const found = held.get(`${slot}/${index % MEDIA_COUNT}/${bit}`) ?? 0;
    invariant(found === count, "a group's count is right");
    const hasStored = (state.everStoredMask & (1 << bit)) !== 0;
    invariant(count === 0 || hasStored, "a group that holds has stored");
    total += count;
  }
  invariant(total === state.entryCount, "a rank's entry count is right");
  return total;
}
