// Goal: the ENGINE projection speaks a neighbour's group contract: fields 1 to 9 by number, wire
// type and meaning, and nothing leaves without permission.
// Method: vLLM events through a real pipeline; its bytes are decoded with the generated schema, and
// small events are compared byte by byte with what the contract's table says. A consumer that is a
// plain set, as the neighbour's, is then held to the engine's own counts.
import { createHash } from "node:crypto";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import {
  BatchSchema,
  BridgeService,
  Completeness,
  Projection,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type KvGroupEvent,
  KvGroupEventSchema,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { describe, expect, test } from "vitest";
import { FanOut } from "../../src/bridge/dist/index.js";
import type { RankOutput } from "../../src/bridge/dist/rank-output.js";
import { bridgeService } from "../../src/bridge/dist/service.js";
import {
  batchOf,
  C,
  CLEAR,
  every,
  framesOf,
  INVALID,
  key,
  pipelineOf,
  R,
  rem,
  span,
} from "../support/smg-notation.ts";
import type { WireFields } from "../support/wire-builder.ts";

const full = (ends: readonly number[], through: number, more: WireFields = {}): WireFields =>
  R(7, "full", 0, 4, ends, through, more);

/** A pipeline that may speak ENGINE, and what it said. */
class Talker {
  readonly outputs: RankOutput[] = [];
  readonly pipeline = pipelineOf({
    isEngineProjectionAllowed: true,
    emit: (output) => this.outputs.push(output),
  });
  private next = 0n;

  /** The ENGINE events of one batch. */
  send(...events: readonly unknown[]): readonly KvGroupEvent[] {
    this.pipeline.receive(framesOf(this.next++, batchOf(events)), 0);
    this.pipeline.audit();
    return this.last().batch?.events ?? [];
  }

  last() {
    const output = this.outputs.at(-1);
    if (output?.type !== "batch" || output.engineBytes === undefined) {
      throw new TypeError("a batch with ENGINE bytes comes last");
    }
    return fromBinary(BatchSchema, output.engineBytes);
  }
}

const hex = (event: KvGroupEvent | undefined): string =>
  event === undefined ? "" : Buffer.from(toBinary(KvGroupEventSchema, event)).toString("hex");
const operations = (events: readonly KvGroupEvent[]): readonly string[] =>
  events.map((event) => Operation[event.operation]);
const hashesOf = (event: KvGroupEvent | undefined): readonly string[] =>
  event?.blockHashes.map((bytes) => Buffer.from(bytes).toString("hex")) ?? [];

describe("bytes of a small event", () => {
  test("a root store: varint 1, 2, 6; bytes 3; packed 5; text 7; bool 9; no 4 and no 8", () => {
    const [event] = new Talker().send(full([4], 4));
    expect(hex(event)).toBe(
      [
        "0801", // 1: STORE
        "1007", // 2: group 7
        "1a080000000000000004", // 3: the hash, 8 bytes big-endian
        "2a0401020304", // 5: packed tokens
        "3004", // 6: block size
        "3a0e66756c6c5f617474656e74696f6e", // 7: full_attention
        "4801", // 9: matchable
      ].join(""),
    );
  });

  test("a child with a window: 4 and 8 are there, tokens are packed varints of several bytes", () => {
    const tokens = { token_ids: [300, 70_000, 2 ** 32 - 1, 0] };
    const [, event] = new Talker().send(
      R(2, "swa", 1024, 4, [4], 4),
      C(2, "swa", 1024, 4, 8, tokens),
    );
    expect(hex(event)).toBe(
      [
        "0801",
        "1002",
        "1a080000000000000008",
        "22080000000000000004", // 4: the parent
        "2a0b", // 5: 11 bytes
        "ac02",
        "f0a204",
        "ffffffff0f",
        "00",
        "3004",
        "3a0e736c6964696e675f77696e646f77",
        "408008", // 8: 1024
        "4801",
      ].join(""),
    );
  });

  test("a removal is fields 1, 2 and 3", () => {
    const talker = new Talker();
    talker.send(full([4, 8], 8));
    const [event] = talker.send(rem(7, [8, 4]));
    expect(hex(event)).toBe("080210071a0800000000000000081a080000000000000004");
  });

  test("a clear is field 1 alone, but for our own mark that it means every group", () => {
    const talker = new Talker();
    talker.send(full([4], 4));
    const [event] = talker.send(CLEAR);
    expect(hex(event)).toBe("0803900101");
  });
});

describe("meaning of the fields", () => {
  test("integer hashes are masked to 64 bits, byte hashes go verbatim", () => {
    const digest = createHash("sha256").update("a").digest();
    const talker = new Talker();
    const ints = [0, 2n ** 63n, 2n ** 64n - 1n, -2];
    const [event] = talker.send(full([], 16, { block_hashes: ints }));
    expect(hashesOf(event)).toEqual([
      "0000000000000000",
      "8000000000000000",
      "ffffffffffffffff",
      "fffffffffffffffe",
    ]);
    const [bytes] = talker.send(full([], 4, { block_hashes: [digest], token_ids: [9, 8, 7, 6] }));
    expect(hashesOf(bytes)).toEqual([digest.toString("hex")]);
  });

  test("number, time stamp and rank of the batch are the engine's; completeness is not said", () => {
    const talker = new Talker();
    talker.pipeline.receive(framesOf(41, [3.5, [full([4], 4)], 0]), 0);
    const { batch, completeness } = talker.last();
    expect(batch).toMatchObject({ sequenceNumber: 41n, timestampSeconds: 3.5 });
    expect(completeness).toBe(Completeness.UNSPECIFIED);
  });

  test("a sparse store keeps its whole span, a partial one its size, an unknown parent its bytes", () => {
    const parent = { parent_block_hash: key(9) };
    const [sparse, partial] = new Talker().send(
      R(1, "mamba", 0, 4, [8, 20], 20, parent),
      C(1, "mamba", 0, 20, 22),
    );
    expect(sparse?.tokenIds).toHaveLength(20);
    expect(hashesOf(sparse)).toHaveLength(2);
    expect(Buffer.from(sparse?.parentBlockHash ?? []).toString("hex")).toBe("0000000000000009");
    expect([partial?.blockSize, partial?.tokenIds]).toEqual([2, [21, 22]]);
  });

  test("a sparse store without hashes still announces its group", () => {
    const [event] = new Talker().send(R(1, "mamba", 0, 4, [], 4));
    expect(event).toMatchObject({ groupId: 1, kind: "mamba", blockSize: 4, blockHashes: [] });
    expect(event?.tokenIds).toEqual([1, 2, 3, 4]);
  });

  test("kinds go verbatim, also those that nobody knows; a kind without a window says 0", () => {
    const events = new Talker().send(
      R(0, "full", 0, 4, [4], 4),
      R(1, "swa", 1024, 4, [4], 4),
      R(2, "future", 0, 4, [4], 4),
    );
    expect(events.map(({ kind, slidingWindow }) => [kind, slidingWindow])).toEqual([
      ["full_attention", 0],
      ["sliding_window", 1024],
      ["future", 0],
    ]);
  });

  const extras: readonly (readonly [string, WireFields])[] = [
    ["an adapter's number", { lora_id: 0 }],
    ["an adapter's name", { lora_name: "adapter" }],
    ["a salt", { extra_keys: [["salt"]] }],
    ["an image", { extra_keys: [[["image", 0]]] }],
    ["an embedding", { extra_keys: [[new Uint8Array(4)]] }],
    ["look-ahead tokens", { lookahead_token_ids: [[5]] }],
  ];
  for (const [name, more] of extras) {
    test(`${name} in the hash makes tokens unmatchable; hashes and tokens stay`, () => {
      const [event] = new Talker().send(full([4], 4, more));
      expect(event).toMatchObject({ tokensMatchable: false, tokenIds: [1, 2, 3, 4] });
      expect(hashesOf(event)).toHaveLength(1);
    });
  }

  test("extra keys that are all empty leave tokens matchable", () => {
    const [event] = new Talker().send(full([4, 8], 8, { extra_keys: [null, null] }));
    expect(event?.tokensMatchable).toBe(true);
  });

  test("the children of a salted block are unmatchable too: the salt is in their hashes", () => {
    const talker = new Talker();
    talker.send(full([4], 4, { extra_keys: [["salt"]] }));
    const [child] = talker.send(C(7, "full", 0, 4, 8, { extra_keys: [null] }));
    expect(child?.tokensMatchable).toBe(false);
  });
});

describe("what is told, and in which order", () => {
  test("repeated stores, removals and clears keep their order; a removal waits for the last copy", () => {
    const talker = new Talker();
    const events = talker.send(full([4], 4), full([4], 4), rem(7, [4]), rem(7, [4]), CLEAR);
    expect(operations(events)).toEqual(["STORE", "STORE", "REMOVE"]);
    expect(operations(talker.send(full([4], 4), CLEAR, full([8], 8)))).toEqual([
      "STORE",
      "CLEAR",
      "STORE",
    ]);
  });

  const foreign: readonly WireFields[] = [
    { medium: "CPU" },
    { medium: "STORAGE" },
    { locality: "REMOTE" },
    { ownership: "kvcr" },
  ];
  for (const more of foreign) {
    test(`${JSON.stringify(more)}: stores and removals are both left out`, () => {
      const talker = new Talker();
      expect(talker.send(full([4], 4, more), rem(7, [4], more))).toEqual([]);
      talker.send(full([4], 4));
      expect(talker.send(rem(7, [4], more))).toEqual([]);
    });
  }

  test("LOCAL, nil and absent locality and ownership, and a nil medium, are the engine's own", () => {
    const own = [{ locality: "LOCAL" }, { locality: null, ownership: null }, { medium: null }, {}];
    const events = new Talker().send(...own.map((more) => full([4], 4, more)));
    expect(operations(events)).toEqual(own.map(() => "STORE"));
  });

  test("an unreadable store is left out and what follows is kept; INVALID is never sent", () => {
    const events = new Talker().send(INVALID, full([4], 4), { type: "Odd" }, rem(9, [4]));
    expect(operations(events)).toEqual(["STORE"]);
  });

  test("an unreadable removal clears its group before what follows", () => {
    const talker = new Talker();
    talker.send(full([4, 8], 8));
    const events = talker.send(rem(7, [], { block_hashes: [true] }), full([4], 4));
    expect(operations(events)).toEqual(["CLEAR", "STORE"]);
    expect(events[0]).toMatchObject({ groupId: 7, clearsAllGroups: false });
  });
});

/** What the neighbour's consumer believes: a set per group. */
class SetConsumer {
  readonly held = new Set<string>();

  apply(events: readonly KvGroupEvent[]): void {
    for (const event of events) {
      if (event.operation === Operation.CLEAR) {
        for (const entry of this.held) {
          if (event.clearsAllGroups || entry.startsWith(`${event.groupId}/`)) {
            this.held.delete(entry);
          }
        }
      }
      for (const hash of hashesOf(event)) {
        const entry = `${event.groupId}/${hash}`;
        if (event.operation === Operation.STORE) this.held.add(entry);
        else this.held.delete(entry);
      }
    }
  }
}

describe("a consumer that is a set is left with nothing when the engine holds nothing", () => {
  const histories: readonly (readonly [string, readonly WireFields[], readonly WireFields[]])[] = [
    ["two copies", [full([4, 8], 8), full([4], 4)], [rem(7, [4, 8]), rem(7, [4])]],
    [
      "a hash that replaces another under one key",
      [full([4], 4), full([], 4, { block_hashes: [key(104)] })],
      [rem(7, [4]), rem(7, [104])],
    ],
    [
      "a hash at two places",
      [full([4], 4), rem(7, [4]), full([4], 4, { token_ids: [9, 9, 9, 9] })],
      [rem(7, [4])],
    ],
    [
      "a small block where a whole one ends",
      [
        full([4, 8], 8),
        R(1, "full", 0, 8, [116], 8, { token_ids: span(101, 108) }),
        C(1, "full", 0, 4, 8),
      ],
      [rem(7, [4, 8]), rem(1, [8]), rem(1, [116])],
    ],
    [
      "a small block whose end was not known, and is where a whole one ends",
      [
        R(1, "full", 0, 8, [116], 8, { token_ids: span(101, 108) }),
        C(1, "full", 0, 4, 8),
        full([4, 8], 8),
      ],
      [rem(7, [4, 8]), rem(1, [116])],
    ],
    [
      "more media than the limit",
      [
        ...every(1, 40).map((n) => full([100 + n], 4, { medium: `TIER${n}`, token_ids: [] })),
        full([4], 4),
      ],
      [rem(7, [4])],
    ],
  ];
  for (const [name, stores, removals] of histories) {
    test(`${name}`, () => {
      const talker = new Talker();
      const consumer = new SetConsumer();
      for (const event of stores) consumer.apply(talker.send(event));
      for (const event of removals) consumer.apply(talker.send(event));
      expect([...consumer.held]).toEqual([]);
    });
  }
});

describe("without permission", () => {
  test("no ENGINE bytes exist", () => {
    const outputs: RankOutput[] = [];
    const pipeline = pipelineOf({ emit: (output) => outputs.push(output) });
    pipeline.receive(framesOf(0, batchOf([full([4], 4)])), 0);
    pipeline.receive(framesOf(1, batchOf([CLEAR])), 0);
    const batches = outputs.filter((output) => output.type === "batch");
    expect(batches).toHaveLength(2);
    for (const batch of batches) expect(batch.engineBytes).toBeUndefined();
  });

  for (const isAllowed of [false, true]) {
    test(`the service ${isAllowed ? "serves" : "refuses"} ENGINE`, async () => {
      const pipeline = pipelineOf({
        isEngineProjectionAllowed: isAllowed,
        emit: (output) => fanOut.publish(output),
      });
      const fanOut: FanOut = new FanOut({ view: pipeline, instance: 1n });
      const service = bridgeService({
        ranks: new Map([[0, { fanOut, describe: () => pipeline.describe(0) }]]),
        keyScheme: pipeline.keyScheme(),
        isEngineProjectionAllowed: isAllowed,
        bridgeVersion: "test",
        shutdown: new AbortController().signal,
      });
      const transport = createRouterTransport((router) => router.service(BridgeService, service));
      const abort = new AbortController();
      const stream = createClient(BridgeService, transport)
        .subscribe({ projection: Projection.ENGINE }, { signal: abort.signal })
        [Symbol.asyncIterator]();
      const first = await stream.next().catch((error: unknown) => ConnectError.from(error).code);
      expect(first === Code.PermissionDenied).toBe(!isAllowed);
      expect(fanOut.subscriberCount).toBe(isAllowed ? 1 : 0);
      abort.abort();
      expect(fanOut.subscriberCount).toBe(0);
    });
  }
});
