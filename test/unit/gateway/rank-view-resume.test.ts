import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { Completeness } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { expect, test } from "vitest";
import {
  batch,
  chunk,
  FULL_4,
  FULL_GROUP,
  heartbeat,
  remove,
  type StartInit,
  start,
  store,
  withdraw,
} from "./messages.ts";
import { Bench, live } from "./view-bench.ts";

const AT_1 = { epoch: 7n, sequenceNumber: 1n };

/** A view that holds 8 tokens' blocks at sequence 1, and has asked to go on from there. */
function asked(): Bench {
  const bench = live([store(0, [4, 4, 4])]);
  bench.take(batch(0), batch(1, [store(0, [8, 4, 8])]));
  expect(bench.view.beginStream()).toEqual({ cursor: { epoch: 7n, sequence: 1n }, instance: 3n });
  return bench;
}

const resumed = (more: StartInit = {}): SubscribeResponse =>
  start({ isResumed: true, cursor: AT_1, ...more });

test("a stream that goes on keeps the view, and its batches follow the cursor", () => {
  const bench = asked();
  expect(bench.take(resumed())).toEqual([""]);
  expect(bench.score(9)).toBe(8);
  expect(bench.view.isSnapshotWhole).toBe(true);
  expect(bench.take(batch(3))).toEqual(["sequence_gap"]);
  expect(bench.take(batch(2, [remove(0, [8])]), heartbeat(2))).toEqual(["", ""]);
  expect(bench.score(9)).toBe(4);
});

test("the start of a stream that goes on has the present facts", () => {
  const bench = asked();
  const more = {
    completeness: Completeness.INCOMPLETE,
    unplacedBlocks: 2n,
    isEngineConnected: false,
    isCatchingUp: true,
    instance: 99n,
  };
  const revision = bench.view.factsRevision;
  expect(bench.take(resumed(more))).toEqual([""]);
  expect(bench.view).toMatchObject({
    isComplete: false,
    hasUnplacedBlocks: true,
    isEngineConnected: false,
    isCatchingUp: true,
  });
  expect(bench.view.factsRevision).toBeGreaterThan(revision);
  expect(bench.view.resumePoint?.instance).toBe(99n);
});

test("the start of a stream that goes on takes no doubt away: batches do", () => {
  const bench = asked();
  const doubtful = { completeness: Completeness.INCOMPLETE, unplacedBlocks: 2n };
  expect(bench.take(resumed(doubtful))).toEqual([""]);
  bench.view.beginStream();
  expect(bench.take(resumed())).toEqual([""]);
  expect(bench.view).toMatchObject({ isComplete: false, hasUnplacedBlocks: true });
  expect(bench.take(batch(2))).toEqual([""]);
  expect(bench.view).toMatchObject({ isComplete: true, hasUnplacedBlocks: false });
});

for (const [name, more] of [
  ["an older cursor", { cursor: { epoch: 7n, sequenceNumber: 0n } }],
  ["a later cursor", { cursor: { epoch: 7n, sequenceNumber: 2n } }],
  ["a cursor without a number", { cursor: { epoch: 7n } }],
  ["another epoch", { cursor: { epoch: 8n, sequenceNumber: 1n } }],
] satisfies readonly (readonly [string, StartInit])[]) {
  test(`a stream that goes on from ${name} is refused, and the view stays`, () => {
    const bench = asked();
    expect(bench.take(resumed(more))).toEqual(["start_invalid"]);
    expect(bench.score(9)).toBe(8);
  });
}

test("a stream that was not asked to go on must not", () => {
  expect(new Bench().take(start({ isResumed: true }))).toEqual(["start_invalid"]);
  const bench = live([]);
  bench.view.forgetCursor();
  bench.view.beginStream();
  expect(bench.take(start({ isResumed: true }))).toEqual(["start_invalid"]);
});

test("a stream goes on once: only its first start may say so", () => {
  const bench = asked();
  expect(bench.take(resumed(), resumed())).toEqual(["", "start_invalid"]);
  const fresh = asked();
  const again = { isResumed: true, cursor: { epoch: 7n } };
  expect(fresh.take(start(), start(again))).toEqual(["", "start_invalid"]);
});

