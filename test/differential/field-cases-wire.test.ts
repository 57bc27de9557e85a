// Goal: what operators reported about decoding (field cases A) must not happen here.
// Method: each case's own frames go through the shipped path; the case says the right answer.
import { fromBinary } from "@bufbuild/protobuf";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import { batchOf, CLEAR, FieldRank, FieldTrial, rm, st } from "../support/field-notation.ts";
import { digest, encodeWire, encodeWith, raw, sequenceFrame } from "../support/wire-builder.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const TOPIC = new TextEncoder().encode("kv-events");

describe("A1: lists and maps", () => {
  const listStore = [
    "BlockStored",
    [1],
    null,
    [1, 2, 3, 4],
    4,
    null,
    "GPU",
    null,
    null,
    0,
    "full_attention",
    null,
  ];
  const mapStore = {
    type: "BlockStored",
    block_hashes: [2],
    parent_block_hash: 1,
    token_ids: [5, 6, 7, 8],
    block_size: 4,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
  };

  test("A1: both forms in one batch are one chain, and either form removes", () => {
    const trial = new FieldTrial();
    trial.payload(0, [1.5, [listStore, mapStore], 0]);
    expect(trial.q("1..9")).toBe(8);
    trial.send(["BlockRemoved", [2], "GPU", 0]);
    expect(trial.q("1..9")).toBe(4);
    trial.send(rm({ g: 0, h: [1] }));
    expect(trial.q("1..9")).toBe(0);
  });

  test("A1: maps without a type or with type 7 cost only themselves", () => {
    const trial = new FieldTrial();
    trial.send(listStore, { block_hashes: [9] }, { type: 7, block_hashes: [9] }, mapStore);
    expect(trial.q("1..9")).toBe(8);
    expect(trial.refused("event_tag")).toBe(2);
    expect(trial.counter("epochs")).toBe(0);
  });

  test("A1: a batch that is a map is read; one without events is refused by name", () => {
    const trial = new FieldTrial();
    trial.payload(0, { ts: 1.5, events: [listStore, mapStore], data_parallel_rank: 0 });
    expect(trial.q("1..9")).toBe(8);
    trial.payload(1, { ts: 2.5 });
    expect(trial.refused("batch_shape")).toBe(1);
    expect(trial.q("1..9")).toBe(0);
    trial.send(listStore);
    expect(trial.q("1..9")).toBe(4);
  });
});

describe("A3: integer hashes of every width", () => {
  const numbers = [100, 200, 40_000, 3_000_000_000, 9_223_372_036_854_775_808n];

  test("A3: five widths are one chain, and each is removed by its number", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: numbers, t: "1..20" }));
    expect(trial.q("1..21")).toBe(20);
    for (const hash of numbers) trial.send(rm({ g: 0, h: [hash] }));
    expect(trial.q("1..21")).toBe(0);
    expect(trial.placed).toBe(0);
  });

  test.each([
    ["uint8", [0xcc, 100]],
    ["uint16", [0xcd, 0, 100]],
    ["uint32", [0xce, 0, 0, 0, 100]],
    ["uint64", [0xcf, 0, 0, 0, 0, 0, 0, 0, 100]],
    ["int8", [0xd0, 100]],
    ["int16", [0xd1, 0, 100]],
    ["int32", [0xd2, 0, 0, 0, 100]],
    ["int64", [0xd3, 0, 0, 0, 0, 0, 0, 0, 100]],
  ])("A3: hash 100 written as %s is the same parent and the same removal", (_name, bytes) => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [100], t: "1..4" }));
    const child = st({ ...FULL, h: [7], t: "5..8", more: { parent_block_hash: raw(0) } });
    const send = (sequence: bigint, event: unknown): void =>
      trial.path.receive([
        TOPIC,
        sequenceFrame(sequence),
        encodeWith(batchOf([event]), [...bytes]),
      ]);
    send(1n, child);
    expect(trial.q("1..9")).toBe(8);
    send(2n, rm({ g: 0, h: [], more: { block_hashes: [raw(0)] } }));
    expect(trial.q("1..9")).toBe(0);
  });

  test("A3: a negative integer is the same hash as its 64 bits read unsigned", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [-1], t: "1..4" }));
    expect(trial.q("1..5")).toBe(4);
    trial.send(rm({ g: 0, h: [0xffff_ffff_ffff_ffffn] }));
    expect(trial.q("1..5")).toBe(0);
  });
});

