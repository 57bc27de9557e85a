/**
 * What it is: tests of the metrics wrapper.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: test prom-client.
 */
import { describe, expect, test } from "vitest";
import { createMetrics, InvariantViolation, type Sample } from "../../../src/runtime/dist/index.js";

function samplesOf(text: string, name: string): string[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
}

describe("createMetrics", () => {
  test("plain fields are read at scrape time, each time anew", async () => {
    const metrics = createMetrics();
    const stats = { batches: 1, entries: 5 };
    metrics.counter({
      name: "kvgroup_batches_total",
      help: "Batches",
      read: () => [{ value: stats.batches }],
    });
    metrics.gauge({
      name: "kvgroup_entries",
      help: "Entries",
      read: () => [{ value: stats.entries }],
    });
    const first = await metrics.metricsText();
    expect(first).toContain("# TYPE kvgroup_batches_total counter");
    expect(samplesOf(first, "kvgroup_batches_total")).toEqual(["kvgroup_batches_total 1"]);
    stats.batches = 7;
    stats.entries = 0;
    const second = await metrics.metricsText();
    expect(samplesOf(second, "kvgroup_batches_total")).toEqual(["kvgroup_batches_total 7"]);
    expect(samplesOf(second, "kvgroup_entries")).toEqual(["kvgroup_entries 0"]);
  });

  test("series that are gone disappear; equal labels are added up", async () => {
    const metrics = createMetrics();
    let samples: Sample[] = [
      { labels: { rank: "0" }, value: 1 },
      { labels: { rank: "1" }, value: 2 },
      { labels: { rank: "0" }, value: 4 },
    ];
    metrics.gauge({ name: "g", help: "g", labels: ["rank"], read: () => samples });
    expect(samplesOf(await metrics.metricsText(), "g")).toEqual(['g{rank="0"} 5', 'g{rank="1"} 2']);
    samples = [{ labels: { rank: "1" }, value: 3 }];
    expect(samplesOf(await metrics.metricsText(), "g")).toEqual(['g{rank="1"} 3']);
  });

  test("series are bounded; what is left out is counted under the metric's name", async () => {
    const metrics = createMetrics();
    let count = 3;
    metrics.counter({
      name: "c_total",
      help: "c",
      labels: ["peer"],
      maxSeries: 3,
      *read() {
        for (let i = 0; i < count; i++) yield { labels: { peer: `p${i}` }, value: 1 };
      },
    });
    await metrics.metricsText();
    expect(samplesOf(await metrics.metricsText(), "kvgroup_metric_series_dropped")).toEqual([]);
    count = 1_003;
    await metrics.metricsText();
    const text = await metrics.metricsText();
    expect(samplesOf(text, "c_total")).toHaveLength(3);
    expect(samplesOf(text, "kvgroup_metric_series_dropped")).toEqual([
      'kvgroup_metric_series_dropped{metric="c_total"} 1000',
    ]);
  });

  test("labels outside the metric's names are ignored and missing ones are empty", async () => {
    const metrics = createMetrics();
    metrics.gauge({
      name: "g",
      help: "g",
      labels: ["rank"],
      read: () => [{ labels: { other: "x" }, value: 1 }],
    });
    expect(samplesOf(await metrics.metricsText(), "g")).toEqual(['g{rank=""} 1']);
  });

  test("a label with quotes, newlines and backslashes cannot forge a series", async () => {
    const metrics = createMetrics();
    const lora = 'x"} 1\nforged{a="\\';
    metrics.gauge({
      name: "g",
      help: "g",
      labels: ["lora"],
      read: () => [{ labels: { lora }, value: 1 }],
    });
    expect(
      (await metrics.metricsText()).split("\n").some((line) => line.startsWith("forged")),
    ).toBe(false);
  });

  test("a histogram counts what it observes", async () => {
    const metrics = createMetrics();
    const observe = metrics.histogram({ name: "h_seconds", help: "h", buckets: [0.1, 1] });
    for (const value of [0.05, 0.5, 5]) observe(value);
    const text = await metrics.metricsText();
    expect(samplesOf(text, "h_seconds_bucket")).toEqual([
      'h_seconds_bucket{le="0.1"} 1',
      'h_seconds_bucket{le="1"} 2',
      'h_seconds_bucket{le="+Inf"} 3',
    ]);
  });

  test("two sets of metrics share nothing, and scrape gives text and type", async () => {
    const one = createMetrics();
    const two = createMetrics();
    one.gauge({ name: "g", help: "g", read: () => [{ value: 1 }] });
    two.gauge({ name: "g", help: "g", read: () => [{ value: 2 }] });
    const scrape = await two.scrape();
    expect(scrape.contentType).toMatch(/^text\/plain/);
    expect(samplesOf(scrape.body, "g")).toEqual(["g 2"]);
  });

  test("false names are our bugs: twice one, a counter without _total, a gauge with it", () => {
    const metrics = createMetrics();
    const read = (): Sample[] => [];
    metrics.gauge({ name: "g", help: "g", read });
    expect(() => metrics.gauge({ name: "g", help: "g", read })).toThrow(InvariantViolation);
    expect(() => metrics.counter({ name: "c", help: "c", read })).toThrow(InvariantViolation);
    expect(() => metrics.gauge({ name: "g_total", help: "g", read })).toThrow(InvariantViolation);
    const histogram = { name: "g", help: "g", buckets: [1] };
    expect(() => metrics.histogram(histogram)).toThrow(InvariantViolation);
  });

  test("Node's own metrics can be added", async () => {
    const metrics = createMetrics();
    metrics.addProcessMetrics();
    expect(await metrics.metricsText()).toMatch(/process_resident_memory_bytes \d+/);
  });
});
