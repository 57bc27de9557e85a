// Goal: what operators reported about growth without bound (field case K1) must not happen here.
// Method: one long-lived prefix, many short-lived branches, then the smallest blocks, then a
// clear; the heap is measured after forced collections, at a bound of the history that the test
// can reach.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { CLEAR, FieldRank, gatewayOf, rm, st, tokenList } from "../support/field-notation.ts";
import { SeededRandomness } from "../support/seeded-randomness.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const MEBIBYTE = 2 ** 20;

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

function heapMebibytes(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed / MEBIBYTE + process.memoryUsage().arrayBuffers / MEBIBYTE;
}

test("K1: branches that come and go leave nothing; the live blocks stay right", () => {
  // A ring of this size is full before the first measurement.
  const bounds = { maxHistory: 10_000, resumeRingBytes: MEBIBYTE };
  const rank = new FieldRank("a", 0, undefined, bounds);
  const gateway = gatewayOf([rank]);
  const trunk = Array.from({ length: 1024 }, (_, index) => index + 1);
  rank.send(st({ ...FULL, h: trunk, t: "1..4096" }));
  const random = new SeededRandomness(1);
  const rounds = (count: number, from: number): void => {
    for (let round = from; round < from + count; round++) {
      const parent = 1 + (random.uint32() % 1024);
      const h = Array.from({ length: 16 }, (_, index) => 10_000 + round * 16 + index);
      const t = Array.from({ length: 64 }, () => random.uint32());
      rank.send(st({ ...FULL, p: parent, h, t }));
      rank.send(rm({ g: 0, h }));
      rank.sent.length = 0;
    }
  };
  rounds(2000, 0);
  const early = heapMebibytes();
  rounds(4000, 2000);
  const late = heapMebibytes();
  expect(late - early).toBeLessThan(8);
  expect(rank.pipeline.describe(0)).toMatchObject({ placedBlocks: 1024n, unplacedBlocks: 0n });
  expect(gateway.workers()[0]?.entries).toBe(1024);
  expect(gateway.score({ tokens: tokenList("1..4097") })[0]?.reusableTokens).toBe(4096);
  rank.pipeline.audit();
  gateway.audit();
});

test("K1: 100 000 blocks of one token work, and a clear gives the memory back", () => {
  const rank = new FieldRank("a", 0, undefined, { maxHistory: 25_000 });
  const gateway = gatewayOf([rank]);
  const before = heapMebibytes();
  for (let from = 1; from < 100_000; from += 20_000) {
    const h = tokenList(`${from}..${from + 19_999}`);
    rank.send(st({ ...FULL, bs: 1, ...(from > 1 ? { p: from - 1 } : {}), h, t: h }));
  }
  rank.sent.length = 0;
  expect(gateway.score({ tokens: tokenList("1..100001") })[0]?.reusableTokens).toBe(100_000);
  expect(gateway.workers()[0]?.entries).toBe(100_000);
  const full = heapMebibytes();
  rank.send(CLEAR);
  rank.sent.length = 0;
  const after = heapMebibytes();
  expect(rank.pipeline.describe(0).placedBlocks).toBe(0n);
  expect(gateway.workers()[0]?.entries).toBe(0);
  expect(after - before).toBeLessThan((full - before) / 2);
  expect(gateway.score({ tokens: tokenList("1..100001") })[0]?.reusableTokens).toBe(0);
  gateway.audit();
});

test("K1: 40 000 blocks through a full history leave it full, and nothing else", () => {
  const rank = new FieldRank("a", 0, undefined, { maxHistory: 20_000 });
  for (let next = 0; next < 60_000; next += 1000) {
    const h = tokenList(`${next}..${next + 999}`);
    rank.send(st({ ...FULL, h, t: [] }), rm({ g: 0, h }));
    if (next % 10_000 === 0) rank.pipeline.audit();
  }
  rank.pipeline.audit();
  const state = rank.pipeline.describe(0);
  expect([state.placedBlocks, state.unplacedBlocks]).toEqual([0n, 0n]);
});
