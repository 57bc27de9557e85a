/**
 * What it is: checked events written into the index.
 * Owns: nothing; the view that calls owns media and counts.
 * Refuses: nothing any more; `checkEvents` comes first, so that a message applies whole or not at
 * all. Stores beyond a ceiling are dropped and counted, which makes answers lower bounds.
 * Does not do: order or completeness (rank-view.ts).
 */
import type { Withdraw } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type KvGroupEvent,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { ALL, type PrefixIndex, type RankHandle } from "@kv-group-bridge/prefix-index";
import { KEY_BYTES } from "./check-events.ts";
import { GPU_MEDIUM_ID, type MediaTable } from "./media.ts";

/** What was applied and what was dropped, by name. Totals. */
export interface ApplyCounts {
  storedBlocks: number;
  removedBlocks: number;
  clears: number;
  withdrawals: number;
  repeatedBatches: number;
  /** Messages of a kind that this version does not know. */
  unknownMessages: number;
  /** Messages with an operation that this version does not know; each withdrew the rank. */
  unknownOperations: number;
  /** Blocks in media beyond the bound. */
  droppedMediumBlocks: number;
  /** Blocks that the index refused: a ceiling, a clash of keys, a group that the layout lacks. */
  refusedBlocks: number;
}

/** All zero. */
export function newApplyCounts(): ApplyCounts {
  return {
    storedBlocks: 0,
    removedBlocks: 0,
    clears: 0,
    withdrawals: 0,
    repeatedBatches: 0,
    unknownMessages: 0,
    unknownOperations: 0,
    droppedMediumBlocks: 0,
    refusedBlocks: 0,
  };
}

/** Writes events that `checkEvents` found sound; false = the index refused a block of the GPU. */
export function applyEvents(
  index: PrefixIndex,
  rank: RankHandle,
  media: MediaTable,
  counts: ApplyCounts,
  events: readonly KvGroupEvent[],
): boolean {
  let isKept = true;
  for (const event of events) {
    switch (event.operation) {
      case Operation.STORE:
        if (!store(index, rank, media, counts, event)) isKept = false;
        break;
      case Operation.REMOVE:
        remove(index, rank, media, counts, event);
        break;
      case Operation.CLEAR:
        clear(index, rank, media, counts, event);
        break;
      default:
        break;
    }
  }
  return isKept;
}

function store(
  index: PrefixIndex,
  rank: RankHandle,
  media: MediaTable,
  counts: ApplyCounts,
  event: KvGroupEvent,
): boolean {
  const blocks = event.prefixKeys.length / KEY_BYTES;
  if (blocks === 0) return true;
  const mediumId = media.intern(event);
  if (mediumId === undefined) {
    counts.droppedMediumBlocks += blocks;
    return true;
  }
  const outcome = index.storeRun(
    rank,
    event.groupId,
    mediumId,
    event.prefixKeys,
    event.endTokens,
    event.blockSize,
  );
  const refused = blocks - outcome.stored - outcome.alreadyHeld;
  counts.storedBlocks += outcome.stored;
  counts.refusedBlocks += refused;
  return refused === 0 || mediumId !== GPU_MEDIUM_ID;
}

function remove(
  index: PrefixIndex,
  rank: RankHandle,
  media: MediaTable,
  counts: ApplyCounts,
  event: KvGroupEvent,
): void {
  const mediumId = media.find(event);
  if (mediumId === undefined || event.prefixKeys.length === 0) return;
  const outcome = index.removeKeys(rank, event.groupId, mediumId, event.prefixKeys);
  counts.removedBlocks += outcome.removed;
}

/** The scope of a CLEAR is its groups and its medium; locality and ownership do not narrow it. */
function clear(
  index: PrefixIndex,
  rank: RankHandle,
  media: MediaTable,
  counts: ApplyCounts,
  event: KvGroupEvent,
): void {
  counts.clears++;
  const groupId = event.clearsAllGroups ? ALL : event.groupId;
  if (event.medium === "") {
    index.clear(rank, groupId, ALL);
    return;
  }
  for (const mediumId of media.idsNamed(event.medium)) index.clear(rank, groupId, mediumId);
}

/** Forgets what a withdrawal names: absent = every group, every medium; the empty medium is GPU. */
export function withdrawScope(
  index: PrefixIndex,
  rank: RankHandle,
  media: MediaTable,
  scope: Pick<Withdraw, "groupId" | "medium">,
): void {
  const groupId = scope.groupId ?? ALL;
  if (scope.medium === undefined) {
    index.clear(rank, groupId, ALL);
    return;
  }
  for (const mediumId of media.idsNamed(scope.medium)) index.clear(rank, groupId, mediumId);
}
