/**
 * What it is: Prometheus metrics. Components count in plain fields; this reads them when a scrape
 * comes.
 * Owns: one prom-client registry, and the number of series that each metric may have.
 * Refuses: series beyond the bound of their metric: left out and counted in
 * kvgroup_metric_series_dropped.
 * Does not do: count on a hot path, serve HTTP, or keep values between scrapes (but for
 * histograms).
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { invariant } from "./invariant.ts";

/** One value of a metric. `labels` has exactly the metric's label names. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric that is read at scrape time. */
export interface CollectedMetric {
  /** Prometheus name with its unit; counters end in _total. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** Bound of the series; default 1,000. */
  readonly maxSeries?: number;
  /** All values now. Samples with equal labels are added up. Must not throw. */
  read(): Iterable<Sample>;
}

/** A distribution that callers observe. No labels: its series are its buckets. */
export interface HistogramMetric {
  readonly name: string;
  readonly help: string;
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
}

/** A body for a scraper. */
export interface Scrape {
  readonly contentType: string;
  readonly body: string;
}

/** The process's metrics. */
export interface Metrics {
  /** Registers a counter: `read` gives what was counted since the start. */
  counter(metric: CollectedMetric): void;
  /** Registers a gauge: `read` gives what is now. */
  gauge(metric: CollectedMetric): void;
  /** Registers a distribution; the function returned observes one value. */
  histogram(metric: HistogramMetric): (value: number) => void;
  /** Adds Node's own metrics (memory, CPU, event loop delay, collections). Starts its observers. */
  addProcessMetrics(): void;
  /** Everything in Prometheus' text format. */
  metricsText(): Promise<string>;
  /** Content type of `metricsText`. */
  readonly contentType: string;
  /** Both, as a health server wants them. */
  scrape(): Promise<Scrape>;
}

const DEFAULT_MAX_SERIES = 1_000;

/** An empty registry of its own. A name is registered once. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const dropped = new Map<string, number>();
  const register = (metric: CollectedMetric, kind: "counter" | "gauge"): void => {
    invariant(registry.getSingleMetric(metric.name) === undefined, "a metric is registered once");
    invariant(
      (kind === "counter") === metric.name.endsWith("_total"),
      "counters, and only counters, end in _total",
    );
    dropped.set(metric.name, 0);
    registerCollected(registry, metric, kind, dropped);
  };
  registerCollected(registry, droppedSeries(dropped), "gauge", new Map());
  const contentType = registry.contentType;
  const metricsText = (): Promise<string> => registry.metrics();
  return {
    counter: (metric) => register(metric, "counter"),
    gauge: (metric) => register(metric, "gauge"),
    histogram: (metric) => {
      const { name, help, buckets } = metric;
      invariant(registry.getSingleMetric(name) === undefined, "a metric is registered once");
      const histogram = new Histogram({ name, help, buckets: [...buckets], registers: [registry] });
      return (value) => histogram.observe(value);
    },
    addProcessMetrics: () => collectDefaultMetrics({ register: registry }),
    metricsText,
    contentType,
    scrape: async () => ({ contentType, body: await metricsText() }),
  };
}

function registerCollected(
  registry: Registry,
  metric: CollectedMetric,
  kind: "counter" | "gauge",
  dropped: Map<string, number>,
): void {
  const { name, help } = metric;
  const common = { name, help, labelNames: [...(metric.labels ?? [])], registers: [registry] };
  if (kind === "counter") {
    new Counter({
      ...common,
      collect() {
        this.reset();
        for (const { labels, value } of series(metric, dropped)) this.inc(labels, value);
      },
    });
  } else {
    new Gauge({
      ...common,
      collect() {
        this.reset();
        for (const { labels, value } of series(metric, dropped)) this.set(labels, value);
      },
    });
  }
}

/** The samples of one scrape: equal labels added up, at most `maxSeries`, the first ones win. */
function series(metric: CollectedMetric, dropped: Map<string, number>): Iterable<Required<Sample>> {
  const names = metric.labels ?? [];
  const maxSeries = metric.maxSeries ?? DEFAULT_MAX_SERIES;
  const found = new Map<string, { labels: Record<string, string>; value: number }>();
  let droppedNow = 0;
  for (const sample of metric.read()) {
    const labels: Record<string, string> = {};
    for (const name of names) labels[name] = sample.labels?.[name] ?? "";
    const key = JSON.stringify(labels);
    const known = found.get(key);
    if (known !== undefined) known.value += sample.value;
    else if (found.size < maxSeries) found.set(key, { labels, value: sample.value });
    else droppedNow += 1;
  }
  dropped.set(metric.name, droppedNow);
  return found.values();
}

function droppedSeries(dropped: ReadonlyMap<string, number>): CollectedMetric {
  return {
    name: "kvgroup_metric_series_dropped",
    help: "Series that the last scrape left out because their metric has too many, by metric",
    labels: ["metric"],
    *read() {
      for (const [metric, value] of dropped) if (value > 0) yield { labels: { metric }, value };
    },
  };
}
