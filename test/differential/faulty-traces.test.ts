// Goal: under faults an answer is never above the engine's where the gateway can know what it says, and equal again
// after healing. Method: recordings of real engines with faults drawn from seeds; the faultless path judges what was
// healed, the engine's own answers judge everything. And the judge is judged: a recording whose answers are lowered
// must fail.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { REPLAY_MODES } from "../../src/cli/dist/recorded-engine.js";
import { type FaultyReport, verifyFaults } from "../../src/cli/dist/verify-faults.js";
import { verifyTrace } from "../../src/cli/dist/verify-trace.js";

const folder = join(import.meta.dirname, "../fixtures/traces");
const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl.gz"));
const temporary = mkdtempSync(join(tmpdir(), "kvgroup-faults-"));
afterAll(() => rmSync(temporary, { recursive: true, force: true }));
const reports: FaultyReport[] = [];

describe.each([11, 12])("seed %i", (seed) => {
  test.each(files)("%s", async (file) => {
    const report = await verifyFaults(join(folder, file), seed);
    reports.push(report);
    expect(report, "again: verify-trace --faults").toMatchObject({ isGood: true, above: 0 });
    expect(report.mismatch).toBeUndefined();
  });
});

test("every kind of fault and every way of replay happened, and most answers were judged", () => {
  const sum = (of: (report: FaultyReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  for (const kind of [
    "drops",
    "repeats",
    "cuts",
    "bridgeRestarts",
    "checkpoints",
    "streamCuts",
    "engineRestarts",
  ] as const) {
    expect(
      sum((report) => report.faults[kind]),
      kind,
    ).toBeGreaterThan(0);
  }
  expect(new Set(reports.map((report) => report.replay))).toEqual(new Set(REPLAY_MODES));
  expect(sum((report) => report.equal)).toBeGreaterThan(0.6 * sum((report) => report.lookups));
});

test("an engine that would reuse less than the recording says is noticed as above", async () => {
  const text = gunzipSync(readFileSync(join(folder, "full-swa.jsonl.gz"))).toString("utf8");
  const path = join(temporary, "lowered.jsonl");
  const lower = (line: string): string =>
    line.replace(/"native":\s*(\d+)/, (_, n: string) => `"native":${Math.max(0, Number(n) - 16)}`);
  writeFileSync(path, text.split("\n").map(lower).join("\n"));
  const report = await verifyFaults(path, 11);
  expect([report.isGood, report.above > 0, report.mismatch?.verdict]).toEqual([
    false,
    true,
    "above",
  ]);
});

test.each(files)("%s with a gateway that joins late", async (file) => {
  const report = await verifyTrace(join(folder, file), { join: "random" });
  expect(report).toMatchObject({ isGood: true, above: 0 });
});
