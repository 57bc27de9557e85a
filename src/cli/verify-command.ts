/**
 * What it is: `kvgroup verify-trace`: runs the judge over files and prints what it found.
 * Owns: nothing.
 * Refuses: nothing of its own.
 * Does not do: judge (verify-trace.ts does).
 */
import { basename } from "node:path";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { type FaultyReport, verifyFaults } from "./verify-faults.ts";
import { type TraceReport, type TraceRun, verifyTrace } from "./verify-trace.ts";

/** How files are played. */
export interface VerifyFlags extends TraceRun {
  readonly isJson: boolean;
}

/** The command's options as given. */
export interface VerifyOptions {
  readonly json?: boolean;
  readonly join?: string;
  readonly faults?: string;
  readonly exact?: boolean;
  /** False with --no-recompute. */
  readonly recompute?: boolean;
}

/** Reads the options; throws KvEventsError("config_invalid"). */
export function readVerifyOptions(
  options: VerifyOptions,
): VerifyFlags & { readonly faultSeed: number | undefined } {
  const { join, faults } = options;
  if (join !== undefined && faults !== undefined) {
    throw new KvEventsError(
      "config_invalid",
      "--join and --faults: a gateway joins late under faults anyway",
    );
  }
  if (options.exact === true && faults !== undefined) {
    throw new KvEventsError(
      "config_invalid",
      "--exact and --faults: what was lost makes answers lower, and they say so",
    );
  }
  return {
    isJson: options.json === true,
    isExact: options.exact === true,
    isRecomputing: options.recompute !== false,
    join: join === undefined || join === "random" ? join : wholeNumber("--join", join),
    faultSeed: faults === undefined ? undefined : wholeNumber("--faults", faults),
  };
}

function wholeNumber(flag: string, text: string): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (value <= 0xffff_ffff) return value;
  throw new KvEventsError("config_invalid", `${flag}: not a whole number up to 4294967295`);
}

/** Prints one row (or JSON object) a file and a sum; gives the exit code: 0 = every file is good. */
export async function verifyCommand(
  files: readonly string[],
  { isJson, ...run }: VerifyFlags,
): Promise<number> {
  const sum = { files: 0, lookups: 0, equal: 0, above: 0, below: 0, bad: 0 };
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const width = Math.max(...files.map((file) => basename(file).length));
  if (!isJson) print(row(width, HEADINGS));
  for (const file of files) {
    const report = await verifyTrace(file, run);
    sum.files += 1;
    if (!report.isGood) sum.bad += 1;
    if (report.unsupported === undefined) {
      sum.lookups += report.lookups;
      sum.equal += report.equal;
      sum.above += report.above;
      sum.below += report.below;
    }
    if (isJson) {
      print(JSON.stringify(report));
      continue;
    }
    print(row(width, cells(report)));
    if (!report.isGood && report.mismatch !== undefined) {
      print(`  first mismatch: ${JSON.stringify(report.mismatch)}`);
      print(`  again: npm run verify-trace -- --json ${runFlags(run)}${file}`);
    }
  }
  const { lookups, equal, above, below } = sum;
  if (isJson) print(JSON.stringify({ sum }));
  else {
    print(
      `${sum.files} files, ${lookups} lookups judged: ${equal} equal, ${above} above, ${below} below`,
    );
    print(
      sum.bad === 0 ? "every file is as it must be" : `${sum.bad} files are NOT as they must be`,
    );
  }
  return sum.files > 0 && sum.bad === 0 ? 0 : 1;
}

/** The flags that play a file so again. */
function runFlags({ join, isExact, isRecomputing }: TraceRun): string {
  const exact = isExact === true ? "--exact " : "";
  const recompute = isRecomputing === false ? "--no-recompute " : "";
  return `${exact}${recompute}${join === undefined ? "" : `--join ${join} `}`;
}

const HEADINGS = [
  "file",
  "vllm",
  "lookups",
  "equal",
  "above",
  "below",
  "dense",
  "eq.hash",
  "recomp.",
  "query",
  "no place",
  "hashes",
  "",
] as const;

