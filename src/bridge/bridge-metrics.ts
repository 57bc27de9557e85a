/**
 * What it is: a bridge's state as metrics, read when a scrape comes.
 * Owns: the metrics' names and labels.
 * Refuses: nothing.
 * Does not do: count. The ranks of a bridge are fixed, so their series are too.
 */
import type { RankDescription } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { Completeness } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { CollectedMetric, Metrics, Sample } from "@kv-group-bridge/runtime";
import type { Arrival } from "./arrival-watch.ts";
import type { FanOutCounters } from "./fan-out.ts";

/** What a scrape reads of one rank. */
export interface MeasuredRank {
  readonly dpRank: number;
  readonly arrival: Arrival;
  readonly fanOut: { readonly subscriberCount: number; counters(): FanOutCounters };
  describe(): RankDescription;
}

/** Of a rank's counters, those that go up and down; docs/protocol.md marks them. */
export const RANK_GAUGES: ReadonlySet<string> = new Set([
  "held_batches",
  "held_bytes",
  "replay_refuted",
  "ring.batches",
  "ring.bytes",
  "checkpoint.bytes",
  "checkpoint.milliseconds",
  "engine_words_blocks",
  "engine_words_bytes",
  "engine_words_missing",
  "hash_backlog_tokens",
  "hash_proven",
]);

/** Registers all metrics of a bridge; once for a registry. */
export function registerBridgeMetrics(metrics: Metrics, ranks: readonly MeasuredRank[]): void {
  const gauge = (name: string, help: string, read: (rank: MeasuredRank) => number): void => {
    metrics.gauge(perRank(ranks, `kvgroup_bridge_${name}`, help, read));
  };
  gauge("engine_connected", "1 while the engine's publisher is connected", (rank) =>
    rank.describe().isEngineConnected ? 1 : 0,
  );
  gauge(
    "following",
    "1 once blocks of this very engine are placed and while it is connected",
    (rank) => (rank.arrival === "following" ? 1 : 0),
  );
  gauge(
    "catching_up",
    "1 while batches of the engine are asked again or the engine is proved",
    (rank) => (rank.describe().isCatchingUp ? 1 : 0),
  );
  gauge("view_complete", "1 while nothing that the engine holds is missing", (rank) =>
    rank.describe().completeness === Completeness.COMPLETE ? 1 : 0,
  );
  gauge("last_batch_age_seconds", "Age of the engine's last batch; -1 = none yet", (rank) => {
    const ageMs = rank.describe().lastBatchAgeMs;
    return ageMs === undefined ? -1 : Number(ageMs) / 1000;
  });
  gauge("placed_blocks", "Blocks held whose place in a prompt is known", (rank) =>
    Number(rank.describe().placedBlocks),
  );
  gauge("unplaced_blocks", "Blocks held whose place is not known", (rank) =>
    Number(rank.describe().unplacedBlocks),
  );
  gauge("subscribers", "Streams now", (rank) => rank.fanOut.subscriberCount);
  gauge(
    "resume_ring_bytes",
    "Bytes kept for subscribers that come back",
    (rank) => rank.fanOut.counters().ringBytes,
  );
  gauge(
    "resume_ring_batches",
    "Batches kept for subscribers that come back",
    (rank) => rank.fanOut.counters().ringBatches,
  );
  registerFanOut(metrics, ranks);
  metrics.counter({
    name: "kvgroup_bridge_counter_total",
    help: "Counters of the rank by name; refusals as refused.<reason>",
    labels: ["dp_rank", "name"],
    read: () => byName(ranks, false),
  });
  metrics.gauge({
    name: "kvgroup_bridge_gauge",
    help: "What the rank holds, by name",
    labels: ["dp_rank", "name"],
    read: () => byName(ranks, true),
  });
}

function* byName(ranks: readonly MeasuredRank[], areGauges: boolean): Iterable<Sample> {
  for (const rank of ranks) {
    const dpRank = String(rank.dpRank);
    for (const [name, value] of Object.entries(rank.describe().counters)) {
      if (RANK_GAUGES.has(name) !== areGauges) continue;
      yield { labels: { dp_rank: dpRank, name }, value: Number(value) };
    }
  }
}

function registerFanOut(metrics: Metrics, ranks: readonly MeasuredRank[]): void {
  const counter = (name: string, help: string, field: keyof FanOutCounters): void => {
    const read = (rank: MeasuredRank): number => rank.fanOut.counters()[field];
    metrics.counter(perRank(ranks, `kvgroup_bridge_${name}_total`, help, read));
  };
  counter("starts", "Starts sent: first ones, and those after an overflow or epoch", "starts");
  counter("resumed", "Starts that went on from the subscriber's cursor", "resumed");
  counter("subscriber_overflows", "Queues emptied because their subscriber was slow", "overflows");
  counter("snapshot_chunks", "Snapshot pieces sent", "snapshotChunks");
  counter("subscribers_refused", "Subscriptions refused at the limit", "refusedSubscribers");
}

function perRank(
  ranks: readonly MeasuredRank[],
  name: string,
  help: string,
  read: (rank: MeasuredRank) => number,
): CollectedMetric {
  return {
    name,
    help,
    labels: ["dp_rank"],
    *read(): Iterable<Sample> {
      for (const rank of ranks) {
        yield { labels: { dp_rank: String(rank.dpRank) }, value: read(rank) };
      }
    },
  };
}
