// Goal: a neighbour's wire replay and the lifecycle of a block, held to vLLM's own answer.
// Method: each row is one engine batch under the engine's own number, sent twice with the same
// bytes; the question is tokens 1 … 41 in blocks of 8, keys are SHA-256. Rows where the neighbour
// withdraws a whole worker, or credits what is not joint, are marked with its number.
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { UNSTATED_ENGINE } from "../../src/bridge/dist/index.js";
import {
  batchOf,
  C,
  CLEAR,
  every,
  framesOf,
  INVALID,
  q,
  R,
  rem,
  SmgWorker,
  type WireHash,
} from "../support/smg-notation.ts";

const sha = (end: number): Uint8Array => createHash("sha256").update(`${end}`).digest();
const hashes = (ends: readonly number[]): { readonly block_hashes: readonly WireHash[] } => ({
  block_hashes: ends.map(sha),
});

const store = (group: number, kind: string, ends: readonly number[], through: number) =>
  R(group, kind, 0, 8, ends, through, hashes(ends));
const remove = (group: number, ends: readonly number[]) => rem(group, [], hashes(ends));

/** A batch twice, as a duplicate; the answer must not move. */
function twice(worker: SmgWorker, sequence: number, ...events: readonly unknown[]): number {
  const frames = framesOf(sequence, batchOf(events));
  worker.frames(frames);
  const first = worker.q(41);
  worker.frames(frames);
  expect(worker.q(41)).toBe(first);
  return first;
}

test("worker a and b: every row of the replay, sent twice, has vLLM's answer", () => {
  const a = new SmgWorker();
  const b = new SmgWorker();
  const attention = store(0, "full", every(8, 40), 40);
  const states = store(7, "mamba", [24, 40], 40);
  const initial = [attention, remove(0, [40]), states];
  expect(twice(a, 10, ...initial)).toBe(24);
  const other = [store(2, "full", every(8, 32), 32), store(17, "mamba", [16], 16)];
  expect(twice(b, 0, ...other)).toBe(16);
  expect(twice(a, 11, remove(7, [24]))).toBe(0);
  expect(b.q(41)).toBe(16);
  expect(twice(a, 12, CLEAR)).toBe(0);
  expect(twice(a, 13, ...initial)).toBe(24);
  expect(twice(a, 14, { ...remove(0, [8]), medium: "CPU" })).toBe(24);
  // The neighbour: unavailable. One unreadable store takes nothing away.
  expect(twice(a, 15, INVALID)).toBe(24);
  expect(twice(a, 16, ...initial)).toBe(24);
  expect(twice(a, 18)).toBe(0);
  expect(a.answer(q(41)).reasons).toContain("incomplete");
  // The neighbour: 32, for it forgot that there is a second group.
  expect(twice(a, 19, store(0, "full", every(8, 32), 32))).toBe(0);
  expect(twice(a, 20, states)).toBe(24);
  expect(twice(a, 21, CLEAR)).toBe(0);
  expect(twice(a, 22, store(0, "full", [8, 16], 16))).toBe(0);
});

test("integer keys beyond the signed maximum and keys of 32 bytes work alike", () => {
  const int64 = new SmgWorker();
  const large = (end: number): bigint => 2n ** 63n + BigInt(end) * 2n ** 57n;
  const store5 = R(5, "full", 0, 8, [], 32, { block_hashes: every(8, 32).map(large) });
  expect(twice(int64, 41, store5)).toBe(32);
  const store99 = R(99, "full", 0, 8, [], 8, { block_hashes: [large(8)] });
  expect(twice(int64, 42, store99)).toBe(8);
  expect(twice(int64, 43, rem(99, [], { block_hashes: [large(8)] }))).toBe(0);
  const bytes = new SmgWorker();
  expect(twice(bytes, 0, store(9, "full", [8, 16], 16))).toBe(16);
});

