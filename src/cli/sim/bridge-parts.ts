/**
 * What it is: what others want to know of a running simulated bridge, as values.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: change anything.
 */
import type { FanOut, RankPipeline } from "@kv-group-bridge/bridge";
import { Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { parseCursor, type ResumePoint } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { CheckpointedProcess } from "./checkpoint-shelf.ts";
import type { Coverage } from "./coverage.ts";
import type { PublishedBatch } from "./engine-process.ts";

/** The cores of one process. */
export interface BridgeParts {
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
}

/** Adds what a process counted to the coverage. */
export function countBridge({ pipeline, fanOut }: BridgeParts, coverage: Coverage): void {
  const counters = pipeline.counters();
  const of = (name: string): number => counters.get(name) ?? 0;
  coverage.add("epochs", of("epochs"));
  coverage.add("gaps", of("batches_lost") > 0 ? 1 : 0);
  coverage.add("duplicates", of("duplicates"));
  coverage.add("restarts_noticed", of("withdrawn.engine_restarted"));
  coverage.add("hashes_proven", of("hash_proven"));
  coverage.add("placed_by_recomputing", of("entries_placed.recomputed"));
  coverage.add("unplaced_gone", of("entries_unplaced_gone"));
  const { starts, overflows, snapshotChunks } = fanOut.counters();
  coverage.add("overflows", overflows);
  coverage.add("snapshots", snapshotChunks > 0 ? starts : 0);
}

/** As its checkpoints see it. */
export function processOf({ pipeline, fanOut }: BridgeParts): CheckpointedProcess {
  return { pipeline, instance: fanOut.instance };
}

/** The end of what the running process has. */
export function present({ pipeline, fanOut }: BridgeParts): ResumePoint {
  const cursor = parseCursor(pipeline.start(Projection.PREFIX_KEYS).cursor);
  invariant(cursor !== undefined, "a rank has a cursor");
  return { cursor, instance: fanOut.instance };
}

/** A batch as the live socket gives it. */
export function framesOf(batch: PublishedBatch): readonly Uint8Array[] {
  const sequence = new Uint8Array(8);
  new DataView(sequence.buffer).setBigUint64(0, batch.sequence);
  return [new Uint8Array(0), sequence, batch.payload];
}
