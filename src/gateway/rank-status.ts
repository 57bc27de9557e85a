/**
 * What it is: one rank as people see it: its state, and an answer taken apart.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: change anything.
 */
import { ALL, type GroupPositions, type PrefixIndex } from "@kv-group-bridge/prefix-index";
import type { AnswerReason, AnswerState, Assessment } from "./answer.ts";
import type { RankAnswer } from "./answer-buffer.ts";
import type { RankFollower } from "./rank-follower.ts";
import type { SubscriptionError, SubscriptionState } from "./subscription.ts";

/** State of one followed rank. */
export interface RankStatus {
  readonly worker: string;
  readonly dpRank: number;
  readonly bridgeUrl: string;
  readonly subscriptionState: SubscriptionState;
  /** Undefined once the stream is live. */
  readonly lastError: SubscriptionError | undefined;
  /** How an answer of this rank is to be read now. */
  readonly state: AnswerState;
  readonly reasons: readonly AnswerReason[];
  /** Blocks in the index, all groups and media. */
  readonly entries: number;
  /** Blocks told without a place and not found by a query yet, all groups and media. */
  readonly unplacedBlocks: number;
  /** Such blocks that queries found since the last start that did not go on. Total. */
  readonly unplacedFound: number;
  /** The engine's sequence number applied last; undefined = none. */
  readonly sequenceNumber: bigint | undefined;
  /** As the bridge tells it; undefined = not known. */
  readonly vllmVersion: string | undefined;
}

/** What one group says alone. */
export interface GroupExplanation {
  readonly groupId: number;
  /** vLLM's kv_cache_spec_kind. */
  readonly kind: string;
  /** The largest position that this group alone accepts, in tokens. */
  readonly reusableTokensAlone: number;
  /** True for the group that lowered the common answer last. */
  readonly isLimiting: boolean;
}

/** An answer taken apart. `groups` is empty when the rank has no layout. */
export interface RankExplanation extends RankAnswer {
  readonly groups: readonly GroupExplanation[];
}

/** The state of a rank at `nowMs` (monotonic). */
export function rankStatus(follower: RankFollower, index: PrefixIndex, nowMs: number): RankStatus {
  const { view, subscription } = follower;
  const { state, reasons } = follower.assessment(nowMs);
  let entries = 0;
  for (const group of view.engine?.groups ?? []) {
    entries += index.groupEntryCount(view.rank, group.groupId, ALL);
  }
  return {
    worker: follower.worker,
    dpRank: follower.dpRank,
    bridgeUrl: follower.bridgeUrl,
    subscriptionState: subscription.state,
    lastError: subscription.lastError,
    state,
    reasons,
    entries,
    unplacedBlocks: view.unplaced.toldBlocks - view.unplaced.foundBlocks,
    unplacedFound: view.unplaced.foundTotal,
    sequenceNumber: view.sequenceNumber,
    vllmVersion: view.engine?.vllmVersion,
  };
}

/** The explanation of a rank; `positions` undefined = it has no layout. */
export function explainRank(
  follower: RankFollower,
  assessment: Assessment,
  positions: GroupPositions | undefined,
): RankExplanation {
  const { state, reasons } = assessment;
  const limiting = positions?.limitingGroupId ?? -1;
  const isKnown = state !== "unknown" && positions !== undefined;
  const groups: GroupExplanation[] = [];
  for (let i = 0; i < (positions?.count ?? 0); i++) {
    const groupId = positions?.groupIds[i] ?? 0;
    groups.push({
      groupId,
      kind: follower.view.groupKinds.get(groupId) ?? "",
      reusableTokensAlone: positions?.ownTokens[i] ?? 0,
      isLimiting: groupId === limiting,
    });
  }
  return {
    worker: follower.worker,
    dpRank: follower.dpRank,
    reusableTokens: isKnown ? positions.reusableTokens : 0,
    state,
    reasons,
    limitingGroupId: isKnown && limiting >= 0 ? limiting : undefined,
    groups,
  };
}
