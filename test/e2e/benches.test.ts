// Goal: no bench rots. Each runs with tiny input as its file is run; its rows must be numbers of the right form. No time is
// judged here.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { BENCHES } from "../../bench/benches.mjs";
import type { BenchResult, BenchRow } from "../../bench/ratios.mjs";

const ROOT = join(import.meta.dirname, "../..");
const TIMEOUT_MS = 120_000;
/** What the folder has beside benches. */
const HELPERS = ["benches", "compare", "fleet-gateway", "harness", "loopback", "machine"];
const MORE_HELPERS = ["map-matcher", "rank-pipelines", "ratios", "run", "table"];
const folder = mkdtempSync(join(tmpdir(), "kvgroup-benches-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("every file of the folder is a bench of the list or a known helper", () => {
  const files = readdirSync(join(ROOT, "bench")).filter((name) => name.endsWith(".mjs"));
  const names = files.map((name) => name.slice(0, -".mjs".length));
  expect(names.sort()).toEqual([...BENCHES, ...HELPERS, ...MORE_HELPERS].sort());
});

test.each(BENCHES)("%s runs with tiny input and reports rows", { timeout: TIMEOUT_MS }, (name) => {
  const json = join(folder, `${name}.json`);
  const script = join(ROOT, "bench", `${name}.mjs`);
  const words = [script, "--tiny", "--yardstick", `--json=${json}`];
  const run = spawnSync(process.execPath, words, { cwd: ROOT, encoding: "utf8" });
  expect(run.status, run.stderr).toBe(0);
  const result = JSON.parse(readFileSync(json, "utf8")) as BenchResult;
  expect(result).toMatchObject({ bench: name, size: "tiny" });
  expect(result.rows.length).toBeGreaterThan(0);
  for (const row of result.rows) expectSound(row);
  expect(run.stdout).toContain(result.rows[0]?.row);
});

function expectSound(row: BenchRow): void {
  const { best = Number.NaN, median = Number.NaN, tail = Number.NaN } = row;
  const ordered = row.better === "less" ? [best, median, tail] : [tail, median, best];
  expect(ordered, JSON.stringify(row)).toEqual([...ordered].sort((a, b) => a - b));
  expect(ordered.every(Number.isFinite), JSON.stringify(row)).toBe(true);
  expect(row.samples).toBeGreaterThan(0);
}
