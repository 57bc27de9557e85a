import { expect, test } from "vitest";
import { PrefixIndex, type RankHandle, ScoreBuffer } from "../../../src/prefix-index/dist/index.js";
import { MAX_CURSORS } from "../../../src/prefix-index/dist/score-walk.js";
import {
  full,
  keysAt,
  layoutOf,
  mamba,
  PromptReader,
  range,
  sliding,
} from "./layouts-and-prompts.ts";

const ROOMY = { maxNodes: 100_000, maxEntriesPerRank: 100_000 };

function run(
  index: PrefixIndex,
  rank: RankHandle,
  ends: readonly number[],
  { prompt = 1, group = 0, lookahead = 0, parent = 0 } = {},
): void {
  const keys = keysAt(
    prompt,
    ends.map((end) => end + lookahead),
  );
  const step = ends.length > 1 ? (ends[1] ?? 0) - (ends[0] ?? 0) : (ends[0] ?? 0) - parent;
  const parentKey = parent === 0 ? undefined : keysAt(prompt, [parent + lookahead]);
  const outcome = index.storeRun(rank, group, 0, keys, ends[0] ?? 1, step, parentKey);
  expect(outcome.stored).toBe(ends.length);
}

function scores(index: PrefixIndex, promptTokens: number, prompt = 1): number[] {
  const out = new ScoreBuffer();
  const reader = new PromptReader(prompt);
  index.score(reader, promptTokens, out);
  expect(out.visitedPositions).toBe(reader.visited.length);
  return range(0, out.count - 1, 1).map((line) => out.reusableTokensAt(line));
}

test("more chains side by side than a walk follows at a time lose nothing", () => {
  // Look-aheads 0, 1, 2 ... shift the chains against each other: all go on all the time.
  const index = new PrefixIndex(ROOMY);
  const count = MAX_CURSORS + 9;
  for (let lookahead = 0; lookahead < count; lookahead++) {
    const rank = index.addRank(layoutOf([full(32)], { lookaheadTokens: lookahead }));
    run(index, rank, range(32, 32 * (8 + lookahead), 32), { lookahead });
  }
  index.audit();
  const expected = (promptTokens: number) =>
    range(0, count - 1, 1).map((lookahead) => {
      const last = Math.min(promptTokens - 1, promptTokens - lookahead);
      return Math.min(32 * (8 + lookahead), last - (last % 32));
    });
  for (const promptTokens of [64, 300, 700, 2000]) {
    expect(scores(index, promptTokens)).toEqual(expected(promptTokens));
  }
});

test("a hole in a chain that all holders lost does not end the following of it", () => {
  const index = new PrefixIndex(ROOMY);
  const states = index.addRank(layoutOf([mamba(4)]));
  const whole = index.addRank(layoutOf([full(4)]));
  for (const rank of [states, whole]) {
    run(index, rank, range(4, 160, 4));
    index.removeKeys(rank, 0, 0, keysAt(1, [...range(20, 24, 4), ...range(64, 128, 4)]));
  }
  expect(scores(index, 161)).toEqual([160, 16]);
  expect(scores(index, 130)).toEqual([60, 16]);
  // One key of the hole comes back without its parent, in a chain of its own.
  run(index, whole, [20], { parent: 16 });
  run(index, states, [100]);
  expect(scores(index, 130)).toEqual([100, 20]);
  index.audit();
});

test("a prompt that leaves a chain in its middle is cut there for every group", () => {
  const index = new PrefixIndex(ROOMY);
  const layout = layoutOf([full(4), sliding(4, 9), mamba(16)]);
  const ranks = [index.addRank(layout), index.addRank(layout)];
  for (const [i, rank] of ranks.entries()) {
    run(index, rank, range(4, 400, 4));
    run(index, rank, range(4 + 100 * i, 400, 4), { group: 1 });
    run(index, rank, range(16, 400, 16), { group: 2 });
  }
  const own = new PromptReader(1);
  const other = new PromptReader(2);
  const fork = {
    keyLow: 0,
    keyHigh: 0,
    seek(positionTokens: number): void {
      const source = positionTokens <= 90 ? own : other;
      source.seek(positionTokens);
      fork.keyLow = source.keyLow;
      fork.keyHigh = source.keyHigh;
    },
  };
  const out = new ScoreBuffer();
  index.score(fork, 4000, out);
  expect([out.reusableTokensAt(0), out.reusableTokensAt(1)]).toEqual([80, 0]);
  // 22 blocks that are shared, and what a lookup may read beyond: a block and the widest block.
  expect(out.visitedPositions).toBe(27);
});
