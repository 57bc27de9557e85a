// What it is: how every bench runs: each case in a process of its own, pinned to one core where that can be done, warmed up,
// and its rows reported as best, median and tail.
// Owns: the command line of a bench (`--tiny`, `--quick`, `--full`, `--only`, `--rounds`, `--json`, `--yardstick`), the form of
// a row, and how rounds of one row are put together.
// Refuses: an unknown flag, and a case that ends without its rows: the bench ends with exit code 1.
// Does not do: compare revisions (compare.mjs does) or judge times: machines are noisy, ratios of one run are what counts.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { table } from "./table.mjs";

export const SIZES = ["tiny", "quick", "full"];
const CASE_TIMEOUT_MS = 3_600_000;

const FLAGS = {
  tiny: { type: "boolean" },
  quick: { type: "boolean" },
  full: { type: "boolean" },
  /** Only cases whose name contains this. */
  only: { type: "string" },
  /** Processes of each case, one after another. */
  rounds: { type: "string" },
  /** Where the rows are written. */
  json: { type: "string" },
  /** Cases of the yardstick too. */
  yardstick: { type: "boolean" },
  /** For the harness itself: run this case here. */
  case: { type: "string" },
};

/** The flags of a bench, as `node:util` parses them. */
export function benchFlags(words) {
  const { values } = parseArgs({ args: words, options: FLAGS });
  const size = SIZES.find((name) => values[name] === true) ?? "quick";
  return { ...values, size, rounds: Number(values.rounds ?? 1) };
}

/**
 * Runs a bench. `url`: its import.meta.url. `bench.cases(context)`: names. `bench.run(name, context)`: measures one case and
 * calls `context.row`. `bench.isPinned(name)` false: the case has processes of its own, so that one core is not enough.
 */
export async function runBench(url, bench) {
  const flags = benchFlags(process.argv.slice(2));
  const context = new BenchContext(flags);
  if (flags.case !== undefined) {
    await bench.run(flags.case, context);
    writeFileSync(flags.json, JSON.stringify(context.rows));
    process.exit(0);
  }
  const cases = bench.cases(context).filter((name) => name.includes(flags.only ?? ""));
  const script = fileURLToPath(url);
  const rows = [];
  console.log(`${bench.name} (${flags.size}): ${bench.what}`);
  for (const name of cases) {
    const rounds = [];
    for (let round = 0; round < flags.rounds; round++) {
      rounds.push(
        await runCase({
          script,
          name,
          flags,
          isPinned: flags.size !== "tiny" && (bench.isPinned?.(name) ?? true),
        }),
      );
    }
    const joined = joinRounds(rounds);
    for (const row of joined) rows.push({ case: name, ...row });
  }
  console.log(table(rows));
  if (flags.json !== undefined) {
    writeFileSync(flags.json, JSON.stringify({ bench: bench.name, size: flags.size, rows }));
  }
}

/** What a case is given. */
class BenchContext {
  constructor({ size, yardstick }) {
    this.size = size;
    this.hasYardstick = yardstick === true;
    this.rows = [];
  }

  /** The value of this run's size. */
  pick(tiny, quick, full) {
    return { tiny, quick, full }[this.size];
  }

  /**
   * Reports samples of one thing. `better`: "less" for times and sizes, "more" for rates. `cpu`: processor time of one
   * sample on average, in the same unit, garbage collection beside it included.
   */
  row(name, unit, samples, { better = "less", cpu } = {}) {
    this.rows.push(summaryOf(name, unit, samples, { better, cpu }));
  }

  /** Says why a case has no row. */
  skip(why) {
    this.rows.push({ row: `skipped: ${why}`, unit: "", better: "less", samples: 0 });
  }
}

function summaryOf(row, unit, samples, { better, cpu }) {
  if (samples.length === 0 || samples.some((sample) => !Number.isFinite(sample))) {
    throw new Error(`${row}: no samples, or one that is no number`);
  }
  const sorted = samples.toSorted((a, b) => (better === "less" ? a - b : b - a));
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  const tail = sorted.length >= 20 ? at(0.99) : sorted.at(-1);
  return { row, unit, better, samples: sorted.length, best: at(0), median: at(0.5), tail, cpu };
}

/** Rows of several processes as one: the best, the median of medians, and how far the medians lie apart. */
export function joinRounds(rounds) {
  const [first = [], ...others] = rounds;
  return first.map((row, i) => {
    const all = [row, ...others.map((round) => round[i])];
    if (all.some((one) => one?.row !== row.row))
      throw new Error(`${row.row}: rounds differ in rows`);
    if (row.samples === 0 || others.length === 0) return row;
    const of = (field) => all.map((one) => one[field]).sort((a, b) => a - b);
    const medians = of("median");
    return {
      ...row,
      samples: all.reduce((sum, one) => sum + one.samples, 0),
      best: row.better === "less" ? of("best")[0] : of("best").at(-1),
      median: middle(medians),
      tail: middle(of("tail")),
      cpu: row.cpu === undefined ? undefined : middle(of("cpu")),
      spread: (medians.at(-1) - medians[0]) / middle(medians),
    };
  });
}

/** The middle one of sorted numbers, the mean of both where they are even. */
export function middle(sorted) {
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const hasTaskset = spawnSync("taskset", ["--version"], { stdio: "ignore" }).status === 0;

/** The words that start a program on the last core alone, where the system has `taskset`. */
export function pinned(isPinned = true) {
  return isPinned && hasTaskset ? ["taskset", "-c", String(availableParallelism() - 1)] : [];
}

/** One case in a process of its own; resolves with its rows. */
function runCase({ script, name, flags, isPinned }) {
  const folder = mkdtempSync(join(tmpdir(), "kvgroup-bench-"));
  const json = join(folder, "rows.json");
  const [program, ...words] = [
    ...pinned(isPinned),
    process.execPath,
    "--expose-gc",
    "--max-old-space-size=12000",
    script,
    `--${flags.size}`,
    ...(flags.yardstick === true ? ["--yardstick"] : []),
    `--case=${name}`,
    `--json=${json}`,
  ];
  const child = spawn(program, words, { stdio: ["ignore", "inherit", "inherit"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), CASE_TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      try {
        if (code !== 0) throw new Error(`${name} ended with ${code ?? signal}`);
        resolve(JSON.parse(readFileSync(json, "utf8")));
      } catch (error) {
        reject(error);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
}

/** Processor time of this process in ms, all its threads. */
export function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/**
 * Calls `work(i)` until there are `count` samples or `budgetMs` is over (then at least `least`), after warming up. `prepare(i)`
 * comes before each call and is not timed. Samples are in µs of the clock; `cpu` in µs of the processor, per call: it is read
 * around each call, costs about a µs itself and means nothing below ten.
 */
export function timeEach({ count, least = 5, warmUp = 5, budgetMs = 20_000, prepare, work }) {
  const begin = performance.now();
  const samples = [];
  let cpu = 0;
  for (let i = -warmUp; i < count; i++) {
    const given = prepare?.(i + warmUp);
    const cpuBegin = cpuMs();
    const from = performance.now();
    work(given);
    const took = performance.now() - from;
    const cpuTook = cpuMs() - cpuBegin;
    if (i >= 0) {
      samples.push(took * 1000);
      cpu += cpuTook * 1000;
    }
    if (samples.length >= least && performance.now() - begin > budgetMs) break;
  }
  return { samples, cpu: cpu / samples.length };
}

/** Bytes of this process now, after garbage collection: V8's heap and what hangs on it, and what the system counts. */
export function memoryNow() {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, resident: rss };
}
