/**
 * What it is: the judge: plays recorded engines through every stage and compares each answer with the engine's own.
 * Owns: nothing; one path a file.
 * Refuses: files that are no traces (`trace_invalid`).
 * Does not do: print prompts. A mismatch names the file's line, which holds everything needed to replay it.
 */
import { KvEventsError, parseDpRank } from "@kv-group-bridge/protocol";
import { InProcessPath, type PathFollower } from "./in-process-path.ts";
import { mixSeed, SeededRandomness } from "./sim/seeded-randomness.ts";
import { adapterPaths } from "./trace-adapters.ts";
import { engineConfigOfTrace, type TraceStatements } from "./trace-engine.ts";
import { type EntryCounts, EntryTally, hashSchemeText } from "./trace-entries.ts";
import { openTrace, type TraceEngine } from "./trace-file.ts";

/** The first answer that differs. */
export interface Mismatch {
  /** Line of the lookup in the (unpacked) file. */
  readonly line: number;
  readonly promptTokens: number;
  readonly predicted: number;
  readonly native: number;
  readonly state: string;
  readonly reasons: readonly string[];
  readonly limitingGroupId: number | undefined;
  /** Batches played before it. */
  readonly frames: number;
  readonly isAbove: boolean;
}

/** How a file is played. */
export interface TraceRun {
  /** The judged gateway joins after so many batches; "random": drawn. Default: it follows from the start. */
  readonly join?: number | "random" | undefined;
  /** An answer below is a failure everywhere, also where the header says that events cannot tell every position. */
  readonly isExact?: boolean | undefined;
  /** False: the bridge recomputes no hashes. Default true. */
  readonly isRecomputing?: boolean | undefined;
}

/** What a file showed. */
export interface TraceReport {
  readonly file: string;
  readonly vllm: string;
  readonly lookups: number;
  readonly equal: number;
  readonly above: number;
  readonly below: number;
  readonly frames: number;
  /** Blocks held at the end whose place events did not tell. */
  readonly unplaced: number;
  /** How entries got their place; undefined: with a late gateway nobody knows what the queries before it found. */
  readonly entries: EntryCounts | undefined;
  /** What the bridge found out of the engine's hashes; see `hashSchemeText`. */
  readonly hashScheme: string;
  /** The header says that events alone cannot tell every position. */
  readonly isUpperBoundOnly: boolean;
  /** Why the file is not judged; undefined = it is. */
  readonly unsupported: string | undefined;
  /** Refusals by reason: a recording of a real engine has none. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Worst first: one above if there is any, else the first one below. */
  readonly mismatch: Mismatch | undefined;
  /** No answer above, none below (unless events cannot tell and it is not played exact), nothing refused, at least one lookup. */
  readonly isGood: boolean;
}

/** The seed of the keys; answers do not depend on it. */
const SEED = "kvgroup-verify-trace-seed";

/**
 * Plays one file to its end. `join` "random" is drawn from the file's name, somewhere in the first 400 batches; lookups
 * before that are answered by a gateway that was there from the start.
 * Rejects with KvEventsError("trace_invalid").
 */
export async function verifyTrace(file: string, run: TraceRun = {}): Promise<TraceReport> {
  const { join, isExact = false, isRecomputing } = run;
  const trace = await openTrace(file);
  const loraPaths = await adapterPaths(file, trace.engine);
  const path = pathOf(file, trace.engine, { loraPaths, isRecomputing });
  const counts = { lookups: 0, equal: 0, above: 0, below: 0, frames: 0 };
  let mismatch: Mismatch | undefined;
  const joinAfter = join === "random" ? drawJoin(file) : join;
  let late: PathFollower | undefined;
  const tally = joinAfter === undefined ? new EntryTally(path.pipeline, path.gateway) : undefined;
  for await (const entry of trace.entries) {
    if (entry.type === "frame") {
      tally?.begin();
      path.receive(entry.frames);
      tally?.end();
      counts.frames += 1;
      if (counts.frames === joinAfter) late = path.join();
      continue;
    }
    if (entry.type === "restart") {
      tally?.begin();
      path.publisherReplaced();
      tally?.end();
      continue;
    }
    const { prompt, native } = entry;
    late?.drain();
    const answer = (late ?? path).score(prompt);
    const predicted = answer.reusableTokens;
    counts.lookups += 1;
    if (predicted === native) {
      counts.equal += 1;
      continue;
    }
    const isAbove = predicted > native;
    counts[isAbove ? "above" : "below"] += 1;
    if (mismatch === undefined || (isAbove && !mismatch.isAbove)) {
      const { state, reasons, limitingGroupId } = answer;
      const place = { line: entry.line, promptTokens: prompt.tokens.length, frames: counts.frames };
      mismatch = { ...place, predicted, native, state, reasons, limitingGroupId, isAbove };
    }
  }
  path.pipeline.audit();
  path.gateway.audit();
  const refusals = refusalsOf(path.pipeline.counters());
  const { upper_bound_only: isUpperBoundOnly, unsupported, vllm } = trace.engine;
  const description = path.pipeline.describe(0);
  const entries = tally?.counts();
  const hashScheme = hashSchemeText(path.pipeline);
  path.gateway.close();
  return {
    file,
    vllm,
    ...counts,
    unplaced: Number(description.unplacedBlocks),
    entries,
    hashScheme,
    isUpperBoundOnly,
    unsupported,
    refusals,
    mismatch,
    isGood:
      counts.lookups > 0 &&
      Object.keys(refusals).length === 0 &&
      (unsupported !== undefined ||
        (counts.above === 0 && (counts.below === 0 || (isUpperBoundOnly && !isExact)))),
  };
}

function pathOf(file: string, engine: TraceEngine, statements: TraceStatements): InProcessPath {
  const dpRank = parseDpRank(engine.dp_rank);
  if (dpRank === undefined) throw new KvEventsError("trace_invalid", `${file}: dp_rank`);
  return new InProcessPath({
    dpRank,
    engine: engineConfigOfTrace(engine, statements),
    seed: SEED,
    ...(engine.topic === undefined ? {} : { topic: engine.topic }),
  });
}

function refusalsOf(counters: ReadonlyMap<string, number>): Readonly<Record<string, number>> {
  const refusals: Record<string, number> = {};
  for (const [name, value] of counters) {
    if (name.startsWith("refused.") && value > 0) refusals[name.slice("refused.".length)] = value;
  }
  return refusals;
}

const JOIN_MAX_BATCHES = 400;

function drawJoin(file: string): number {
  return new SeededRandomness(mixSeed(0, file)).between(1, JOIN_MAX_BATCHES);
}
