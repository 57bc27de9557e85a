// What it is: rows of benches as text.
// Owns: how numbers are rounded for people.
// Refuses: nothing.
// Does not do: compute.

/** Three digits that count. */
export function digits(value) {
  if (value === undefined || value === null) return "";
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return size === 0 ? "0" : value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** Lines with cells of equal width; the first two columns begin at the left. */
export function aligned(lines, leftColumns = 2) {
  const widths = [];
  for (const line of lines) {
    for (const [i, cell] of line.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return lines
    .map((line) =>
      line
        .map((cell, i) => (i < leftColumns ? cell.padEnd(widths[i]) : cell.padStart(widths[i])))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Rows of one bench. */
export function table(rows) {
  const head = ["case", "row", "unit", "best", "median", "tail", "cpu", "samples", "spread"];
  return aligned([
    head,
    ...rows.map((row) => [
      row.case,
      row.row,
      row.unit,
      digits(row.best),
      digits(row.median),
      digits(row.tail),
      digits(row.cpu),
      String(row.samples),
      row.spread === undefined ? "" : `${(row.spread * 100).toFixed(0)} %`,
    ]),
  ]);
}
