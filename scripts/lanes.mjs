// Runs the test lanes one after another in processes of their own, prints how many tests each one ran, and
// fails on a failed, a skipped or a missing test.
//   node scripts/lanes.mjs                the lanes of `npm test`
//   node scripts/lanes.mjs unit tidy      only these
//   node scripts/lanes.mjs --ci           the lanes of `npm test`, the demo, and recordings beside the checkout
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const TEST_LANES = ["unit", "property", "differential", "sim", "tidy", "e2e", "chaos"];
const BINARY = "src/cli/dist/main.js";
// Where a larger set of recordings lies, if there is one; a test in `differential` plays the committed ones.
const RECORDINGS = process.env.KVGROUP_RECORDINGS ?? join("..", "shared", "traces");

const failures = [];

/** Failed tests are said again at the end, where a reader of a long log looks first. */
function noteFailures(lane, files) {
  for (const { name, assertionResults } of files) {
    for (const { status, fullName, failureMessages } of assertionResults) {
      if (status !== "failed") continue;
      failures.push(`${lane}: ${relative(process.cwd(), name)}: ${fullName}`);
      failures.push(...failureMessages.map((text) => `  ${text.split("\n", 3).join("\n  ")}`));
    }
  }
}

/** One lane of vitest: the counts of its report. */
function testLane(lane) {
  const folder = mkdtempSync(join(tmpdir(), "kvgroup-lane-"));
  const report = join(folder, "report.json");
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
  try {
    const counts = JSON.parse(readFileSync(report, "utf8"));
    noteFailures(lane, counts.testResults);
    return {
      passed: counts.numPassedTests,
      failed: counts.numFailedTests,
      skipped: counts.numPendingTests + counts.numTodoTests,
      isGood: run.status === 0 && counts.success,
    };
  } catch {
    return { passed: 0, failed: 0, skipped: 0, isGood: false };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The demo counts as one test: real processes, exit code 0. */
function demoLane() {
  const run = spawnSync(process.execPath, [BINARY, "demo"], { encoding: "utf8" });
  console.log(run.stdout.trimEnd().split("\n").slice(-1)[0]);
  if (run.status !== 0) console.error(run.stderr);
  const passed = run.status === 0 ? 1 : 0;
  return { passed, failed: 1 - passed, skipped: 0, isGood: run.status === 0 };
}

/** Another one for each commit; where there is none, a fixed one. */
function faultSeed() {
  const head = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  return head.status === 0 ? Number.parseInt(head.stdout.slice(0, 7), 16) : 1;
}

/** Every recording counts as one test. `flags`: how they are played. */
function recordingsLane(...flags) {
  const files = readdirSync(RECORDINGS)
    .filter((name) => name.endsWith(".jsonl.gz"))
    .map((name) => join(RECORDINGS, name));
  const run = spawnSync(process.execPath, [BINARY, "verify-trace", ...flags, ...files], {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  console.log(run.stdout + run.stderr);
  const rows = run.stdout.split("\n").filter((line) => / (ok|not judged)/.test(line)).length;
  const isGood = run.status === 0 && rows === files.length;
  return { passed: rows, failed: files.length - rows, skipped: 0, isGood };
}

const wanted = process.argv.slice(2);
const isCi = wanted.includes("--ci");
const named = wanted.filter((lane) => lane !== "--ci");
const unknown = named.filter((lane) => !TEST_LANES.includes(lane));
if (unknown.length > 0) {
  console.error(`unknown lane ${unknown.join(", ")}; lanes are ${TEST_LANES.join(", ")}`);
  process.exit(2);
}
const lanes = (named.length > 0 ? named : TEST_LANES).map((lane) => [lane, () => testLane(lane)]);
if (isCi) {
  lanes.push(["demo", demoLane]);
  if (existsSync(RECORDINGS)) {
    lanes.push(["recordings", () => recordingsLane("--exact")]);
    lanes.push(["recordings, late gateway", () => recordingsLane("--join", "random")]);
    lanes.push(["recordings, faults", () => recordingsLane("--faults", String(faultSeed()))]);
  } else
    console.log("no recordings beside this checkout: the committed ones run in `differential`");
}

const total = { passed: 0, failed: 0 };
const rows = [];
for (const [lane, run] of lanes) {
  const started = performance.now();
  const counts = run();
  const isGood = counts.isGood && counts.passed > 0 && counts.failed === 0 && counts.skipped === 0;
  total.passed += counts.passed;
  total.failed += isGood ? 0 : Math.max(1, counts.failed);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  rows.push(
    `lane ${lane}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped` +
      ` (${seconds} s)${isGood ? "" : "  <-- FAILED"}`,
  );
}
for (const line of failures) console.log(line);
for (const row of rows) console.log(row);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);
