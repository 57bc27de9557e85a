/**
 * What it is: `kvgroup verify-trace`: runs the judge over files and prints what it found.
 * Owns: nothing.
 * Refuses: nothing of its own.
 * Does not do: judge (verify-trace.ts does).
 */
import { basename } from "node:path";
import { type TraceReport, verifyTrace } from "./verify-trace.ts";

/** Prints one row (or JSON object) a file and a sum; gives the exit code: 0 = every file is good. */
export async function verifyCommand(files: readonly string[], isJson: boolean): Promise<number> {
  const sum = { files: 0, lookups: 0, equal: 0, above: 0, below: 0, bad: 0 };
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const width = Math.max(...files.map((file) => basename(file).length));
  if (!isJson) print(row(width, ["file", "vllm", "lookups", "equal", "above", "below", ""]));
  for (const file of files) {
    const report = await verifyTrace(file);
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
    const { vllm, lookups, equal, above, below } = report;
    print(row(width, [basename(file), vllm, lookups, equal, above, below, verdict(report)]));
    if (!report.isGood && report.mismatch !== undefined) {
      print(`  first mismatch: ${JSON.stringify(report.mismatch)}`);
      print(`  again: npm run verify-trace -- --json ${file}`);
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

function verdict(report: TraceReport): string {
  const refused = Object.entries(report.refusals);
  if (refused.length > 0)
    return `WRONG: refused ${refused.map((pair) => pair.join(" ")).join(", ")}`;
  if (report.unsupported !== undefined) return `not judged: ${report.unsupported}`;
  if (!report.isGood) return "WRONG";
  return report.isUpperBoundOnly
    ? `ok (upper bound only; ${report.unplaced} entries without a place at the end)`
    : "ok";
}

function row(width: number, cells: readonly (string | number)[]): string {
  const [file, vllm, ...rest] = cells;
  const numbers = rest.slice(0, 4).map((cell) => String(cell).padStart(8));
  return `${String(file).padEnd(width)} ${String(vllm).padEnd(7)}${numbers.join("")}  ${rest[4]}`;
}
