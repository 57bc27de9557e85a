/**
 * What it is: a checked message written into the index and the rank's unplaced blocks.
 * Owns: nothing; the view that calls owns media and counts.
 * Refuses: nothing any more; `checkContents` comes first, so that a message applies whole or not at
 * all. Stores beyond a ceiling are dropped and counted, which makes answers lower bounds.
 * Does not do: order or completeness (rank-view.ts).
 */
import type { Withdraw } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type KvGroupEvent,
  KvGroupEvent_Operation as Operation,
  type UnplacedBlocks,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { ALL, type PrefixIndex, type RankHandle } from "@kv-group-bridge/prefix-index";
import type { ApplyCounts } from "./apply-counts.ts";
import { KEY_BYTES } from "./check-events.ts";
import type { MessageContents } from "./check-unplaced.ts";
import { GPU_MEDIUM_ID, type MediaTable } from "./media.ts";
import type { RankUnplaced } from "./rank-unplaced.ts";

/** One rank's holdings, as messages change them. */
export interface ApplyTarget {
  readonly index: PrefixIndex;
  readonly rank: RankHandle;
  readonly media: MediaTable;
  readonly unplaced: RankUnplaced;
  readonly counts: ApplyCounts;
}

/**
 * Writes what `checkContents` found sound: unplaced blocks that go, then events, then unplaced blocks that come. False
 * = a block of the GPU was refused by the index or dropped at a bound.
 */
export function applyContents(target: ApplyTarget, contents: MessageContents): boolean {
  for (const blocks of contents.unplacedRemoved) removeUnplaced(target, blocks);
  let isKept = true;
  for (const event of contents.events) {
    switch (event.operation) {
      case Operation.STORE:
        if (!store(target, event)) isKept = false;
        break;
      case Operation.REMOVE:
        remove(target, event);
        break;
      case Operation.CLEAR:
        clear(target, event);
        break;
      default:
        break;
    }
  }
  for (const blocks of contents.unplacedStored) {
    if (!storeUnplaced(target, blocks)) isKept = false;
  }
  return isKept;
}

function store({ index, rank, media, counts }: ApplyTarget, event: KvGroupEvent): boolean {
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
    event.parentPrefixKey,
  );
  const refused = blocks - outcome.stored - outcome.alreadyHeld;
  counts.storedBlocks += outcome.stored;
  counts.refusedBlocks += refused;
  return refused === 0 || mediumId !== GPU_MEDIUM_ID;
}

function remove({ index, rank, media, counts }: ApplyTarget, event: KvGroupEvent): void {
  const mediumId = media.find(event);
  if (mediumId === undefined || event.prefixKeys.length === 0) return;
  const outcome = index.removeKeys(rank, event.groupId, mediumId, event.prefixKeys);
  counts.removedBlocks += outcome.removed;
}

function storeUnplaced({ media, unplaced, counts }: ApplyTarget, told: UnplacedBlocks): boolean {
  const { groupId, blockSize, hashKeys, tailKeys } = told;
  if (hashKeys.length === 0) return true;
  const mediumId = media.intern(told);
  if (mediumId === undefined) {
    counts.droppedMediumBlocks += hashKeys.length / KEY_BYTES;
    return true;
  }
  const isKept = unplaced.store(groupId, mediumId, blockSize, hashKeys, tailKeys);
  return isKept || mediumId !== GPU_MEDIUM_ID;
}

function removeUnplaced({ media, unplaced }: ApplyTarget, told: UnplacedBlocks): void {
  const mediumId = media.find(told);
  if (mediumId !== undefined) unplaced.remove(told.groupId, mediumId, told.hashKeys);
}

/** The scope of a CLEAR is its groups and its medium; locality and ownership do not narrow it. */
function clear(target: ApplyTarget, event: KvGroupEvent): void {
  target.counts.clears++;
  const groupId = event.clearsAllGroups ? ALL : event.groupId;
  if (event.medium === "") clearScope(target, groupId, ALL);
  else clearMedium(target, groupId, event.medium);
}

/** Forgets what a withdrawal names: absent = every group, every medium; the empty medium is GPU. */
export function withdrawScope(
  target: ApplyTarget,
  scope: Pick<Withdraw, "groupId" | "medium">,
): void {
  const groupId = scope.groupId ?? ALL;
  if (scope.medium === undefined) clearScope(target, groupId, ALL);
  else clearMedium(target, groupId, scope.medium);
}

/** Forgets entries and unplaced blocks of a group and a medium, or of ALL of them. */
export function clearScope(target: ApplyTarget, groupId: number, mediumId: number): void {
  target.index.clear(target.rank, groupId, mediumId);
  target.unplaced.clear(groupId, mediumId);
}

function clearMedium(target: ApplyTarget, groupId: number, medium: string): void {
  for (const mediumId of target.media.idsNamed(medium)) clearScope(target, groupId, mediumId);
}
