// Goal: rounds and revisions are put together as docs/performance.md says.
import { describe, expect, test } from "vitest";
import { BENCHES, chosenBenches } from "../../../bench/benches.mjs";
import { joinRounds, middle } from "../../../bench/harness.mjs";
import { type BenchRow, costRatio, ratioTable } from "../../../bench/ratios.mjs";

function row(median: number, more: Partial<BenchRow> = {}): BenchRow {
  const numbers = { best: median / 2, median, tail: median * 2 };
  return { case: "c", row: "r", unit: "us", better: "less", samples: 3, ...numbers, ...more };
}

describe("rounds", () => {
  test("become the best, the median of medians, and their distance", () => {
    const [joined] = joinRounds([[row(4)], [row(8)], [row(6)]]);
    expect(joined).toMatchObject({ best: 2, median: 6, tail: 12, samples: 9 });
    expect(joined?.spread).toBeCloseTo(4 / 6);
  });

  test("of a rate have the highest as the best", () => {
    const [joined] = joinRounds([[row(4, { better: "more" })], [row(8, { better: "more" })]]);
    expect(joined).toMatchObject({ best: 4, median: 6 });
  });

  test("with other rows do not belong together", () => {
    expect(() => joinRounds([[row(1)], [row(1, { row: "other" })]])).toThrow("rounds differ");
    expect(() => joinRounds([[row(1)], []])).toThrow("rounds differ");
  });

  test("have a middle, of an even number too", () => {
    expect([middle([1, 2, 9]), middle([1, 2, 4, 9])]).toEqual([2, 3]);
  });
});

describe("ratios", () => {
  test("are below 1 where it became better, for times and for rates", () => {
    expect(costRatio(10, 5, "less")).toBe(0.5);
    expect(costRatio(10, 20, "more")).toBe(0.5);
  });

  test("compare what both sides have, and say how much only one has", () => {
    const result = (...rows: BenchRow[]) => [{ bench: "b", size: "quick", rows }];
    const text = ratioTable(
      result(row(8), row(1, { row: "old" })),
      result(row(4), row(1, { row: "skipped", samples: 0 })),
    );
    expect(text).toMatch(/^b +c: r +us +8\.00 +4\.00 +0\.500 +0\.500/m);
    expect(text).toContain("1 rows are on one side only");
    expect(ratioTable(result(row(8)), [])).toBeUndefined();
  });
});

test("a bench is chosen by its name and nothing else", () => {
  expect(chosenBenches([])).toEqual(BENCHES);
  expect(chosenBenches(["snapshot", "gateway-query"])).toEqual(["gateway-query", "snapshot"]);
  expect(() => chosenBenches(["gateway"])).toThrow("no bench gateway");
});