describe("A4: 64 bits are exact", () => {
  test.each([
    [9_007_199_254_740_992n, 9_007_199_254_740_993n],
    [18_446_744_073_709_551_614n, 18_446_744_073_709_551_615n],
  ])("A4: %s and its neighbour are two blocks, and removing one leaves the other", (a, b) => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [a], t: "1..4" }), st({ ...FULL, h: [b], t: "11..14" }));
    expect([trial.q("1..5"), trial.q("11..15")]).toEqual([4, 4]);
    trial.send(rm({ g: 0, h: [b] }));
    expect([trial.q("1..5"), trial.q("11..15")]).toEqual([4, 0]);
  });

  test("A4: the engine projection carries the hash digit for digit", () => {
    const rank = new FieldRank("a", 0);
    const hashes: bigint[] = [];
    rank.open(Projection.ENGINE, (bytes) => {
      const { message } = fromBinary(SubscribeResponseSchema, bytes);
      if (message.case !== "batch") return;
      for (const event of message.value.batch?.events ?? []) {
        for (const hash of event.blockHashes) {
          hashes.push(new DataView(hash.buffer, hash.byteOffset).getBigUint64(0));
        }
      }
    });
    rank.drain();
    rank.send(st({ ...FULL, h: [9_007_199_254_740_993n], t: "1..4" }));
    expect(hashes).toEqual([9_007_199_254_740_993n]);
  });
});

describe("A6: byte hashes", () => {
  function bytesOf(first: number, rest: number): Uint8Array {
    const bytes = new Uint8Array(32).fill(rest);
    bytes.fill(first, 0, 8);
    return bytes;
  }

  test("A6: equal first or last 8 bytes do not merge; the partners of removed ones stay", () => {
    const tails = [digest(1, { last: 1 }), digest(1, { last: 1 })];
    tails[0]?.fill(7, 0, 24);
    const [a, b] = tails;
    const [c, d] = [bytesOf(5, 6), bytesOf(5, 8)];
    if (a === undefined || b === undefined) throw new Error("two tails");
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [a, b, c, d], t: "1..16" }));
    expect(trial.q("1..17")).toBe(16);
    trial.send(rm({ g: 0, h: [d] }));
    expect(trial.q("1..17")).toBe(12);
    trial.send(rm({ g: 0, h: [b] }));
    expect(trial.q("1..17")).toBe(4);
    expect(trial.placed).toBe(2);
  });

  test("A6: after a restart in integer mode nothing of byte mode is left or named", () => {
    const trial = new FieldTrial();
    const byteHash = digest(0, { last: 1 });
    trial.send(st({ ...FULL, h: [byteHash], t: "1..4" }));
    trial.send();
    trial.batch(0, st({ ...FULL, h: [2], p: 1, t: "5..8" }));
    expect(trial.q("1..9")).toBe(0);
    trial.send(st({ ...FULL, h: [1], t: "1..4" }), rm({ g: 0, h: [byteHash] }));
    expect(trial.q("1..5")).toBe(4);
  });
});

describe("A7: frames", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const good = (tokens: string): Uint8Array =>
    encodeWire(batchOf([st({ ...FULL, h: [1], t: tokens })]));

  test.each([
    ["one frame", "frame_count", [good("1..4")]],
    ["two frames", "frame_count", [sequenceFrame(0n), good("1..4")]],
    ["four frames", "frame_count", [TOPIC, sequenceFrame(0n), good("1..4"), bytes("")]],
    ["a sequence of 4 bytes", "sequence_width", [TOPIC, new Uint8Array(4), good("1..4")]],
    ["a sequence of 9 bytes", "sequence_width", [TOPIC, new Uint8Array(9), good("1..4")]],
    ["topic and payload exchanged", "sequence_width", [sequenceFrame(0n), TOPIC, good("1..4")]],
  ])(
    "A7: %s is refused as %s and never read; the next good one counts",
    (_name, reason, frames) => {
      const trial = new FieldTrial();
      trial.path.receive(frames);
      expect(trial.refused(reason)).toBe(1);
      expect(trial.counter("batches")).toBe(0);
      expect(trial.q("1..5")).toBe(0);
      trial.batch(0, st({ ...FULL, h: [1], t: "11..14" }));
      expect(trial.q("11..15")).toBe(4);
    },
  );

  test.each([
    ["empty", "payload_malformed", new Uint8Array(0)],
    ["the integer 7", "batch_shape", encodeWire(7)],
    ["cut off", "payload_malformed", good("1..4").subarray(0, 20)],
    ["followed by more", "payload_malformed", new Uint8Array([...good("1..4"), 0xc0])],
  ])(
    "A7: a payload that is %s is refused and gives the view up, not the stream",
    (_n, reason, p) => {
      const trial = new FieldTrial();
      trial.batch(0, st({ ...FULL, h: [1, 2], t: "1..8" }));
      trial.path.receive([TOPIC, sequenceFrame(1n), p]);
      expect(trial.refused(reason)).toBe(1);
      expect(trial.q("1..9")).toBe(0);
      trial.batch(2, st({ ...FULL, h: [3], p: 2, t: "9..12" }), st({ ...FULL, h: [1], t: "1..4" }));
      expect(trial.q("1..13")).toBe(4);
      expect(trial.answer("1..13").reasons).toContain("incomplete");
    },
  );

  test("A7: a refused message that was a batch shows as a gap, and costs the old view", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.path.receive([TOPIC, new Uint8Array(4), encodeWire(batchOf([rm({ g: 0, h: [1] })]))]);
    expect(trial.q("1..5")).toBe(4);
    trial.batch(2, st({ ...FULL, h: [3], t: "11..14" }));
    expect([trial.q("1..5"), trial.q("11..15")]).toEqual([0, 4]);
    expect(trial.counter("batches_lost")).toBe(1);
  });
});

