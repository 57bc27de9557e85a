/**
 * What it is: how often each fault and each interesting branch happened in simulated runs.
 * Owns: the counts, and the closed lists of names.
 * Refuses: nothing.
 * Does not do: judge. A run in which a fault never happened proves nothing about it; a test says so.
 */
import { RATED_FAULTS } from "./fault-plan.ts";

/** Everything that is done to the parties. */
export const FAULT_KINDS = [
  ...RATED_FAULTS,
  "connection_told_late",
  "engine_ran_ahead",
  "engine_continued_exactly",
  "live_leads_replay",
  "replay_leads_live",
  "replay_absent",
  "replay_refused",
  "replay_slow",
  "replay_hole",
  "replay_end_lost",
  "replay_buffer_small",
  "checkpoint_last",
  "checkpoint_older",
  "checkpoint_damaged",
  "checkpoint_none",
] as const;

/** One of `FAULT_KINDS`. */
export type FaultKind = (typeof FAULT_KINDS)[number];

/** What the parties did because of it. */
export const BRANCHES = [
  "batches",
  "clears",
  "answers_judged",
  "answers_stale",
  "answers_equal",
  "calm_moments",
  "seeds_without_faults",
  "subscriptions",
  "resumes",
  "snapshots",
  "starts_repeated",
  "overflows",
  "epochs",
  "gaps",
  "duplicates",
  "live_reopened",
  "replays",
  "replays_filled",
  "restarts_noticed",
  "epochs_mixed",
  "answers_excused",
  "checkpoints_continued",
  "checkpoints_refused",
  "seeds_with_fine_hits",
  "hashes_proven",
  "placed_by_recomputing",
  "unplaced_gone",
  "unplaced_told",
  "unplaced_found",
  "unplaced_taken_back",
  "checkpoints_with_tails",
  "ends_equal",
  "ends_incomplete",
] as const;

/** One of `BRANCHES`. */
export type Branch = (typeof BRANCHES)[number];

/** Counts over one or many seeds. */
export class Coverage {
  private readonly counts = new Map<FaultKind | Branch, number>();

  /** One more, or `by` more. */
  add(name: FaultKind | Branch, by = 1): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + by);
  }

  /** 0 when it never happened. */
  of(name: FaultKind | Branch): number {
    return this.counts.get(name) ?? 0;
  }
}