test("a bridge that does not go on begins anew: everything is forgotten", () => {
  const bench = asked();
  expect(bench.take(start({ cursor: AT_1 }))).toEqual([""]);
  expect(bench.entries()).toBe(0);
  expect(bench.view.resumePoint).toBeUndefined();
  expect(bench.take(chunk(0, true, [store(0, [4, 4, 4])]))).toEqual([""]);
  expect(bench.view.resumePoint).toEqual({ cursor: { epoch: 7n, sequence: 1n }, instance: 3n });
});

test("an engine under which entries mean something else is refused, and a snapshot is asked for", () => {
  for (const engine of [
    { ...FULL_4, lookaheadTokens: 1 },
    { ...FULL_4, groups: [{ ...FULL_GROUP, groupId: 3 }] },
  ]) {
    const bench = asked();
    expect(bench.take(resumed({ engine }))).toEqual(["engine_changed"]);
    expect(bench.entries()).toBe(0);
    expect(bench.view.isWithdrawn).toBe(true);
    expect(bench.view.beginStream()).toBeUndefined();
    expect(bench.take(resumed({ engine }))).toEqual(["start_invalid"]);
    expect(bench.take(start({ engine }))).toEqual([""]);
  }
});

test("a view goes on from where nothing of it is missing, and from nowhere else", () => {
  const odd = { operation: 9 as Operation };
  for (const [name, messages, isWhole] of [
    ["nothing", [], false],
    ["no snapshot yet", [start()], false],
    ["half a snapshot", [start(), chunk(0, false), batch(0)], false],
    ["a snapshot of nothing, before the first batch", [start(), chunk(0, true)], true],
    ["a whole snapshot", [start(), chunk(0, true), batch(0)], true],
    ["a bridge that names no instance", [start({ instance: 0n }), chunk(0, true)], false],
    ["an operation that nobody knows", [start(), chunk(0, true), batch(0, [odd])], false],
    ["the same, and batches since", [start(), chunk(0, true), batch(0, [odd]), batch(1)], false],
    ["a withdrawal after the last batch", [start(), chunk(0, true), batch(0), withdraw()], false],
    ["and its batch", [start(), chunk(0, true), batch(0), withdraw(), batch(1)], true],
    ["a new start", [start(), chunk(0, true), start()], false],
  ] as const) {
    const bench = new Bench();
    bench.take(...messages);
    expect(bench.view.resumePoint !== undefined, name).toBe(isWhole);
  }
});

test("a view that met a ceiling of the index asks for a snapshot", () => {
  const bench = new Bench(2);
  bench.take(start(), chunk(0, true), batch(0, [store(0, [4, 4, 8])]));
  expect(bench.view.resumePoint).toBeDefined();
  bench.take(batch(1, [store(0, [12, 4, 12])]));
  expect(bench.view.isLimited).toBe(true);
  expect(bench.view.resumePoint).toBeUndefined();
});

test("a forgotten cursor comes back with the next snapshot, and the view stays till then", () => {
  const bench = asked();
  bench.view.forgetCursor();
  expect(bench.view.beginStream()).toBeUndefined();
  expect(bench.score(9)).toBe(8);
  bench.take(start({ cursor: AT_1 }), chunk(0, true));
  expect(bench.view.beginStream()).toBeDefined();
});

test("start, batch and heartbeat tell whether the bridge is catching up", () => {
  const bench = live([]);
  expect(bench.view.isCatchingUp).toBe(false);
  const seen: boolean[] = [];
  for (const message of [
    heartbeat(undefined, true, true),
    heartbeat(),
    batch(0, [], { isCatchingUp: true }),
    batch(1),
    start({ isCatchingUp: true }),
    chunk(0, true),
    start(),
  ]) {
    const before = bench.view.factsRevision;
    bench.take(message);
    if (bench.view.isCatchingUp !== (seen.at(-1) ?? false)) {
      expect(bench.view.factsRevision).toBeGreaterThan(before);
    }
    seen.push(bench.view.isCatchingUp);
  }
  expect(seen).toEqual([true, false, true, false, true, true, false]);
});