function cells(report: TraceReport): readonly (string | number)[] {
  const { vllm, lookups, equal, above, below, entries } = report;
  return [
    basename(report.file),
    vllm,
    lookups,
    equal,
    above,
    below,
    entries?.dense ?? "-",
    entries?.equalHash ?? "-",
    entries?.recomputed ?? "-",
    entries?.queryAlone ?? "-",
    entries?.notPlaced ?? "-",
    report.hashScheme,
    verdict(report),
  ];
}

function verdict(report: TraceReport): string {
  const refused = Object.entries(report.refusals);
  if (refused.length > 0)
    return `WRONG: refused ${refused.map((pair) => pair.join(" ")).join(", ")}`;
  if (report.unsupported !== undefined) return `not judged: ${report.unsupported}`;
  if (!report.isGood) return "WRONG";
  return report.isUpperBoundOnly && report.below > 0
    ? `ok (upper bound only; ${report.unplaced} entries without a place at the end)`
    : "ok";
}

/** Of "sha256_cbor/configured/1024". */
const HASHES_WIDTH = 23;

function row(width: number, cells: readonly (string | number)[]): string {
  const [file, vllm, ...rest] = cells;
  const end = rest.pop();
  const hashes = rest.pop();
  const numbers = rest.map((cell) => String(cell).padStart(9)).join("");
  return `${String(file).padEnd(width)} ${String(vllm).padEnd(7)}${numbers}  ${String(hashes).padEnd(HASHES_WIDTH)} ${end}`;
}

/** As `verifyCommand`, with the faults of one seed. */
export async function verifyFaultsCommand(
  files: readonly string[],
  seed: number,
  { isJson, isRecomputing }: VerifyFlags,
): Promise<number> {
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const width = Math.max(...files.map((file) => basename(file).length));
  const sum = { files: 0, lookups: 0, equal: 0, above: 0, lower: 0, wrong: 0, bad: 0 };
  if (!isJson) print(faultRow(width, FAULT_HEADINGS));
  for (const file of files) {
    const report = await verifyFaults(file, seed, { isRecomputing });
    sum.files += 1;
    if (!report.isGood) sum.bad += 1;
    if (report.unsupported === undefined) {
      for (const key of ["lookups", "equal", "above", "lower", "wrong"] as const)
        sum[key] += report[key];
    }
    if (isJson) {
      print(JSON.stringify(report));
      continue;
    }
    print(faultRow(width, faultCells(report)));
    if (report.isGood) continue;
    print(`  first: ${JSON.stringify(report.mismatch ?? "it never healed")}`);
    print(`  again: npm run verify-trace -- --faults ${seed} ${file}`);
  }
  if (isJson) print(JSON.stringify({ sum }));
  else {
    const { lookups, equal, above, lower, wrong } = sum;
    print(
      `${sum.files} files, seed ${seed}, ${lookups} lookups: ${equal} equal, ${above} above, ` +
        `${lower} below and said so, ${wrong} wrong after healing`,
    );
    print(
      sum.bad === 0 ? "every file is as it must be" : `${sum.bad} files are NOT as they must be`,
    );
  }
  return sum.files > 0 && sum.bad === 0 ? 0 : 1;
}

const FAULT_HEADINGS = [
  "file",
  "replay",
  "lookups",
  "equal",
  "above",
  "lower",
  "wrong",
  "stale",
  "unjudged",
  "faults",
] as const;

function faultCells(report: FaultyReport): readonly (string | number)[] {
  const { faults } = report;
  const { drops, repeats, cuts, bridgeRestarts, streamCuts, engineRestarts } = faults;
  const sum = drops + repeats + cuts + bridgeRestarts + streamCuts + engineRestarts;
  return [
    basename(report.file),
    report.replay,
    report.lookups,
    report.equal,
    report.above,
    report.lower,
    report.wrong,
    report.stale,
    report.unjudged,
    `${sum} faults  ${report.unsupported !== undefined ? "not judged" : report.isGood ? "ok" : "WRONG"}`,
  ];
}

function faultRow(width: number, cells: readonly (string | number)[]): string {
  const [file, replay, ...rest] = cells;
  const last = rest.pop();
  const numbers = rest.map((cell) => String(cell).padStart(9)).join("");
  return `${String(file).padEnd(width)} ${String(replay).padEnd(7)}${numbers}  ${last}`;
}
