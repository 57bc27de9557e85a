import { describe, expect, test } from "vitest";
import {
  ALL,
  GroupPositions,
  PrefixIndex,
  type RankHandle,
  ScoreBuffer,
} from "../../../src/prefix-index/dist/index.js";
import {
  full,
  keysAt,
  layoutOf,
  mamba,
  PromptReader,
  range,
  store,
} from "./layouts-and-prompts.ts";

const GPU = 0;
const ROOMY = { maxNodes: 100_000, maxEntriesPerRank: 100_000 };

function scores(index: PrefixIndex, promptTokens: number, prompt = 1) {
  const reader = new PromptReader(prompt);
  const out = new ScoreBuffer();
  index.score(reader, promptTokens, out);
  const tokens = new Map<RankHandle, number>();
  for (let line = 0; line < out.count; line++) {
    tokens.set(out.rankAt(line), out.reusableTokensAt(line));
  }
  expect(out.visitedPositions).toBe(reader.visited.length);
  return { tokens, visited: reader.visited, out };
}

describe("one walk for all ranks", () => {
  test("every live rank has a line; a retired one has none", () => {
    const index = new PrefixIndex(ROOMY);
    const ranks = [0, 1, 2].map(() => index.addRank(layoutOf([full(4)])));
    store(index, ranks[0] as RankHandle, range(4, 40, 4));
    store(index, ranks[2] as RankHandle, range(4, 12, 4));
    expect([...scores(index, 30).tokens.values()]).toEqual([28, 0, 12]);
    index.retireRank(ranks[0] as RankHandle);
    const { tokens } = scores(index, 30);
    expect([tokens.size, tokens.get(ranks[2] as RankHandle)]).toEqual([2, 12]);
  });

  test("ranks of different hash units and look-aheads share one ascending walk", () => {
    const index = new PrefixIndex(ROOMY);
    const fine = index.addRank(layoutOf([full(4)]));
    const coarse = index.addRank(layoutOf([full(6)]));
    const ahead = index.addRank(layoutOf([full(4)], { lookaheadTokens: 1 }));
    store(index, fine, range(4, 24, 4));
    store(index, coarse, range(6, 24, 6));
    store(index, ahead, range(4, 20, 4), { lookahead: 1 });
    const { tokens, visited } = scores(index, 24);
    expect(visited).toEqual([4, 5, 6, 8, 9, 12, 13, 16, 17, 18, 20, 21, 24]);
    expect([tokens.get(fine), tokens.get(coarse), tokens.get(ahead)]).toEqual([20, 18, 20]);
    // One token more is one position more for the ranks without look-ahead only.
    const more = scores(index, 25).tokens;
    expect([more.get(fine), more.get(coarse), more.get(ahead)]).toEqual([24, 24, 20]);
  });

  test("with look-ahead, prompts that differ right after a block do not share it", () => {
    const index = new PrefixIndex(ROOMY);
    const ahead = index.addRank(layoutOf([full(4)], { lookaheadTokens: 1 }));
    store(index, ahead, [4, 8], { lookahead: 1 });
    expect(scores(index, 9).tokens.get(ahead)).toBe(8);
    // The other prompt agrees up to 8 tokens: its keys at 5 are equal, at 9 they are not.
    const reader = new PromptReader(1);
    const split = new PromptReader(2);
    const out = new ScoreBuffer();
    const fork = {
      keyLow: 0,
      keyHigh: 0,
      seek(positionTokens: number): void {
        const source = positionTokens <= 8 ? reader : split;
        source.seek(positionTokens);
        fork.keyLow = source.keyLow;
        fork.keyHigh = source.keyHigh;
      },
    };
    index.score(fork, 9, out);
    expect(out.reusableTokensAt(0)).toBe(4);
  });

  test("an entry off its rank's own hash grid is not credited by another rank's visit", () => {
    const index = new PrefixIndex(ROOMY);
    const grid = { coordinator: "hybrid" as const };
    const coarse = index.addRank(layoutOf([mamba(8)], grid));
    index.addRank(layoutOf([mamba(4)], grid));
    store(index, coarse, [4, 8, 12]);
    expect(scores(index, 16).tokens.get(coarse)).toBe(8);
  });

  test("a rank without a layout is unknown, and is scored once it has one", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(undefined);
    store(index, rank, range(4, 16, 4));
    const { out } = scores(index, 20);
    expect([out.hasLayoutAt(0), out.reusableTokensAt(0)]).toEqual([false, 0]);
    index.setLayout(rank, layoutOf([full(4)]));
    const after = scores(index, 20).out;
    expect([after.hasLayoutAt(0), after.reusableTokensAt(0)]).toEqual([true, 16]);
  });

  test("only the GPU counts; other media are kept apart", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([full(4)]));
    store(index, rank, range(4, 16, 4), { medium: 1 });
    store(index, rank, [4]);
    expect(scores(index, 20).tokens.get(rank)).toBe(4);
    index.clear(rank, ALL, 1);
    expect(scores(index, 20).tokens.get(rank)).toBe(4);
  });

  test("a key met at another position than it was stored at is not credited", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([full(4)]));
    index.storeRun(rank, 0, GPU, keysAt(1, [4]), 8, 4);
    const { tokens, out } = scores(index, 20);
    expect([tokens.get(rank), out.clashes]).toEqual([0, 1]);
  });

  test("a group that never stored anything limits the answer to 0 and is named", () => {
    const index = new PrefixIndex(ROOMY);
    const layout = layoutOf([full(4), mamba(4, { groupId: 7 })]);
    const rank = index.addRank(layout);
    store(index, rank, range(4, 16, 4));
    const { out } = scores(index, 20);
    expect([out.reusableTokensAt(0), out.limitingGroupIdAt(0)]).toEqual([0, 7]);
    expect(index.hasEverStored(rank, 7)).toBe(false);
  });

  test("groups keep their answers when a layout lists them in another order", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([full(4), mamba(4)]));
    store(index, rank, range(4, 16, 4));
    store(index, rank, [8], { group: 1 });
    const turned = layoutOf([mamba(4, { groupId: 1 }), full(4, { groupId: 0 })]);
    expect(index.setLayout(rank, turned)).toBe(true);
    expect(scores(index, 20).tokens.get(rank)).toBe(8);
  });
});

