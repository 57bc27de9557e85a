import { expect, test } from "vitest";
import { GroupEnds } from "../../../src/prefix-index/dist/end-list.js";

function held(list: GroupEnds): number[] {
  return [...list.tokens.subarray(0, list.count)];
}

test("a full group's list ends with the block after its unbroken chain", () => {
  const list = new GroupEnds(8);
  list.recordRun(2, 12, 2);
  list.recordRun(14, 400, 1);
  expect([list.chainEndTokens, list.isInReach(408), list.isInReach(409)]).toEqual([
    400,
    true,
    false,
  ]);
  const broken = new GroupEnds(8);
  broken.recordRun(8, 8, 2);
  broken.recordRun(12, 14, 2);
  broken.recordRun(18, 400, 2);
  expect([held(broken), broken.chainEndTokens]).toEqual([[8, 12, 14], 8]);
});

test("other groups keep every end, and a restart keeps the buffer", () => {
  const list = new GroupEnds(0);
  list.recordRun(40, 48, 4);
  list.recordRun(100, 100, 4);
  expect(held(list)).toEqual([40, 44, 48, 100]);
  const { tokens } = list;
  list.restart();
  list.recordRun(4, 4, 4);
  expect([held(list), list.tokens === tokens]).toEqual([[4], true]);
});
