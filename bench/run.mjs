// What it is: runs benches one after another and keeps their rows: `npm run bench -- [name ...] [--tiny|--quick|--full] [--only
// TEXT] [--rounds N] [--yardstick]`.
// Owns: bench/results (not committed), one file a run; `--baseline` writes bench/baseline.json, which is.
// Refuses: an unknown name or flag; a bench that fails makes the exit code 1, after the others have run.
// Does not do: say whether a number is good.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BENCH_OPTIONS, chosenBenches } from "./benches.mjs";
import { machine } from "./machine.mjs";
import { ratioTable } from "./ratios.mjs";

const FOLDER = join(import.meta.dirname, "results");
const BASELINE = join(import.meta.dirname, "baseline.json");

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    ...BENCH_OPTIONS,
    yardstick: { type: "boolean" },
    baseline: { type: "boolean" },
  },
});

mkdirSync(FOLDER, { recursive: true });
const stamp = new Date().toISOString().replace(/[:.]/g, "-");
const result = { ...machine(), benches: [] };
let failed = 0;
for (const name of chosenBenches(positionals)) {
  const json = join(FOLDER, `${name}.json`);
  const words = Object.entries(values)
    .filter(([flag]) => flag !== "baseline")
    .map(([flag, value]) => (value === true ? `--${flag}` : `--${flag}=${value}`));
  const script = join(import.meta.dirname, `${name}.mjs`);
  const run = spawnSync(process.execPath, [script, ...words, `--json=${json}`], {
    stdio: "inherit",
  });
  if (run.status === 0) result.benches.push(JSON.parse(readFileSync(json, "utf8")));
  else failed += 1;
  console.log("");
}
writeFileSync(join(FOLDER, `${stamp}.json`), JSON.stringify(result, null, 1));
if (values.baseline === true) writeBaseline();
else printBaseline();
process.exit(failed === 0 ? 0 : 1);

/** The cases of this run replace those of the same bench and size in the baseline. */
function writeBaseline() {
  const before = readBaseline();
  const names = new Set([...before.benches, ...result.benches].map(({ bench }) => bench));
  const benches = [...names].map((bench) => {
    const old = before.benches.find((one) => one.bench === bench);
    const now = result.benches.find((one) => one.bench === bench);
    if (now === undefined) return old;
    const ran = new Set(now.rows.map((row) => row.case));
    const kept = old?.size === now.size ? old.rows.filter((row) => !ran.has(row.case)) : [];
    const rows = [...kept, ...now.rows].map((row) => ({ ...row, ...rounded(row) }));
    return { bench, size: now.size, rows };
  });
  benches.sort((a, b) => (a.bench < b.bench ? -1 : 1));
  const rows = (list) => list.map((row) => `    ${JSON.stringify(row)}`).join(",\n");
  const text = benches
    .map(({ bench, size, rows: list }) =>
      [`  {"bench": "${bench}", "size": "${size}", "rows": [`, rows(list), "  ]}"].join("\n"),
    )
    .join(",\n");
  const { benches: _, ...about } = result;
  const head = JSON.stringify(about).slice(1, -1);
  writeFileSync(BASELINE, `{${head}, "benches": [\n${text}\n]}\n`);
}

function rounded(row) {
  const fields = ["best", "median", "tail", "cpu", "spread"].filter(
    (field) => row[field] !== undefined && row[field] !== null,
  );
  return Object.fromEntries(
    fields.map((field) => [field, Number(Number(row[field]).toPrecision(4))]),
  );
}

function readBaseline() {
  try {
    return JSON.parse(readFileSync(BASELINE, "utf8"));
  } catch {
    return { benches: [] };
  }
}

function printBaseline() {
  const baseline = readBaseline();
  const now = machine();
  const isSame = now.processor === baseline.processor && now.node === baseline.node;
  const lines = ratioTable(baseline.benches, result.benches);
  if (lines === undefined) return;
  console.log(`compared with the committed baseline (${baseline.commit}, ${baseline.processor}):`);
  if (!isSame)
    console.log("another machine or Node version: only ratios to the yardstick mean anything");
  console.log(lines);
}
