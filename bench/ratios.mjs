// What it is: two runs of the same benches set side by side, as ratios.
// Owns: which rows belong together: bench, size, case and name.
// Refuses: nothing; rows that only one side has are left out and counted.
// Does not do: judge.
import { aligned, digits } from "./table.mjs";

const keyOf = (bench, size, row) => JSON.stringify([bench, size, row.case, row.row]);

/** Rows by key, of a list of bench results. */
function rowsOf(benches) {
  const rows = new Map();
  for (const { bench, size, rows: list } of benches) {
    for (const row of list)
      if (row.samples > 0) rows.set(keyOf(bench, size, row), { bench, ...row });
  }
  return rows;
}

/** After ÷ before for times and sizes, before ÷ after for rates: below 1 is better everywhere. */
export function costRatio(before, after, better) {
  return better === "less" ? after / before : before / after;
}

/** Lines of a table, or undefined when no row is on both sides. */
export function ratioTable(before, after) {
  const [old, now] = [rowsOf(before), rowsOf(after)];
  const lines = [];
  for (const [key, row] of now) {
    const other = old.get(key);
    if (other === undefined) continue;
    const ratio = (field) => digits(costRatio(other[field], row[field], row.better));
    const spread = Math.max(row.spread ?? 0, other.spread ?? 0);
    lines.push([
      row.bench,
      `${row.case}: ${row.row}`,
      row.unit,
      digits(other.median),
      digits(row.median),
      ratio("median"),
      ratio("best"),
      spread === 0 ? "" : `${(spread * 100).toFixed(0)} %`,
    ]);
  }
  if (lines.length === 0) return undefined;
  const head = ["bench", "row", "unit", "before", "after", "cost ratio", "of the best", "spread"];
  const alone = now.size + old.size - 2 * lines.length;
  const note = alone === 0 ? "" : `\n${alone} rows are on one side only`;
  return `${aligned([head, ...lines], 3)}\ncost ratio: below 1 is better, for rates too${note}`;
}
