/**
 * What it is: what giving a range up means for the present epoch.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: end epochs (the gate does).
 */
import type { DeliveryOrder } from "./delivery-order.ts";
import type { EpochEnd } from "./gate-step.ts";
import type { ReplayAccount } from "./replay-account.ts";

/** How the epoch ends, and how many batches are known to be lost. */
export interface EpochLoss {
  readonly end: EpochEnd;
  readonly missing: bigint;
}

/**
 * Undefined = nothing is missing. "lost": the engine is known to be the same. "unproven": it was out of sight, or what
 * it replays and what the live socket brings were never seen to be of one process.
 */
export function lossOf(
  order: DeliveryOrder,
  replay: ReplayAccount,
  isUnproven: boolean,
): EpochLoss | undefined {
  const next = order.held.lowest();
  const isUntied = replay.batches > 0 && !replay.isAnchored && !order.isTied;
  const isMissing = order.hasHole && next !== order.expected;
  if (!isUnproven && !isUntied && !isMissing) return undefined;
  const hasAnchor = replay.isAnchored && order.last !== undefined;
  const isProved = hasAnchor || !(isUnproven || isUntied);
  const missing = (next ?? order.expected) - order.expected;
  return { end: isProved ? "lost" : "unproven", missing };
}
