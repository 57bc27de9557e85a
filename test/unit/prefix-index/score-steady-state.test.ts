import { describe, expect, test } from "vitest";
import { PrefixIndex, type RankLayout, ScoreBuffer } from "../../../src/prefix-index/dist/index.js";
import {
  full,
  layoutOf,
  mamba,
  PromptReader,
  range,
  sliding,
  store,
} from "./layouts-and-prompts.ts";

const ROOMY = { maxNodes: 100_000, maxEntriesPerRank: 100_000 };

describe("a query in steady state", () => {
  function busyIndex() {
    const index = new PrefixIndex(ROOMY);
    const layouts = [
      layoutOf([full(4), sliding(4, 9), mamba(4)]),
      layoutOf([full(8)]),
      layoutOf([full(4, { specClass: 0 }), full(4, { specClass: 0 })]),
    ];
    for (let i = 0; i < 30; i++) {
      const layout = layouts[i % 3] as RankLayout;
      const rank = index.addRank(layout);
      for (const group of layout.groups) {
        store(index, rank, range(group.blockSizeTokens, 8 * i, group.blockSizeTokens), {
          group: group.groupId,
        });
      }
    }
    return index;
  }

  /** A reader that allocates nothing. */
  class LeanReader {
    private readonly lows = new Uint32Array(401);
    private readonly highs = new Uint32Array(401);
    keyLow = 0;
    keyHigh = 0;
    constructor() {
      const source = new PromptReader(1);
      for (let position = 1; position <= 400; position++) {
        source.seek(position);
        this.lows[position] = source.keyLow;
        this.highs[position] = source.keyHigh;
      }
    }
    seek(positionTokens: number): void {
      this.keyLow = this.lows[positionTokens] as number;
      this.keyHigh = this.highs[positionTokens] as number;
    }
  }

  test("keeps the caller's buffer and the index's size", () => {
    const index = busyIndex();
    const out = new ScoreBuffer();
    const reader = new LeanReader();
    index.score(reader, 400, out);
    const arrays = out.arrays;
    const { bytes } = index.gauges();
    for (let n = 0; n <= 400; n++) index.score(reader, n, out);
    for (const [i, array] of out.arrays.entries()) expect(array).toBe(arrays[i]);
    expect(index.gauges().bytes).toBe(bytes);
    index.addRank(undefined);
    index.score(reader, 400, out);
    expect([out.count, out.arrays[0] === arrays[0]]).toEqual([31, false]);
  });

  test("allocates nothing", () => {
    // Method: heap growth over many queries once compiled; one small object a query would be 320
    // kB. Code that is not compiled yet allocates numbers, and on a busy machine the compiler takes
    // its time: the bound must be met in one of many rounds.
    const index = busyIndex();
    const out = new ScoreBuffer();
    const reader = new LeanReader();
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 4000; i++) index.score(reader, 300 + (i % 100), out);
    for (let round = 0; round < 60 && least >= 64_000; round++) {
      const before = process.memoryUsage().heapUsed;
      for (let i = 0; i < 20_000; i++) index.score(reader, 20 + (i % 10), out);
      least = Math.min(least, Math.abs(process.memoryUsage().heapUsed - before));
    }
    expect(least).toBeLessThan(64_000);
  });
});
