import { create } from "@bufbuild/protobuf";
import {
  Completeness,
  Projection,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import {
  batch,
  chunk,
  type EngineInit,
  engine,
  FULL_4,
  FULL_GROUP,
  heartbeat,
  KEY_SCHEME,
  liveWith,
  remove,
  type StartInit,
  start,
  store,
  withdraw,
} from "./messages.ts";
import { Bench, live } from "./view-bench.ts";

const HYBRID: EngineInit = {
  ...FULL_4,
  groups: [FULL_GROUP, { groupId: 1, kind: "mamba", blockSize: 4, isSeen: true }],
};

test("a snapshot and the batches after it make up what is scored", () => {
  const bench = live([store(0, [4, 4, 8])]);
  expect(bench.score(17)).toBe(8);
  expect(bench.take(batch(0, [store(0, [12, 4, 16])]), batch(1, [remove(0, [16])]))).toEqual([
    "",
    "",
  ]);
  expect(bench.score(17)).toBe(12);
  expect(bench.view.sequenceNumber).toBe(1n);
});

test("the order of events inside a batch counts", () => {
  const bench = live([]);
  bench.take(batch(0, [store(0, [4, 4, 8]), remove(0, [8]), store(0, [8, 4, 8])]));
  expect(bench.score(9)).toBe(8);
  bench.take(batch(1, [store(0, [8, 4, 8]), remove(0, [8])]));
  expect(bench.score(9)).toBe(4);
});

test("nothing but a start is taken first, not even of an unknown kind", () => {
  const unknown = create(SubscribeResponseSchema);
  for (const first of [
    batch(0),
    chunk(0, true),
    heartbeat(),
    withdraw(),
    engine(FULL_4),
    unknown,
  ]) {
    expect(new Bench().take(first)).toEqual(["start_missing"]);
  }
});

test("a message of an unknown kind is ignored and counted", () => {
  const bench = live([store(0, [4, 4, 8])]);
  expect(bench.take(create(SubscribeResponseSchema))).toEqual([""]);
  expect(bench.counts.unknownMessages).toBe(1);
  expect(bench.score(9)).toBe(8);
});

for (const [name, more, refusal] of [
  ["another rank", { dpRank: 1 }, "rank_differs"],
  ["no epoch", { cursor: { epoch: 0n } }, "start_invalid"],
  [
    "a resumption from elsewhere",
    { isResumed: true, cursor: { epoch: 7n, sequenceNumber: 5n } },
    "start_invalid",
  ],
  ["another projection", { projection: Projection.ENGINE }, "start_invalid"],
  ["another scheme", { keyScheme: { ...KEY_SCHEME, id: "hsip24/1" } }, "key_scheme_differs"],
  [
    "another seed",
    { keyScheme: { ...KEY_SCHEME, checkValue: new Uint8Array(8) } },
    "key_scheme_differs",
  ],
  ["a check value of no length", { keyScheme: { id: KEY_SCHEME.id } }, "key_scheme_differs"],
  ["a group twice", { engine: { groups: [{ groupId: 1 }, { groupId: 1 }] } }, "engine_invalid"],
] satisfies readonly (readonly [string, StartInit, string])[]) {
  test(`a start with ${name} is refused and leaves the last view as it was`, () => {
    const bench = live([store(0, [4, 4, 8])]);
    bench.view.beginStream();
    expect(bench.take(start(more))).toEqual([refusal]);
    expect(bench.score(9)).toBe(8);
    expect(bench.view.hasView).toBe(true);
  });
}

test("a start without a key scheme cannot be trusted", () => {
  const message = start();
  if (message.message.case === "start") delete message.message.value.keyScheme;
  expect(new Bench().take(message)).toEqual(["key_scheme_differs"]);
});

test("a fresh start forgets everything, in the stream and after a reconnect", () => {
  const bench = live([store(0, [4, 4, 8]), store(0, [4, 4, 4], { medium: "CPU" })]);
  expect(bench.take(start({ cursor: { epoch: 9n, sequenceNumber: 5n } }))).toEqual([""]);
  expect(bench.entries()).toBe(0);
  expect(bench.view.isSnapshotWhole).toBe(false);
  expect(bench.take(batch(6, [], { epoch: 9n }))).toEqual([""]);
  expect(bench.view.sequenceNumber).toBe(6n);
  bench.take(chunk(0, true, [store(0, [4, 4, 4])]));
  bench.view.beginStream();
  expect(bench.score(9)).toBe(4);
});

test("pieces of a snapshot are counted from 0, and live batches may come between them", () => {
  const bench = new Bench();
  bench.take(start(), chunk(0, false, [store(0, [4, 4, 4])]), batch(0, [store(0, [8, 4, 8])]));
  expect(bench.view.isSnapshotWhole).toBe(false);
  expect(bench.take(chunk(1, true, [store(0, [12, 4, 12])]))).toEqual([""]);
  expect(bench.view.isSnapshotWhole).toBe(true);
  expect(bench.score(13)).toBe(12);
  expect(bench.take(chunk(2, true))).toEqual(["chunk_misplaced"]);
});

test("a lost, repeated or first piece out of order is refused", () => {
  const refusal = ["", "chunk_misplaced"];
  expect(new Bench().take(start(), chunk(1, true))).toEqual(refusal);
  expect(new Bench().take(start(), chunk(0, false), chunk(0, true))).toEqual(["", ...refusal]);
  expect(new Bench().take(start(), chunk(0, false), chunk(2, true))).toEqual(["", ...refusal]);
});

test("a snapshot has stores only", () => {
  const clear = { operation: Operation.CLEAR, clearsAllGroups: true };
  expect(new Bench().take(start(), chunk(0, true, [remove(0, [4])]))).toEqual([
    "",
    "operation_misplaced",
  ]);
  expect(new Bench().take(start(), chunk(0, true, [clear]))).toEqual(["", "operation_misplaced"]);
});

test("sequences follow each other; the first after a start may be any", () => {
  for (const first of [0, 17]) {
    const bench = live([]);
    expect(bench.take(batch(first), batch(first + 1), batch(first + 3))).toEqual([
      "",
      "",
      "sequence_gap",
    ]);
    expect(bench.view.sequenceNumber).toBe(BigInt(first + 1));
  }
  const bench = new Bench();
  bench.take(start({ cursor: { epoch: 7n, sequenceNumber: 4n } }), chunk(0, true));
  expect(bench.take(batch(6))).toEqual(["sequence_gap"]);
});

test("a repeated or older batch does nothing: it could bring back what was removed", () => {
  const bench = live([]);
  bench.take(batch(0, [store(0, [4, 4, 4])]), batch(1, [remove(0, [4])]));
  expect(bench.take(batch(0, [store(0, [4, 4, 4])]), batch(1, [store(0, [4, 4, 4])]))).toEqual([
    "",
    "",
  ]);
  expect(bench.entries()).toBe(0);
  expect(bench.counts.repeatedBatches).toBe(2);
});

test("a batch of another epoch or without contents is refused", () => {
  expect(live([]).take(batch(0, [], { epoch: 8n }))).toEqual(["epoch_differs"]);
  const empty = batch(0);
  if (empty.message.case === "batch") delete empty.message.value.batch;
  expect(live([]).take(empty)).toEqual(["batch_invalid"]);
});

const ODD_KEYS = new Uint8Array(9);
const most = LIMITS.textBytes.value;
for (const [refusal, event] of [
  ["keys_invalid", { ...store(0, [8, 4, 8]), prefixKeys: ODD_KEYS }],
  ["keys_invalid", { ...remove(0, [8]), prefixKeys: ODD_KEYS }],
  [
    "too_many_keys",
    {
      ...store(0, [8, 4, 8]),
      prefixKeys: new Uint8Array(8 * (LIMITS.hashesPerEvent.value + 1)),
    },
  ],
  ["end_invalid", { ...store(0, [8, 4, 8]), endTokens: 0 }],
  ["end_invalid", { ...store(0, [8, 4, 12]), endTokens: 2 ** 31 - 2 }],
  ["block_size_invalid", { ...store(0, [8, 4, 8]), blockSize: 0 }],
  ["block_size_invalid", { ...store(0, [8, 4, 8]), blockSize: 2 ** 31 }],
  ["parent_invalid", { ...store(0, [8, 4, 8]), parentPrefixKey: new Uint8Array(7) }],
  ["medium_invalid", { ...store(0, [8, 4, 8]), medium: "x".repeat(most + 1) }],
  ["medium_invalid", { ...remove(0, [8]), locality: "x".repeat(most + 1) }],
  [
    "medium_invalid",
    { operation: Operation.CLEAR, clearsAllGroups: true, ownership: "x".repeat(most + 1) },
  ],
] as const) {
  test(`${refusal}: nothing of such a message is applied (${Operation[event.operation ?? 0]})`, () => {
    // Method: good events around the bad one; not one of them may leave a trace.
    const bench = live([store(0, [4, 4, 4])]);
    const before = { ...bench.counts };
    const clear = { operation: Operation.CLEAR, clearsAllGroups: true };
    expect(bench.take(batch(0, [clear, event, store(0, [8, 4, 8])]))).toEqual([refusal]);
    expect(bench.score(9)).toBe(4);
    expect(bench.view.sequenceNumber).toBeUndefined();
    expect({ ...bench.counts }).toEqual(before);
  });
}

test("an unknown operation withdraws the rank, until the next start", () => {
  for (const operation of [Operation.UNSPECIFIED, 9 as Operation]) {
    const bench = live([store(0, [4, 4, 4]), store(0, [4, 4, 4], { medium: "CPU" })]);
    const odd = { operation, groupId: 5 };
    expect(bench.take(batch(0, [store(0, [8, 4, 8]), odd]))).toEqual([""]);
    expect(bench.entries()).toBe(0);
    expect(bench.view.isWithdrawn).toBe(true);
    expect(bench.view.sequenceNumber).toBe(0n);
    expect(bench.counts.unknownOperations).toBe(1);
    // The stream goes on and the view fills again; what the bridge calls complete is not so here.
    bench.take(batch(1, [store(0, [4, 4, 8])]));
    expect(bench.score(9)).toBe(8);
    expect(bench.view.isWithdrawn).toBe(true);
    bench.take(start(), chunk(0, true));
    expect(bench.view.isWithdrawn).toBe(false);
  }
});

test("an unknown operation beside an unreadable event is unreadable", () => {
  const bench = live([store(0, [4, 4, 4])]);
  const odd = { operation: Operation.UNSPECIFIED };
  const broken = { ...remove(0, [8]), prefixKeys: ODD_KEYS };
  expect(bench.take(batch(0, [odd, broken]))).toEqual(["keys_invalid"]);
  expect(bench.score(5)).toBe(4);
});

test("an unknown operation in a snapshot withdraws what came before it", () => {
  const bench = new Bench();
  const odd = { operation: 9 as Operation };
  bench.take(start(), chunk(0, false, [store(0, [4, 4, 4])]), chunk(1, true, [odd]));
  expect(bench.entries()).toBe(0);
  expect(bench.view.isSnapshotWhole).toBe(true);
  expect(bench.view.isWithdrawn).toBe(true);
});

test("media are caches of their own; only the own GPU is scored", () => {
  const bench = live([]);
  bench.take(
    batch(0, [
      store(0, [4, 4, 8], { medium: "CPU" }),
      store(0, [4, 4, 8], { medium: "GPU", locality: "REMOTE" }),
      store(0, [4, 4, 8], { ownership: "somebody" }),
    ]),
  );
  expect(bench.score(9)).toBe(0);
  bench.take(batch(1, [store(0, [4, 4, 8], { medium: "GPU", locality: "LOCAL" })]));
  expect(bench.score(9)).toBe(8);
  bench.take(batch(2, [remove(0, [4, 8], { medium: "CPU" })]));
  expect(bench.score(9)).toBe(8);
  expect(bench.entries()).toBe(6);
  bench.take(batch(3, [remove(0, [8])]));
  expect(bench.score(9)).toBe(4);
  expect(bench.entries()).toBe(5);
});

test("media beyond the bound are dropped and counted; removals of them are harmless", () => {
  const bench = live([]);
  for (let i = 0; i < LIMITS.mediaPerRank.value + 4; i++) {
    bench.take(batch(i, [store(0, [4, 4, 8], { medium: `tier ${i}` })]));
  }
  expect(bench.entries()).toBe((LIMITS.mediaPerRank.value - 1) * 2);
  expect(bench.counts.droppedMediumBlocks).toBe(5 * 2);
  const next = LIMITS.mediaPerRank.value + 4;
  expect(bench.take(batch(next, [remove(0, [4], { medium: "tier 19" })]))).toEqual([""]);
  expect(bench.view.isLimited).toBe(false);
});

const CLEARS = { operation: Operation.CLEAR, clearsAllGroups: false };

test("a clear empties its groups in its media and no others", () => {
  const filled = [
    store(0, [4, 4, 8]),
    store(1, [4, 4, 8]),
    store(0, [4, 4, 8], { medium: "CPU" }),
    store(0, [4, 4, 8], { medium: "CPU", ownership: "somebody" }),
    store(1, [4, 4, 8], { medium: "CPU" }),
  ];
  for (const [event, left] of [
    [{ ...CLEARS, clearsAllGroups: true }, [0, 0, 0, 0]],
    [{ ...CLEARS, groupId: 1 }, [6, 0, 2, 0]],
    [{ ...CLEARS, groupId: 0, medium: "CPU" }, [2, 4, 2, 2]],
    [{ ...CLEARS, clearsAllGroups: true, medium: "GPU" }, [4, 2, 0, 0]],
    [{ ...CLEARS, clearsAllGroups: true, medium: "TAPE" }, [6, 4, 2, 2]],
    [{ ...CLEARS, groupId: 2 }, [6, 4, 2, 2]],
  ] as const) {
    const bench = live(filled, HYBRID);
    expect(bench.take(batch(0, [event]))).toEqual([""]);
    const found = [bench.entries(0), bench.entries(1), bench.entries(0, 0), bench.entries(1, 0)];
    expect(found).toEqual(left);
  }
});

test("a withdrawal forgets its scope, and the view is incomplete until a batch says otherwise", () => {
  const filled = [store(0, [4, 4, 8]), store(1, [4, 4, 8]), store(0, [4, 4, 8], { medium: "CPU" })];
  for (const [groupId, medium, left] of [
    [undefined, undefined, [0, 0]],
    [0, undefined, [0, 2]],
    [undefined, "CPU", [2, 2]],
    [0, "", [2, 2]],
    [7, undefined, [4, 2]],
  ] as const) {
    const bench = live(filled, HYBRID);
    expect(bench.view.isComplete).toBe(true);
    expect(bench.take(withdraw(groupId, medium))).toEqual([""]);
    expect([bench.entries(0), bench.entries(1)]).toEqual(left);
    expect(bench.view.isComplete).toBe(false);
    bench.take(batch(0, [], { completeness: Completeness.COMPLETE }));
    expect(bench.view.isComplete).toBe(true);
  }
});

test("batches say whether the view is complete and whether blocks have no place", () => {
  const bench = live([]);
  bench.take(batch(0, [], { completeness: Completeness.UNSPECIFIED, unplacedBlocks: 3n }));
  expect(bench.view).toMatchObject({ isComplete: false, hasUnplacedBlocks: true });
  bench.take(batch(1, [], { unplacedBlocks: 0n }));
  expect(bench.view).toMatchObject({ isComplete: true, hasUnplacedBlocks: false });
});

test("a heartbeat that knows more than was applied means a loss, and moves nothing", () => {
  const bench = live([]);
  bench.take(batch(0), batch(1));
  expect(bench.take(heartbeat(0), heartbeat(1), heartbeat(2))).toEqual(["", "", "cursor_behind"]);
  expect(bench.view.sequenceNumber).toBe(1n);
  expect(live([]).take(heartbeat())).toEqual([""]);
  expect(live([]).take(heartbeat(0))).toEqual(["cursor_behind"]);
  const other = heartbeat();
  if (other.message.case === "heartbeat") other.message.value.cursor = undefined;
  expect(live([]).take(other)).toEqual(["cursor_behind"]);
});

test("heartbeats tell whether the engine is there", () => {
  const bench = live([]);
  const revision = bench.view.factsRevision;
  bench.take(heartbeat());
  expect(bench.view.factsRevision).toBe(revision);
  bench.take(heartbeat(undefined, false));
  expect(bench.view.isEngineConnected).toBe(false);
  expect(bench.view.factsRevision).toBe(revision + 1);
});

test("a roster that grows keeps what is held", () => {
  const bench = live([store(0, [4, 4, 8])]);
  expect(bench.take(engine(HYBRID))).toEqual([""]);
  expect(bench.entries(0)).toBe(2);
  expect(bench.score(9)).toBe(0);
  bench.take(batch(0, [store(1, [4, 4, 4])]));
  expect(bench.score(9)).toBe(4);
});

test("facts that change no entry's meaning are taken at once", () => {
  const bench = live([store(0, [4, 4, 12])]);
  expect(bench.take(engine({ ...FULL_4, replayTokens: 8 }))).toEqual([""]);
  expect(bench.score(9)).toBe(0);
  expect(bench.score(13)).toBe(12);
});

test("a description without a layout gives no number, and the entries stay", () => {
  const bench = live([store(0, [4, 4, 8])]);
  const unknown = { groups: [{ groupId: 0, blockSize: 4, isSeen: true }] };
  expect(bench.take(engine(unknown))).toEqual([""]);
  expect(bench.view.layoutReasons).toEqual(["kind_unknown"]);
  expect(bench.take(engine(FULL_4))).toEqual([""]);
  expect(bench.view.layoutReasons).toEqual([]);
  expect(bench.score(9)).toBe(8);
});

test("another look-ahead or a vanished group empties the rank and begins the stream anew", () => {
  for (const changed of [
    { ...FULL_4, lookaheadTokens: 1 },
    { ...FULL_4, groups: [{ ...FULL_GROUP, groupId: 3 }] },
  ]) {
    const bench = live([store(0, [4, 4, 8])]);
    expect(bench.take(engine(changed))).toEqual(["engine_changed"]);
    expect(bench.entries()).toBe(0);
    expect(bench.view.isWithdrawn).toBe(true);
  }
});

test("with look-ahead hashing a roster that grows begins the stream anew, and loses nothing by it", () => {
  const ahead = { ...FULL_4, lookaheadTokens: 1 };
  const filled = [store(0, [4, 4, 8], { lookahead: 1 })];
  const bench = live(filled, ahead);
  const grown = { ...HYBRID, lookaheadTokens: 1 };
  expect(bench.take(engine(grown))).toEqual(["engine_changed"]);
  bench.view.beginStream();
  bench.take(...liveWith([...filled, store(1, [4, 4, 4], { lookahead: 1 })], grown));
  expect(bench.score(9)).toBe(4);
  expect(bench.view.isWithdrawn).toBe(false);
});

test("an empty rank takes another look-ahead without ado", () => {
  const bench = live([]);
  expect(bench.take(engine({ ...FULL_4, lookaheadTokens: 1 }))).toEqual([""]);
  bench.take(batch(0, [store(0, [4, 4, 8], { lookahead: 1 })]));
  expect(bench.score(9)).toBe(8);
  expect(bench.score(8)).toBe(4);
  expect(bench.view.isWithdrawn).toBe(false);
});

test("an invalid description is refused and the old one stays", () => {
  const bench = live([store(0, [4, 4, 8])]);
  expect(bench.take(engine({ groups: [{ groupId: 0 }, { groupId: 0 }] }))).toEqual([
    "engine_invalid",
  ]);
  expect(bench.score(9)).toBe(8);
});

test("blocks beyond a ceiling are dropped, counted and make the view a lower bound", () => {
  const bench = new Bench(2);
  bench.take(start(), chunk(0, true, [store(0, [4, 4, 16])]));
  expect(bench.view.isLimited).toBe(true);
  expect(bench.counts).toMatchObject({ storedBlocks: 2, refusedBlocks: 2 });
  expect(bench.score(17)).toBe(8);
});

test("a repeated store and a removal of something unknown are harmless", () => {
  const bench = live([store(0, [4, 4, 8])]);
  bench.take(batch(0, [store(0, [4, 4, 8]), remove(0, [400]), remove(9, [4])]));
  expect(bench.score(9)).toBe(8);
  bench.take(batch(1, [remove(0, [8])]));
  expect(bench.score(9)).toBe(4);
});

test("empty runs change nothing", () => {
  const bench = live([store(0, [4, 4, 8])]);
  const none = new Uint8Array(0);
  const event = { ...store(0, [4, 4, 4], { medium: "NEW" }), prefixKeys: none };
  expect(bench.take(batch(0, [event, { ...remove(0, [4]), prefixKeys: none }]))).toEqual([""]);
  expect(bench.entries()).toBe(2);
});

test("a retired view leaves nothing in the index", () => {
  const bench = live([store(0, [4, 4, 8])]);
  bench.view.retire();
  expect(bench.index.gauges()).toMatchObject({ nodes: 0, entries: 0, ranks: 0 });
});