describe("what the neighbour calls an invalid group wire costs itself only", () => {
  const good = store(3, "full", every(8, 16), 16);
  const { group_idx: _group, ...ungrouped } = store(3, "full", [24], 24);
  const broken: readonly (readonly [string, unknown])[] = [
    ["an event without a group among grouped ones", ungrouped],
    ["an empty hash", R(3, "full", 0, 8, [], 8, { block_hashes: [new Uint8Array()] })],
    ["an unknown event", { type: "BlockPinned", block_hashes: [sha(8)] }],
    ["an event without attributes", { type: "BlockStored" }],
  ];
  for (const [name, event] of broken) {
    test(`${name}: the view stays`, () => {
      const worker = new SmgWorker();
      expect(twice(worker, 0, good)).toBe(16);
      expect(twice(worker, 1, event)).toBe(16);
    });
  }

  test("a batch of another data-parallel rank is credited to nobody, and the view is withdrawn", () => {
    const worker = new SmgWorker();
    expect(twice(worker, 0, good)).toBe(16);
    worker.frames(framesOf(1, batchOf([store(3, "full", [8, 16, 24], 24)], 1)));
    expect(worker.q(41)).toBe(0);
    expect(worker.counter("refused.rank_mismatch")).toBe(1);
    worker.batch(2, good);
    expect(worker.q(41)).toBe(16);
  });
});

test("eleven steps of one block pool: native answers where copies tell, lower bounds elsewhere", () => {
  const worker = new SmgWorker();
  let next = 0;
  const step = (...events: readonly unknown[]): readonly [number, number] => {
    if (events.length > 0) worker.batch(next++, ...events);
    return [worker.q(9), worker.unplaced];
  };
  const h2 = C(0, "mamba", 0, 0, 2);
  expect(step(h2), "partial_create").toEqual([2, 0]);
  expect(step(), "repeat_same_alias_no_store").toEqual([2, 0]);
  expect(step(h2), "second_physical_copy").toEqual([2, 0]);
  // The neighbour: 0. The engine still has a copy.
  expect(step(rem(0, [2])), "one_remove_preserves_copy").toEqual([2, 0]);
  // vLLM may say 6: key 4 was never announced, so key 6 has no place.
  const longer = step(rem(0, [2]), C(0, "mamba", 0, 4, 6));
  expect(longer, "longer_partial_replaces_old").toEqual([0, 1]);
  expect(step(), "cow_moves_without_events").toEqual([0, 1]);
  expect(step(h2), "shorter_alias_on_longer_block").toEqual([2, 1]);
  const promoted = step(rem(0, [6, 2]), C(0, "mamba", 0, 0, 8));
  expect(promoted, "promote_removes_all_aliases").toEqual([8, 0]);
  expect(step(rem(0, [8])), "final_remove").toEqual([0, 0]);
});

test("sparse holes invent nothing; a full report is refused by name where it is configured", () => {
  const sparse = new SmgWorker();
  const holes = R(0, "full", 0, 2, [2, 4, 8, 12], 12);
  sparse.batch(0, holes);
  expect([sparse.q(13), sparse.unplaced]).toEqual([0, 4]);
  const reporting = new SmgWorker({
    ...UNSTATED_ENGINE,
    unsupportedReason: "kv_cache_report_mode: full",
  });
  reporting.batch(0, R(0, "full", 0, 2, every(2, 12), 12));
  const answer = reporting.answer(q(13));
  expect(answer).toMatchObject({ state: "unknown", reusableTokens: 0 });
  expect(answer.reasons).toContain("unsupported_report_mode");
});

test("a clear keeps places: what is announced sparsely afterwards is placed at once", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "full", 0, 8, every(8, 40), 40));
  worker.batch(1, CLEAR, R(1, "mamba", 0, 8, [24], 40), C(0, "full", 0, 0, 8));
  expect(worker.unplaced).toBe(0);
  worker.batch(2, R(0, "full", 0, 8, every(8, 24), 24));
  expect(worker.q(41)).toBe(24);
  expect(worker.score(q(41).slice(0, 24))).toBe(0);
});
