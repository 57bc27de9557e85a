/**
 * What it is: how to read a number: the states of an answer, the closed list of reasons, and the
 * rule that turns what is known of a view into both.
 * Owns: the precedence. unknown > stale > assumed > lower_bound > exact; the reasons of every
 * state that applies are listed, the strongest state names the answer. `assumed` stands above
 * `lower_bound` because "never more than the engine" holds only if the assumptions do.
 * Refuses: nothing.
 * Does not do: compute numbers, look at clocks.
 */
import type { EngineDescription } from "@kv-group-bridge/protocol";

/** How to read an answer; see kvgroup.v1.AnswerState. */
export type AnswerState = "exact" | "assumed" | "lower_bound" | "stale" | "unknown";

/** Why a view cannot be turned into reuse rules: no number can be given. */
export const LAYOUT_REASONS = [
  /** The engine description lists no group that takes part in lookups. */
  "no_groups",
  /** A group's kind is not known yet. */
  "kind_unknown",
  /** A group has a kind without a rule; it is never read as full attention. */
  "kind_unsupported",
  /** A sliding group has no window. */
  "window_unknown",
  /** A chunked group has no chunk size, which events never tell. */
  "chunk_unknown",
  /** A group's block size is not known yet. */
  "block_size_unknown",
  /** The facts contradict each other (sizes that do not divide, too many groups). */
  "layout_invalid",
  /** The engine announces what it does not hold ("kv_cache_report_mode: full" and the like). */
  "unsupported_report_mode",
] as const;

/** One of `LAYOUT_REASONS`. */
export type LayoutReason = (typeof LAYOUT_REASONS)[number];

/**
 * Every reason, strongest state first. `docs/protocol.md` shows this list; a test compares both.
 */
export const ANSWER_REASONS = [
  /** unknown: the bridge never sent a start for this rank. */
  "no_view",
  ...LAYOUT_REASONS,
  /**
   * unknown or assumed, by policy: a group of the description never stored anything in this
   * epoch.
   */
  "group_unseen",
  /** stale: there is no stream; the number is what was known last. */
  "disconnected",
  /** stale: the stream is open, but nothing came for too long. */
  "silent",
  /** stale: the bridge knows of batches of the engine that it does not have yet. */
  "catching_up",
  /** stale: the bridge has lost its engine. */
  "engine_disconnected",
  /** assumed: the engine may have groups that were not seen; then the number may be too high. */
  "roster_incomplete",
  /** assumed: S, H, fine mode, look-ahead or dropping are vLLM's defaults. */
  "layout_assumed",
  /** assumed: kind and window of a group are neither configured nor learnt. */
  "group_assumed",
  /** lower_bound: the snapshot has not arrived whole. */
  "snapshot_pending",
  /** lower_bound: the bridge joined late or lost something. */
  "incomplete",
  /**
   * lower_bound: the engine holds blocks whose place in a prompt is not known, or may hold one in this prompt that
   * could not be hashed far enough to tell.
   */
  "unplaced_blocks",
  /** lower_bound: the gateway had to forget something that the bridge still counts as sent. */
  "withdrawn",
  /** lower_bound: the index refused blocks at a ceiling. */
  "limit_reached",
] as const;

/** One of `ANSWER_REASONS`. */
export type AnswerReason = (typeof ANSWER_REASONS)[number];

/** What a group that never stored anything means: its honest 0, or no number at all. */
export type UnseenGroupPolicy = "zero" | "unknown";

/** What is known of a view. */
export interface ViewFacts {
  /** A start was applied. */
  readonly hasView: boolean;
  /** Why there is no layout; empty = there is one. */
  readonly layoutReasons: readonly LayoutReason[];
  readonly engine: EngineDescription | undefined;
  readonly isEngineConnected: boolean;
  /** Batches that the engine is known to have published are not contained yet. */
  readonly isCatchingUp: boolean;
  readonly isSnapshotWhole: boolean;
  readonly isComplete: boolean;
  readonly hasUnplacedBlocks: boolean;
  /** The gateway forgot something on its own in this view. */
  readonly isWithdrawn: boolean;
  /** The index refused or evicted blocks of this view. */
  readonly isLimited: boolean;
}

/** State and reasons. Frozen; the reasons are empty exactly for `exact`. */
export interface Assessment {
  readonly state: AnswerState;
  readonly reasons: readonly AnswerReason[];
}

/** Whether the stream behind the view is alive: undefined = it is. */
export type StreamTrouble = "disconnected" | "silent" | undefined;

/** Judges a view. */
export function assess(
  facts: ViewFacts,
  trouble: StreamTrouble,
  policy: UnseenGroupPolicy,
): Assessment {
  const unknown: AnswerReason[] = facts.hasView ? [...facts.layoutReasons] : ["no_view"];
  const assumed: AnswerReason[] = [];
  const lower: AnswerReason[] = [];
  const stale: AnswerReason[] = [];
  if (facts.hasView) {
    assessEngine(facts.engine, policy === "unknown" ? unknown : assumed, assumed);
    if (!facts.isSnapshotWhole) lower.push("snapshot_pending");
    if (!facts.isComplete) lower.push("incomplete");
    if (facts.hasUnplacedBlocks) lower.push("unplaced_blocks");
    if (facts.isWithdrawn) lower.push("withdrawn");
    if (facts.isLimited) lower.push("limit_reached");
    if (facts.isCatchingUp) stale.push("catching_up");
    if (!facts.isEngineConnected) stale.push("engine_disconnected");
  }
  if (trouble !== undefined) stale.push(trouble);
  const state: AnswerState =
    unknown.length > 0
      ? "unknown"
      : stale.length > 0
        ? "stale"
        : assumed.length > 0
          ? "assumed"
          : lower.length > 0
            ? "lower_bound"
            : "exact";
  const found = new Set<AnswerReason>([...unknown, ...stale, ...assumed, ...lower]);
  return Object.freeze({
    state,
    reasons: Object.freeze(ANSWER_REASONS.filter((reason) => found.has(reason))),
  });
}

/** The same for a query that could not be hashed far enough to find places of blocks in its prompt. */
export function withUnplacedBlocks(assessment: Assessment): Assessment {
  const found = new Set<AnswerReason>([...assessment.reasons, "unplaced_blocks"]);
  return Object.freeze({
    state: assessment.state === "exact" ? "lower_bound" : assessment.state,
    reasons: Object.freeze(ANSWER_REASONS.filter((reason) => found.has(reason))),
  });
}

function assessEngine(
  engine: EngineDescription | undefined,
  unseen: AnswerReason[],
  assumed: AnswerReason[],
): void {
  if (engine === undefined) return;
  if (!engine.isRosterComplete) assumed.push("roster_incomplete");
  if (engine.layoutCertainty === "assumed") assumed.push("layout_assumed");
  for (const group of engine.groups) {
    if (group.isPrivate) continue;
    if (group.certainty === "assumed") assumed.push("group_assumed");
    if (!group.isSeen) unseen.push("group_unseen");
  }
}
