/**
 * What it is: the gateway's metrics, read from its own numbers at scrape time.
 * Owns: names and help texts. Labels come from closed lists; no series names a worker, so that
 * the size of a scrape does not grow with the fleet or its history (ListWorkers tells about
 * single workers).
 * Refuses: nothing.
 * Does not do: count.
 */
import type { PrefixIndex } from "@kv-group-bridge/prefix-index";
import type { Metrics, Sample } from "@kv-group-bridge/runtime";
import type { ApplyCounts } from "./apply-counts.ts";
import type { MessageRefusal } from "./check-start.ts";
import type { PlaceSearch } from "./place-search.ts";
import type { RankStatus } from "./rank-status.ts";
import type { SubscriptionError } from "./subscription.ts";

/** Totals of a gateway since it was made. */
export interface GatewayTotals {
  queries: number;
  readonly refusals: Map<MessageRefusal, number>;
  readonly streamErrors: Map<SubscriptionError, number>;
  /** Of all ranks, those long gone included. */
  readonly applied: ApplyCounts;
}

/** What the metrics read. */
export interface MetricSources {
  readonly totals: GatewayTotals;
  readonly index: PrefixIndex;
  readonly search: PlaceSearch;
  readonly statuses: () => readonly RankStatus[];
}

/** Registers every metric of a gateway. */
export function registerGatewayMetrics(metrics: Metrics, sources: MetricSources): void {
  const { totals, index, search, statuses } = sources;
  metrics.counter({
    name: "kvgroup_gateway_queries_total",
    help: "Prompts scored",
    read: () => [{ value: totals.queries }],
  });
  metrics.counter({
    name: "kvgroup_gateway_messages_refused_total",
    help: "Messages of bridges that broke the contract, by reason; each ended its stream",
    labels: ["reason"],
    read: () => labelled("reason", totals.refusals),
  });
  metrics.counter({
    name: "kvgroup_gateway_stream_errors_total",
    help: "Streams that ended, by error",
    labels: ["error"],
    read: () => labelled("error", totals.streamErrors),
  });
  metrics.counter({
    name: "kvgroup_gateway_applied_total",
    help: "What was applied to the index or dropped, by name",
    labels: ["what"],
    read: () => labelled("what", Object.entries(totals.applied)),
  });
  metrics.gauge({
    name: "kvgroup_gateway_ranks",
    help: "Followed ranks by the state of their subscription",
    labels: ["state"],
    read: () => labelled("state", tally(statuses().map((rank) => rank.subscriptionState))),
  });
  metrics.gauge({
    name: "kvgroup_gateway_ranks_by_answer",
    help: "Followed ranks by how their answers are to be read",
    labels: ["state"],
    read: () => labelled("state", tally(statuses().map((rank) => rank.state))),
  });
  metrics.gauge({
    name: "kvgroup_gateway_index",
    help: "Size of the prefix index: nodes, entries, ranks, bytes",
    labels: ["what"],
    read: () => labelled("what", Object.entries(index.gauges())),
  });
  metrics.gauge({
    name: "kvgroup_gateway_unplaced_blocks",
    help: "Blocks told without a place and not found by a query yet",
    read: () => [{ value: sum(statuses().map((rank) => rank.unplacedBlocks)) }],
  });
  metrics.counter({
    name: "kvgroup_gateway_unplaced_tails_without_hash_total",
    help: "Ends of prompts whose last tokens were those of an unplaced block, and whose hash was not",
    read: () => [{ value: search.tailsWithoutHash }],
  });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function tally(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function labelled(label: string, values: Iterable<readonly [string, number]>): Sample[] {
  const samples: Sample[] = [];
  for (const [name, value] of values) samples.push({ labels: { [label]: name }, value });
  return samples;
}
