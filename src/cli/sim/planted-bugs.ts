/**
 * What it is: bugs of the protocol, planted on purpose: a simulation that does not find them proves nothing.
 * Owns: the list of their names.
 * Refuses: nothing.
 * Does not do: change code. A bug is made by what the hooks of one run do to that run's own objects; they reach
 * into them, so a core that is rebuilt may need its bugs rebuilt.
 */
import type { ResumePoint } from "@kv-group-bridge/protocol";
import { unreachable } from "@kv-group-bridge/runtime";
import type { Plant } from "./plant.ts";
import {
  appliesDuplicates,
  dropsHeldBatches,
  ignoresGaps,
  neverNoticesAnotherEngine,
  skipsDigests,
  trustsEndMarkers,
} from "./planted-gate-bugs.ts";
import {
  keepsClearedUnplaced,
  keepsFoundBlocks,
  losesTails,
  mixesDigests,
  removesUnplacedLate,
  trustsTails,
} from "./planted-hash-bugs.ts";
import {
  claimsConnection,
  forgetsWithdrawals,
  hidesEpochs,
  skipsFirstResumed,
  skipsMeanwhile,
} from "./planted-stream-bugs.ts";

/** Every bug. */
export const PLANTED_BUGS = [
  "resume_off_by_one",
  "snapshot_without_batches",
  "withdraw_lost_on_reconnect",
  "old_epoch_accepted",
  "gap_ignored",
  "end_marker_trusted",
  "digests_skipped",
  "duplicates_applied",
  "restart_unnoticed",
  "held_dropped_after_fill",
  "overflow_without_start",
  "loss_untold",
  "tails_trusted",
  "unplaced_removed_late",
  "found_blocks_stay",
  "cleared_unplaced_stay",
  "checkpoint_without_tails",
  "digests_mixed",
] as const;

/** One of `PLANTED_BUGS`. */
export type PlantedBug = (typeof PLANTED_BUGS)[number];

/** The hooks that make a bug; fresh for each run. */
export function plantedBug(name: PlantedBug): Plant {
  switch (name) {
    case "resume_off_by_one":
      return { stream: skipsFirstResumed };
    case "snapshot_without_batches":
      return { stream: skipsMeanwhile };
    case "withdraw_lost_on_reconnect":
      return { stream: forgetsWithdrawals };
    case "old_epoch_accepted":
      return { resume: intoPresentEpoch, stream: hidesEpochs };
    case "gap_ignored":
      return { pipeline: ignoresGaps };
    case "end_marker_trusted":
      return { pipeline: trustsEndMarkers };
    case "digests_skipped":
      return { pipeline: skipsDigests };
    case "duplicates_applied":
      return { pipeline: appliesDuplicates };
    case "restart_unnoticed":
      return { pipeline: neverNoticesAnotherEngine };
    case "held_dropped_after_fill":
      return { pipeline: dropsHeldBatches };
    case "overflow_without_start":
      return {
        subscriber: (subscriber) => {
          subscriber["reset"] = () => subscriber["queue"].clear();
        },
      };
    case "loss_untold":
      return { stream: claimsConnection };
    case "tails_trusted":
      return { gateway: trustsTails };
    case "unplaced_removed_late":
      return { gateway: removesUnplacedLate };
    case "found_blocks_stay":
      return { gateway: keepsFoundBlocks };
    case "cleared_unplaced_stay":
      return { gateway: keepsClearedUnplaced };
    case "checkpoint_without_tails":
      return { pipeline: losesTails };
    case "digests_mixed":
      return { pipeline: mixesDigests };
    default:
      return unreachable(name, "every bug is planted");
  }
}

/** The bridge looks at the number alone. */
function intoPresentEpoch(
  resume: ResumePoint | undefined,
  present: ResumePoint,
): ResumePoint | undefined {
  if (resume === undefined) return undefined;
  const { epoch } = present.cursor;
  return { cursor: { epoch, sequence: resume.cursor.sequence }, instance: present.instance };
}
