// Runs the test lanes one after another in processes of their own, prints how many tests each one ran, and
// fails on a failed, a skipped or a missing test. Usage: node scripts/lanes.mjs [lane ...]
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ALL_LANES = ["unit", "property", "differential", "tidy", "e2e"];
const wanted = process.argv.slice(2);
const unknown = wanted.filter((lane) => !ALL_LANES.includes(lane));
if (unknown.length > 0) {
  console.error(`unknown lane ${unknown.join(", ")}; lanes are ${ALL_LANES.join(", ")}`);
  process.exit(2);
}
const lanes = wanted.length > 0 ? wanted : ALL_LANES;
const folder = mkdtempSync(join(tmpdir(), "kvgroup-lanes-"));
let passed = 0;
let failed = 0;
const rows = [];
for (const lane of lanes) {
  const report = join(folder, `${lane}.json`);
  const started = Date.now();
  const run = spawnSync(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      `test/${lane}/`,
      "--reporter=dot",
      "--reporter=json",
      `--outputFile.json=${report}`,
    ],
    { stdio: "inherit" },
  );
  let counts = {
    numPassedTests: 0,
    numFailedTests: 0,
    numPendingTests: 0,
    numTodoTests: 0,
    success: false,
  };
  try {
    counts = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    console.error(`lane ${lane}: no report was written`);
  }
  const skipped = counts.numPendingTests + counts.numTodoTests;
  const isGood = run.status === 0 && counts.success && counts.numPassedTests > 0 && skipped === 0;
  passed += counts.numPassedTests;
  failed += counts.numFailedTests + (isGood ? 0 : Math.max(0, 1 - counts.numFailedTests));
  rows.push(
    `lane ${lane}: ${counts.numPassedTests} passed, ${counts.numFailedTests} failed, ${skipped} skipped` +
      ` (${((Date.now() - started) / 1000).toFixed(1)} s)${isGood ? "" : "  <-- FAILED"}`,
  );
}
rmSync(folder, { recursive: true, force: true });
for (const row of rows) console.log(row);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