describe("A9: tags and shapes", () => {
  const foreign = ["BlockStored", [1], null, [1, 2, 3, 4], 4, null, "GPU", null];
  const odd = [...foreign, { cache_salt: "a" }];
  const moved = { type: "BlockTransferred", block_hashes: [1] };
  const eviction = rm({ g: 0, h: [9], more: { reason: "eviction" } });

  test("A9: the odd shape is never plain text; the unknown tag is named; good ones apply", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [9], t: "101..104" }));
    expect(trial.q("101..105")).toBe(4);
    trial.send(odd, moved, eviction, st({ ...FULL, h: [5], t: "11..14" }));
    expect(trial.q("1..5")).toBe(0);
    expect(trial.q("1..5", { cacheSalt: "a" })).toBe(0);
    expect(trial.q("101..105")).toBe(0);
    expect(trial.q("11..15")).toBe(4);
    expect(trial.refused("extra_keys_invalid")).toBe(1);
    expect(trial.counter("events_unknown.BlockTransferred")).toBe(1);
  });

  test("A9: a thousand unknown names make at most 33 counters", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 1000; i++) trial.send({ type: `Block${i}`, block_hashes: [1] });
    const names = [...trial.path.pipeline.counters().keys()];
    const unknown = names.filter((name) => name.startsWith("events_unknown."));
    expect(unknown.length).toBeLessThanOrEqual(33);
    expect(trial.counter("events_unknown.other")).toBe(968);
  });

  test("A9: unknown fields and longer lists do no harm", () => {
    const trial = new FieldTrial();
    trial.send(
      st({ ...FULL, h: [1], t: "1..4", more: { novel: { deep: [1, "x"] } } }),
      [
        "BlockStored",
        [2],
        1,
        [5, 6, 7, 8],
        4,
        null,
        "GPU",
        null,
        null,
        0,
        "full_attention",
        null,
        1,
      ],
      { ...CLEAR, type: "AllBlocksMoved" },
    );
    expect(trial.q("1..9")).toBe(8);
  });
});

describe("B2: one odd field", () => {
  const big = 4_294_967_296;

  test("B2: a window of 2^32 is no window and no other one; the answer is unknown", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(
      1,
      st({ g: 1, k: "swa", w: big, bs: 4, h: [1], t: "1..4" }),
      st({ ...FULL, p: 1, h: [2], t: "5..8" }),
    );
    expect(trial.refused("window_invalid")).toBe(1);
    const answer = trial.answer("1..9");
    expect(answer).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(answer.reasons).toContain("window_unknown");
    expect(trial.placed).toBe(3);
    trial.batch(2, rm({ g: 0, h: [2] }));
    expect(trial.placed).toBe(2);
    trial.send(st({ g: 1, k: "swa", w: 5, bs: 4, h: [1], t: "1..4" }));
    expect(trial.q("1..9")).toBe(4);
  });

  test.each([
    ["token 2^32", "tokens_invalid", { token_ids: [5, 6, 7, big] }],
    ["token -1", "tokens_invalid", { token_ids: [5, 6, 7, -1] }],
    ["block size 2^31", "tokens_misaligned", { block_size: 2 ** 31 }],
    ["block size 2^32", "block_size_invalid", { block_size: big }],
    ["group 2^32", "group_invalid", { group_idx: big }],
  ])("B2: a store with %s costs itself, by reason %s", (_name, reason, more) => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1], t: "1..4" }));
    trial.send(st({ ...FULL, p: 1, h: [9], t: "5..8", more }));
    trial.send(st({ ...FULL, p: 1, h: [2], t: "5..8" }));
    expect(trial.refused(reason)).toBe(1);
    expect(trial.q("1..9")).toBe(8);
    expect(trial.counter("epochs")).toBe(0);
  });

  test("B2: a GPU store without tokens that says block size 2^31 does not cost the worker", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    trial.send(st({ ...FULL, p: 2, h: [9], t: [], bs: 2 ** 31 }));
    expect(trial.q("1..9")).toBe(8);
  });

  test.each([2 ** 31, 2 ** 32, -1, "0"])(
    "B2: a batch of rank %s gives the view up only",
    (rank) => {
      const trial = new FieldTrial();
      trial.send(st({ ...FULL, h: [1], t: "1..4" }));
      trial.payload(1, batchOf([st({ ...FULL, p: 1, h: [2], t: "5..8" })], rank));
      expect(trial.q("1..9")).toBe(0);
      expect(trial.refused("rank_mismatch") + trial.refused("batch_shape")).toBe(1);
      trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
      expect(trial.q("1..9")).toBe(8);
    },
  );
});
