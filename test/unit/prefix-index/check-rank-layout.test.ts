import { describe, expect, test } from "vitest";
import { checkRankLayout, type RankLayout } from "../../../src/prefix-index/dist/index.js";
import { chunked, full, layoutOf, mamba, sliding } from "./layouts-and-prompts.ts";

describe("a layout is refused by the first rule it breaks", () => {
  const hybrid = layoutOf([full(4), sliding(8, 9), mamba(8)]);
  const refusals: readonly [string, RankLayout, RegExp][] = [
    ["no groups", { ...hybrid, groups: [] }, /1 to 32 groups/],
    ["33 groups", layoutOf(Array.from({ length: 33 }, () => full(4))), /1 to 32 groups/],
    ["a block off the hash grid", { ...hybrid, hashBlockSizeTokens: 8 }, /multiple of H/],
    [
      "S that is no common multiple",
      { ...hybrid, schedulerBlockSizeTokens: 12 },
      /multiple of a b/,
    ],
    ["a window of 0", layoutOf([sliding(4, 0)]), /window/],
    ["a window of a full group", layoutOf([full(4, { windowTokens: 4 })]), /window/],
    ["a chunk size of 0", layoutOf([chunked(4, 0)]), /chunk size/],
    ["a chunk that drops", layoutOf([{ ...chunked(4, 8), dropsBlock: true }]), /EAGLE/],
    ["a chunk with look-ahead", layoutOf([chunked(4, 8)], { lookaheadTokens: 1 }), /EAGLE/],
    ["a chunk finer than S", layoutOf([full(8), chunked(4, 8)]), /as alignment/],
    ["a coarse window in fine mode", { ...hybrid, isFine: true }, /fine mode needs/],
    ["one id twice", layoutOf([full(4), mamba(4, { groupId: 0 })]), /one id/],
    ["one class, two specs", layoutOf([full(4), mamba(4, { specClass: 0 })]), /differ/],
    ["two unitary groups", { ...hybrid, coordinator: "unitary" }, /exactly one group/],
    ["a negative look-ahead", { ...hybrid, lookaheadTokens: -1 }, /look-ahead/],
    ["a broken replay window", { ...hybrid, replayTokens: 0.5 }, /replay/],
    ["an id that is no uint32", layoutOf([full(4, { groupId: -1 })]), /uint32/],
  ];
  test.each(refusals)("%s", (_name, layout, reason) => {
    expect(checkRankLayout(layout)).toMatch(reason);
  });
});

test("sound layouts are not refused", () => {
  const sound = [
    layoutOf([full(16)]),
    layoutOf([full(16)], { hashBlockSizeTokens: 4 }),
    layoutOf([full(8), mamba(8)], { isFine: true, hashBlockSizeTokens: 2 }),
    layoutOf([full(8), sliding(2, 5), mamba(8)], { isFine: true }),
    layoutOf([full(4), chunked(4, 8)]),
    layoutOf([full(4)], { coordinator: "hybrid", schedulerBlockSizeTokens: 12 }),
    layoutOf([full(4), mamba(4, { dropsBlock: true })]),
  ];
  for (const layout of sound) expect(checkRankLayout(layout)).toBeUndefined();
});