describe("the walk stops early", () => {
  test("when every chain of full blocks is broken, two blocks further on", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([full(4)]));
    index.addRank(layoutOf([full(4)]));
    store(index, rank, [4, 8, 12, 100]);
    expect(scores(index, 1000).visited).toEqual([4, 8, 12, 16, 20]);
    expect(scores(index, 1000, 2).visited).toEqual([4, 8]);
  });

  test("not while a rank has no full group, for it may gain anywhere", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([mamba(4)]));
    expect(scores(index, 100).visited).toEqual([]);
    store(index, rank, [96]);
    const { tokens, visited } = scores(index, 100);
    expect([tokens.get(rank), visited.length]).toEqual([96, 25]);
  });

  test("an explanation walks on: each group's own position is whole", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf([full(4), mamba(4, { groupId: 5 })]));
    store(index, rank, [4, 8]);
    store(index, rank, [4, 96], { group: 5 });
    const out = new GroupPositions();
    expect(index.explain(rank, new PromptReader(1), 100, out)).toBe(true);
    expect([out.reusableTokens, out.limitingGroupId, out.count]).toEqual([4, 5, 2]);
    expect([...out.groupIds.subarray(0, 2)]).toEqual([0, 5]);
    expect([...out.ownTokens.subarray(0, 2)]).toEqual([8, 96]);
    expect(index.explain(index.addRank(undefined), new PromptReader(1), 100, out)).toBe(false);
  });
});
