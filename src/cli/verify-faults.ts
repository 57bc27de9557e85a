/**
 * What it is: the judge of a recording played with faults: an answer above the engine's is a failure at any time, one
 * below it is a failure after healing.
 * Owns: nothing; one faulty path and one faultless path a file.
 * Refuses: files that are no traces (`trace_invalid`).
 * Does not do: print.
 *
 * Judged is every answer of which the gateway can know that it is of now: its view contains what the present engine
 * process published. What is still under way, or lost without anybody's knowing, cannot be judged: it is counted.
 */
import type { RankAnswer } from "@kv-group-bridge/gateway";
import { KvEventsError, parseDpRank } from "@kv-group-bridge/protocol";
import { type FaultCounts, FaultyPath } from "./faulty-path.ts";
import { InProcessPath, type InProcessPathOptions } from "./in-process-path.ts";
import { REPLAY_MODES, type ReplayMode } from "./recorded-engine.ts";
import { mixSeed, SeededRandomness } from "./sim/seeded-randomness.ts";
import { adapterPaths } from "./trace-adapters.ts";
import { engineConfigOfTrace, type TraceStatements } from "./trace-engine.ts";
import { openTrace, type TraceEngine } from "./trace-file.ts";

/** What is wrong with an answer. */
export type FaultyVerdict = "above" | "below" | "not_healed" | "state_differs";

/** The first answer that is wrong, with what replays it. */
export interface FaultyMismatch {
  readonly verdict: FaultyVerdict;
  readonly line: number;
  readonly predicted: number;
  readonly native: number;
  readonly state: string;
  readonly reasons: readonly string[];
  /** The answer of a path without faults. */
  readonly faultless: number;
  readonly faultlessState: string;
}

/** What a file showed under one seed. */
export interface FaultyReport {
  readonly file: string;
  readonly vllm: string;
  readonly seed: number;
  readonly replay: ReplayMode;
  readonly lookups: number;
  /** Judged and equal to the engine's. */
  readonly equal: number;
  readonly above: number;
  /** Judged and below, where the answer says so and nothing better can be known. */
  readonly lower: number;
  /** Below, or otherwise not as a path without faults, after healing. */
  readonly wrong: number;
  /** Answers that said themselves that they are old. */
  readonly stale: number;
  /** Something was under way, or lost where nobody can know it yet. */
  readonly unjudged: number;
  readonly faults: FaultCounts;
  readonly unsupported: string | undefined;
  readonly mismatch: FaultyMismatch | undefined;
  readonly isGood: boolean;
}

const SEED = "kvgroup-verify-trace-seed";
const SETTLE_RATE = 0.5;

/** Plays one file to its end under one seed. Rejects with KvEventsError("trace_invalid"). */
export async function verifyFaults(
  file: string,
  seed: number,
  { isRecomputing }: Pick<TraceStatements, "isRecomputing"> = {},
): Promise<FaultyReport> {
  const trace = await openTrace(file);
  // Each file has its own mode and faults under one seed.
  const mixed = mixSeed(seed, file);
  const dice = new SeededRandomness(mixed);
  const mode = dice.pick(REPLAY_MODES);
  const loraPaths = await adapterPaths(file, trace.engine);
  const options = pathOptions(file, trace.engine, { loraPaths, isRecomputing }, dice);
  const faulty = new FaultyPath(options, mode, mixed + 1);
  const faultless = new InProcessPath(options);
  const counts = { lookups: 0, equal: 0, above: 0, lower: 0, wrong: 0, stale: 0, unjudged: 0 };
  const { upper_bound_only: isUpperBoundOnly, unsupported, vllm } = trace.engine;
  let mismatch: FaultyMismatch | undefined;
  for await (const entry of trace.entries) {
    if (entry.type === "frame") {
      faultless.receive(entry.frames);
      faulty.publish(entry.frames);
      continue;
    }
    if (entry.type === "restart") {
      faultless.publisherReplaced();
      faulty.restartEngine();
      continue;
    }
    counts.lookups += 1;
    const { prompt, native, line } = entry;
    const isSettled = dice.chance(SETTLE_RATE) && faulty.settle();
    const truth = faultless.score(prompt);
    const answer = faulty.score(prompt);
    const { isCurrent } = faulty;
    const verdict = judge(answer, truth, { native, mode, isSettled, isCurrent, isUpperBoundOnly });
    if (!isWrong(verdict)) {
      counts[verdict] += 1;
      continue;
    }
    counts[verdict === "above" ? "above" : "wrong"] += 1;
    mismatch ??= mismatchOf(verdict, line, native, answer, truth);
  }
  const isHealed = faulty.settle() || mode === "absent";
  faulty.close();
  faultless.gateway.close();
  const isRight = unsupported !== undefined || (counts.above === 0 && counts.wrong === 0);
  const isGood = counts.lookups > 0 && isHealed && isRight;
  return {
    file,
    vllm,
    seed,
    replay: mode,
    ...counts,
    faults: faulty.counts,
    unsupported,
    mismatch,
    isGood,
  };
}

function pathOptions(
  file: string,
  engine: TraceEngine,
  statements: TraceStatements,
  dice: SeededRandomness,
): InProcessPathOptions {
  const dpRank = parseDpRank(engine.dp_rank);
  if (dpRank === undefined) throw new KvEventsError("trace_invalid", `${file}: dp_rank`);
  return {
    dpRank,
    engine: engineConfigOfTrace(engine, statements),
    seed: SEED,
    ...(engine.topic === undefined ? {} : { topic: engine.topic }),
    fanOut: {
      snapshotChunkBlocks: dice.between(1, 200),
      queueBytes: dice.pick([2_000, 20_000, 2_000_000]),
    },
  };
}

function isWrong(verdict: Verdict): verdict is FaultyVerdict {
  return (
    verdict === "above" ||
    verdict === "below" ||
    verdict === "not_healed" ||
    verdict === "state_differs"
  );
}

function mismatchOf(
  verdict: FaultyVerdict,
  line: number,
  native: number,
  answer: RankAnswer,
  truth: RankAnswer,
): FaultyMismatch {
  return {
    verdict,
    line,
    predicted: answer.reusableTokens,
    native,
    state: answer.state,
    reasons: answer.reasons,
    faultless: truth.reusableTokens,
    faultlessState: truth.state,
  };
}

type Verdict = FaultyVerdict | "equal" | "lower" | "stale" | "unjudged";

interface Circumstances {
  readonly native: number;
  readonly mode: ReplayMode;
  readonly isSettled: boolean;
  readonly isCurrent: boolean;
  readonly isUpperBoundOnly: boolean;
}

function judge(
  answer: RankAnswer,
  truth: RankAnswer,
  { native, mode, isSettled, isCurrent, isUpperBoundOnly }: Circumstances,
): Verdict {
  const isStale = answer.state === "stale" || answer.state === "unknown";
  if (isSettled && isStale && truth.state !== answer.state) return "not_healed";
  if (isStale) return "stale";
  if (!isCurrent) return "unjudged";
  if (answer.reusableTokens > native) return "above";
  if (!isSettled) return answer.reusableTokens === native ? "equal" : "lower";
  if (mode === "absent") {
    if (answer.reusableTokens === native) return "equal";
    const saysLower = answer.reasons.includes("incomplete") || isUpperBoundOnly;
    return saysLower || truth.reusableTokens < native ? "lower" : "below";
  }
  // Nothing is lost for good, so nothing may tell this view from one that saw no fault.
  if (answer.reusableTokens < truth.reusableTokens) return "below";
  if (answer.state !== truth.state) return "state_differs";
  return answer.reusableTokens === native ? "equal" : "lower";
}
