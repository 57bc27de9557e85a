// Goal: no seed breaks the promise of the stream; and the seeds reach what they are meant to reach.
// Method: 300 fixed seeds, and a range that the commit's hash decides, so that each commit looks at new ones. A failure
// prints the one command that shows it again.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { BRANCHES, Coverage, FAULT_KINDS } from "../../src/cli/dist/sim/coverage.js";
import { replayCommand } from "../../src/cli/dist/sim/sim-command.js";
import { runSeed } from "../../src/cli/dist/sim/simulation.js";

const FIXED_SEEDS = 300;
const FRESH_SEEDS = 100;
/** Where there is no commit to take a hash of. */
const FALLBACK_HASH = "5eed5eed";

/** Needs a replaced engine whose next number comes before the loss of the connection is told. */
const RARE: ReadonlySet<string> = new Set(["answers_excused", "epochs_mixed"]);

function failuresOf(first: number, count: number, coverage: Coverage): readonly string[] {
  const failures: string[] = [];
  for (let seed = first; seed < first + count; seed++) {
    const failure = runSeed({ seed, coverage });
    if (failure !== undefined)
      failures.push(`${failure}; again: ${replayCommand(seed, undefined)}`);
  }
  return failures;
}

test("the fixed seeds are clean, and every fault and every branch happens in them", () => {
  const coverage = new Coverage();
  expect(failuresOf(1, FIXED_SEEDS, coverage)).toEqual([]);
  const expected = [...FAULT_KINDS, ...BRANCHES].filter((name) => !RARE.has(name));
  const never = expected.filter((name) => coverage.of(name) === 0);
  expect(never).toEqual([]);
});

test("seeds that no earlier commit has seen are clean", () => {
  const head = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  const hash = head.status === 0 ? head.stdout.trim() : FALLBACK_HASH;
  const first = 1_000_000 + (Number.parseInt(hash.slice(0, 8), 16) % 1_000_000_000);
  console.info(`fresh seeds: ${first} to ${first + FRESH_SEEDS - 1}`);
  expect(failuresOf(first, FRESH_SEEDS, new Coverage())).toEqual([]);
});

test("a seed decides everything", () => {
  const runs = [0, 1].map(() => {
    const lines: string[] = [];
    runSeed({ seed: 4, coverage: new Coverage(), trace: (line) => lines.push(line) });
    return lines;
  });
  expect(runs[0]?.length).toBeGreaterThan(100);
  expect(runs[1]).toEqual(runs[0]);
});
