/**
 * What it is: the recomputation of all invariants of an index from its raw arrays.
 * Owns: nothing.
 * Refuses: any state in which two structures disagree, by InvariantViolation.
 * Does not do: repair.
 */
import { invariant } from "@kv-group-bridge/runtime";
import type { Entries } from "./entries.ts";
import { MEDIA_COUNT } from "./holder-arena.ts";
import type { NodeStore } from "./node-store.ts";
import type { RankRoster } from "./rank-roster.ts";
import type { RankState } from "./rank-state.ts";

/**
 * Throws InvariantViolation unless nodes, holders, places, counts and grids agree. Slow; allocates.
 */
export function auditIndex(nodes: NodeStore, roster: RankRoster, entries: Entries): void {
  const used = nodes.keys.audit();
  nodes.holders.audit();
  invariant(nodes.keys.count <= nodes.maxNodes, "the nodes keep to their ceiling");
  let places = 0;
  let entryCount = 0;
  let live = 0;
  const gridUsers = new Map<number, number>();
  for (const [slot, state] of roster.bySlot.entries()) {
    if (state === undefined) continue;
    live += 1;
    places += state.places.count;
    entryCount += auditRank(nodes, roster, state, slot);
    invariant(state.entryCount <= entries.maxPerRank, "a rank keeps to its ceiling");
    gridUsers.set(state.gridId, (gridUsers.get(state.gridId) ?? 0) + 1);
  }
  for (const [gridId, users] of gridUsers) {
    invariant(gridId === -1 || roster.grids.usersOf(gridId) === users, "a grid counts its ranks");
  }
  invariant(live === roster.count, "the rank count is right");
  invariant(entryCount === entries.count, "the entry count is right");
  let records = 0;
  for (let node = 0; node < nodes.holders.counts.length; node++) {
    const count = nodes.holders.counts[node] ?? 0;
    invariant(count > 0 === ((used[node] ?? 0) === 1), "a node is in use while it has a holder");
    records += count;
  }
  invariant(records === places, "every holder record has a place, and no place is left over");
}

/** Checks one rank against the holder records; returns its entries. */
function auditRank(nodes: NodeStore, roster: RankRoster, state: RankState, slot: number): number {
  const { places, groupIds, layout } = state;
  const counts = new Uint32Array(groupIds.length * MEDIA_COUNT);
  invariant(roster.find(state.handle) === state && state.slot === slot, "a handle finds its rank");
  invariant(new Set(groupIds).size === groupIds.length, "a group has one bit");
  invariant((layout !== undefined) === (state.gridId !== -1), "a layout goes with a grid");
  invariant(
    layout === undefined || state.ends?.lists.length === groupIds.length,
    "groups have lists",
  );
  invariant((layout?.lookaheadTokens ?? 0) === state.lookaheadTokens, "the look-ahead is known");
  places.audit();
  let total = 0;
  for (let at = 0; at < places.slotCount; at++) {
    const place = places.placeAt(at);
    if (place === -1) continue;
    const mediumId = place % MEDIA_COUNT;
    const node = (place - mediumId) / MEDIA_COUNT;
    const index = places.get(node, mediumId);
    const tag = nodes.holders.tagAt(node, index);
    invariant(tag === slot * MEDIA_COUNT + mediumId, "a place names a record of its rank");
    const mask = nodes.holders.maskAt(node, index);
    invariant(mask !== 0, "a record has a group");
    for (let bit = 0; bit < 32; bit++) {
      if ((mask & (1 << bit)) === 0) continue;
      invariant(bit < groupIds.length, "a bit is a registered group");
      invariant((state.everStoredMask & (1 << bit)) !== 0, "a group that holds has stored");
      counts[bit * MEDIA_COUNT + mediumId] = (counts[bit * MEDIA_COUNT + mediumId] ?? 0) + 1;
      total += 1;
    }
  }
  invariant(counts.length === state.entryCounts.length, "counts are kept for every group");
  for (const [index, count] of counts.entries()) {
    invariant(state.entryCounts[index] === count, "a group's count is right");
  }
  invariant(total === state.entryCount, "a rank's entry count is right");
  return total;
}
