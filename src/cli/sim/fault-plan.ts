/**
 * What it is: what one seed decides before anything happens: engine, sizes, and how often each fault comes.
 * Owns: nothing after it was drawn.
 * Refuses: nothing.
 * Does not do: decide when a fault happens (chaos.ts does, with the same randomness).
 */
import { drawLayout, hasTails, type SimLayout } from "./engine-layout.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** Faults that come with a rate for each step of the engine. */
export const RATED_FAULTS = [
  "frame_dropped",
  "burst_dropped",
  "frame_repeated",
  "live_cut",
  "live_blackholed",
  "engine_killed",
  "engine_idle",
  "removal_unreadable",
  "replay_dead",
  "bridge_killed",
  "bridge_paused",
  "stream_cut",
  "stream_half_open",
  "reader_stopped",
  "gateway_restarted",
  "gateway_paused",
  "worker_removed",
  "worker_moved",
] as const;

/** One of `RATED_FAULTS`. */
export type RatedFault = (typeof RATED_FAULTS)[number];

/** One seed's plan. Rates are probabilities. */
export interface FaultPlan extends SimLayout {
  /** True = kinds and sizes are learnt from events. */
  readonly isLearnt: boolean;
  readonly poolBlocks: number;
  readonly steps: number;
  readonly longestStepMs: number;
  readonly gateways: number;
  readonly latencyMs: number;
  /** Messages in flight on one stream before the bridge waits. */
  readonly streamWindow: number;
  readonly queueBytes: number;
  readonly snapshotChunkBlocks: number;
  readonly ringBatches: number;
  readonly hasReplay: boolean;
  /** Batches that the engine's replay buffer keeps. */
  readonly replaySteps: number;
  readonly replayHoleRate: number;
  readonly replayEndLostRate: number;
  readonly replayRefusedRate: number;
  readonly replaySlowRate: number;
  readonly lateToldRate: number;
  readonly splitRate: number;
  readonly aheadRate: number;
  readonly clearRate: number;
  readonly checkpointEverySteps: number;
  readonly rates: ReadonlyMap<RatedFault, number>;
  /** True = no fault at all in this run. */
  readonly isFaultless: boolean;
}

/** The most of a rated fault for each step. */
const MOST: Readonly<Record<RatedFault, number>> = {
  frame_dropped: 0.1,
  burst_dropped: 0.03,
  frame_repeated: 0.05,
  live_cut: 0.05,
  live_blackholed: 0.04,
  engine_killed: 0.04,
  engine_idle: 0.02,
  removal_unreadable: 0.02,
  replay_dead: 0.03,
  bridge_killed: 0.05,
  bridge_paused: 0.03,
  stream_cut: 0.06,
  stream_half_open: 0.03,
  reader_stopped: 0.06,
  gateway_restarted: 0.03,
  gateway_paused: 0.03,
  worker_removed: 0.02,
  worker_moved: 0.02,
};

/** How probable a fault is at one step. */
export function rateOf(plan: FaultPlan, kind: RatedFault): number {
  return plan.rates.get(kind) ?? 0;
}

/** Draws a plan. */
export function drawPlan(dice: SeededRandomness): FaultPlan {
  const isFaultless = dice.chance(0.05);
  const rate = (most: number, share = 0.4): number =>
    !isFaultless && dice.chance(share) ? most * dice.fraction() : 0;
  const layout = drawLayout(dice);
  const isTailed = hasTails(layout);
  const rates = new Map<RatedFault, number>();
  for (const kind of RATED_FAULTS) {
    rates.set(kind, rate(MOST[kind], kind === "removal_unreadable" ? 0.15 : 0.35));
  }
  // What only a few blocks have must outlast restarts too.
  if (isTailed) rates.set("bridge_killed", rate(0.2, 0.6));
  const hasReplay = isFaultless || dice.chance(0.8);
  // With a sound replay socket nothing is lost for good, and the end is judged by the strict rule.
  const isReplaySound = dice.chance(0.5);
  if (isReplaySound) rates.set("replay_dead", 0);
  const replayRate = (most: number): number => (isReplaySound ? 0 : rate(most, 0.5));
  return {
    isFaultless,
    ...layout,
    isLearnt: dice.chance(0.25),
    poolBlocks: dice.between(20, isTailed ? 150 : 60),
    steps: dice.between(15, 50),
    longestStepMs: dice.pick([20, 200, 1500, 6000]),
    gateways: dice.pick([1, 1, 2, 2, 3]),
    latencyMs: dice.pick([0, 1, 20, 300, 2000]),
    streamWindow: dice.between(1, 6),
    queueBytes: dice.chance(0.4) ? dice.between(300, 3000) : 1_000_000,
    snapshotChunkBlocks: dice.chance(0.7) ? dice.between(1, 8) : 4096,
    ringBatches: dice.chance(0.5) ? dice.between(1, 10) : 1000,
    hasReplay,
    replaySteps: !isFaultless && !isReplaySound && dice.chance(0.5) ? dice.between(1, 20) : 10_000,
    replayHoleRate: replayRate(0.3),
    replayEndLostRate: replayRate(0.5),
    replayRefusedRate: replayRate(0.5),
    replaySlowRate: replayRate(0.5),
    lateToldRate: rate(1, 0.4),
    splitRate: rate(1, 0.4),
    aheadRate: rate(1, 0.6),
    clearRate: 0.03 * dice.fraction(),
    checkpointEverySteps: dice.between(1, 15),
    rates,
  };
}
