import { describe, expect, test } from "vitest";
import { EndRuns } from "../../../src/prefix-index/dist/index.js";

type Run = readonly [first: number, last: number, step: number];

/** Closes a group of runs by blocks of 4; [first, last] of each run, and the largest inside end. */
function byBlocks(...given: readonly Run[]) {
  const runs = new EndRuns();
  runs.open(0);
  for (const [first, last, step] of given) runs.add(first, last, step);
  runs.closeByBlocks(0, 4);
  const list = Array.from({ length: runs.counts[0] ?? 0 }, (_, i) => [
    runs.words[i * 3],
    runs.words[i * 3 + 1],
  ]);
  return { list, inside: runs.largestInside(0, 1, 1000) };
}

describe("runs by blocks", () => {
  test("runs that go on are one, as they come from chain to chain", () => {
    expect(byBlocks([4, 16, 4], [20, 40, 4], [48, 48, 1]).list).toEqual([
      [4, 40],
      [48, 48],
    ]);
  });

  test("ends inside blocks stand apart, and a run is joined around them", () => {
    const { list, inside } = byBlocks([4, 8, 4], [10, 10, 1], [12, 16, 4], [18, 18, 1]);
    expect([list, inside]).toEqual([[[4, 16]], 18]);
  });

  test("runs out of order, of coarser steps or interleaved come out in order", () => {
    expect(byBlocks([24, 32, 4], [4, 16, 4]).list).toEqual([
      [4, 16],
      [24, 32],
    ]);
    expect(byBlocks([4, 28, 8], [8, 32, 8]).list).toEqual([[4, 32]]);
    expect(byBlocks([4, 20, 8], [8, 8, 1]).list).toEqual([
      [4, 12],
      [20, 20],
    ]);
  });

  test("a run joined before the first odd one is not read twice", () => {
    expect(byBlocks([4, 4, 1], [8, 8, 1], [12, 12, 1], [28, 28, 1], [20, 24, 4]).list).toEqual([
      [4, 12],
      [20, 28],
    ]);
  });
});

test("the largest aligned end under a bound, whatever the order of the runs", () => {
  const runs = new EndRuns();
  runs.open(3);
  for (const [first, last, step] of [
    [100, 100, 1],
    [8, 72, 8],
    [6, 90, 12],
  ] as const) {
    runs.add(first, last, step);
  }
  runs.close(3);
  expect(runs.largest(3, 1, 99)).toBe(90);
  expect(runs.largest(3, 16, 99)).toBe(64);
  expect(runs.largest(3, 16, 63)).toBe(48);
  expect(runs.largest(3, 64, 63)).toBe(0);
  expect(runs.largest(3, 4, 1000)).toBe(100);
});
