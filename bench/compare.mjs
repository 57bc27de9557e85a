// What it is: another revision against this one: `npm run bench:compare -- REV [name ...] [--full] [--only TEXT]`. The revision is
// built in a temporary git worktree; both sides run the benches of this checkout, each case in a process of its own, in the order
// A B B A, and the ratios are printed.
// Owns: the worktree, which is removed at the end.
// Refuses: a revision that cannot be built. A bench that fails on one side is left out, and said.
// Does not do: judge: what lies within the spread is no difference.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BENCH_OPTIONS, chosenBenches } from "./benches.mjs";
import { joinRounds } from "./harness.mjs";
import { machine } from "./machine.mjs";
import { ratioTable } from "./ratios.mjs";

const ROOT = join(import.meta.dirname, "..");
const ORDER = ["before", "after", "after", "before"];

const { values, positionals } = parseArgs({ allowPositionals: true, options: BENCH_OPTIONS });
const [revision, ...names] = positionals;
if (revision === undefined) {
  console.error("which revision? npm run bench:compare -- REV [name ...]");
  process.exit(2);
}

function must(command, words, cwd) {
  const run = spawnSync(command, words, { cwd, stdio: ["ignore", "ignore", "inherit"] });
  if (run.status !== 0) throw new Error(`${command} ${words.join(" ")} failed`);
}

const folder = mkdtempSync(join(tmpdir(), "kvgroup-compare-"));
const other = join(folder, "before");
try {
  must("git", ["worktree", "add", "--detach", other, revision], ROOT);
  must("npm", ["ci", "--prefer-offline", "--no-audit", "--no-fund"], other);
  must("npm", ["run", "build"], other);
  // The same benches on both sides: only the product differs. Its processes are started by test/support.
  rmSync(join(other, "bench"), { recursive: true, force: true });
  cpSync(join(ROOT, "bench"), join(other, "bench"), { recursive: true });
  cpSync(join(ROOT, "test/support"), join(other, "test/support"), { recursive: true });
  compare({ before: other, after: ROOT });
} finally {
  spawnSync("git", ["worktree", "remove", "--force", other], { cwd: ROOT });
  rmSync(folder, { recursive: true, force: true });
}

function compare(roots) {
  const sides = { before: [], after: [] };
  for (const name of chosenBenches(names)) {
    const rounds = { before: [], after: [] };
    for (const side of ORDER) {
      const result = runOne(roots[side], name);
      if (result === undefined) console.log(`${name} failed on the side "${side}"`);
      else rounds[side].push(result);
    }
    if (rounds.before.length + rounds.after.length < ORDER.length) continue;
    for (const side of ["before", "after"]) sides[side].push(joined(rounds[side]));
  }
  const lines = ratioTable(sides.before, sides.after) ?? "nothing to compare";
  console.log(`\n${revision} (before) against this checkout (after), ${JSON.stringify(machine())}`);
  console.log(lines);
  mkdirSync(join(ROOT, "bench/results"), { recursive: true });
  const file = join(ROOT, "bench/results/compare.json");
  writeFileSync(file, JSON.stringify({ revision, ...machine(), ...sides }, null, 1));
}

function runOne(root, name) {
  const json = join(folder, "rows.json");
  rmSync(json, { force: true });
  const words = Object.entries(values).map(([flag, value]) =>
    value === true ? `--${flag}` : `--${flag}=${value}`,
  );
  const recordings = process.env.KVGROUP_RECORDINGS ?? join(ROOT, "..", "shared", "traces");
  const script = join(root, "bench", `${name}.mjs`);
  const run = spawnSync(process.execPath, [script, ...words, `--json=${json}`], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, KVGROUP_RECORDINGS: recordings },
  });
  return run.status === 0 ? JSON.parse(readFileSync(json, "utf8")) : undefined;
}

/** Rounds of a whole bench as one. */
function joined(rounds) {
  const [{ bench, size }] = rounds;
  return { bench, size, rows: joinRounds(rounds.map(({ rows }) => rows)) };
}
