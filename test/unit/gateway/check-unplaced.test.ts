import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { start, store, tokensTo } from "./messages.ts";
import {
  batchWith,
  chunkWith,
  type UnplacedInit,
  unplaced,
  withScheme,
} from "./unplaced-messages.ts";
import { Bench, live } from "./view-bench.ts";

const PROMPT = { tokens: tokensTo(40) };
const LONG = "x".repeat(LIMITS.textBytes.value + 1);
const MANY = new Uint8Array((LIMITS.hashesPerEvent.value + 1) * 8);

const told = unplaced(PROMPT, [8]);

for (const [name, more, refusal] of [
  ["hash keys of 7 bytes", { hashKeys: new Uint8Array(7) }, "keys_invalid"],
  ["fewer tail keys than hash keys", { tailKeys: new Uint8Array(0) }, "keys_invalid"],
  ["more tail keys than hash keys", { tailKeys: new Uint8Array(16) }, "keys_invalid"],
  ["too many keys", { hashKeys: MANY, tailKeys: MANY }, "too_many_keys"],
  ["no block size", { blockSize: 0 }, "block_size_invalid"],
  ["a block larger than any prompt", { blockSize: 2 ** 30 }, "block_size_invalid"],
  ["a long medium", { medium: LONG }, "medium_invalid"],
  ["a long locality", { locality: LONG }, "medium_invalid"],
] satisfies readonly (readonly [string, UnplacedInit, string])[]) {
  test(`a message with ${name} is refused whole`, () => {
    const bench = live([], withScheme());
    const broken = { ...told, ...more };
    const events = [store(0, [4, 4, 4])];
    expect(bench.take(batchWith(0, { events, stored: [told, broken] }))).toEqual([refusal]);
    expect([bench.entries(), bench.view.unplaced.toldBlocks]).toEqual([0, 0]);
    expect(bench.view.sequenceNumber).toBeUndefined();
  });
}

test("a removal has hash keys alone, and these are judged", () => {
  const bench = live([], withScheme());
  const { hashKeys } = told;
  bench.take(batchWith(0, { stored: [told] }));
  for (const [removed, refusal] of [
    [{ hashKeys: new Uint8Array(9) }, "keys_invalid"],
    [{ hashKeys: MANY }, "too_many_keys"],
    [{ hashKeys, medium: LONG }, "medium_invalid"],
    [{ hashKeys }, ""],
  ] satisfies readonly (readonly [UnplacedInit, string])[]) {
    expect(bench.take(batchWith(1, { removed: [removed] }))).toEqual([refusal]);
  }
  expect(bench.view.unplaced.toldBlocks).toBe(0);
});

test("a broken list beside an unknown operation is a broken message", () => {
  const bench = live([store(0, [4, 4, 4])], withScheme());
  const odd = { ...told, blockSize: 0 };
  const batch = batchWith(0, { events: [{ operation: Operation.UNSPECIFIED }], stored: [odd] });
  expect(bench.take(batch)).toEqual(["block_size_invalid"]);
  expect(bench.entries()).toBe(1);
});

test("an unknown operation forgets unplaced blocks too, those of its own message included", () => {
  const bench = live([], withScheme());
  bench.take(batchWith(0, { stored: [told] }));
  const again = unplaced(PROMPT, [12]);
  expect(
    bench.take(batchWith(1, { events: [{ operation: Operation.UNSPECIFIED }], stored: [again] })),
  ).toEqual([""]);
  expect(bench.view.unplaced.toldBlocks).toBe(0);
  expect(bench.view.isWithdrawn).toBe(true);
});

test("pieces of a snapshot are judged alike, and tell blocks", () => {
  const bench = new Bench();
  const broken = { ...told, tailKeys: new Uint8Array(0) };
  bench.take(start({ engine: withScheme() }));
  expect(bench.take(chunkWith(0, false, [], [told, broken]))).toEqual(["keys_invalid"]);
  expect(bench.take(chunkWith(0, false, [], [told]))).toEqual([""]);
  expect(bench.take(chunkWith(1, true, [store(0, [4, 4, 4])], []))).toEqual([""]);
  expect(bench.score(9)).toBe(8);
});
