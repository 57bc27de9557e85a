import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { decodeBatch, validateBatch } from "../../../src/bridge/dist/validate.js";
import {
  decodeValue,
  eventOf,
  eventsOf,
  reasonOf,
  refusalOf,
  unwrap,
} from "../../support/decoded-events.ts";
import {
  batchOf,
  encodeWire,
  encodeWith,
  listStore,
  namedRemoval,
  namedStore,
  raw,
} from "../../support/wire-builder.ts";

const batchRefusal = (value: unknown): string => {
  const result = decodeValue(value);
  return result.ok ? "read" : `${result.error.reason} at ${result.error.path}`;
};

describe("batch forms", () => {
  test.each([
    ["two elements (0.9.0)", [1.5, []], undefined],
    ["three elements (from 0.9.1)", [1.5, [], 0], 0],
    ["a nil rank", [1.5, [], null], undefined],
    ["more elements than we know", [1.5, [], 3, "later", { a: 1 }], 3],
    ["a map with a rank", { ts: 1.5, events: [], data_parallel_rank: 2, later: 1 }, 2],
    ["a map without a rank", { events: [], ts: 1.5 }, undefined],
    ["a rank in a wide encoding", [1.5, [], 7n], 7],
    ["the largest rank", [1.5, [], 2 ** 32 - 1], 2 ** 32 - 1],
  ])("%s", (_name, value, rank) => {
    expect(unwrap(decodeValue(value))).toEqual({
      timestampSeconds: 1.5,
      dpRank: rank,
      events: [],
    });
  });

  test.each([
    ["an integer", 3, 3],
    ["a wide integer", 1_789_095_808n, 1_789_095_808],
    ["nil", null, undefined],
    ["a text", "now", undefined],
    ["not a number", Number.NaN, undefined],
    ["infinity", Number.POSITIVE_INFINITY, undefined],
    ["before 1970", -1.5, undefined],
  ])("%s for a timestamp never costs the batch", (_name, ts, seconds) => {
    expect(unwrap(decodeValue([ts, [], 0])).timestampSeconds).toBe(seconds);
  });

  test.each([
    ["an integer", 7, "batch_shape at batch"],
    ["a text", "x", "batch_shape at batch"],
    ["nil", null, "batch_shape at batch"],
    ["bytes", new Uint8Array(9), "batch_shape at batch"],
    ["a list of one", [1.5], "batch_shape at batch"],
    ["an empty list", [], "batch_shape at batch"],
    ["no list of events", [1.5, 7, 0], "batch_shape at batch.events"],
    ["a map of events", [1.5, { type: "BlockStored" }, 0], "batch_shape at batch.events"],
    ["a map without events", { ts: 1.5 }, "batch_shape at batch.events"],
    ["a negative rank", [1.5, [], -1], "batch_shape at batch.data_parallel_rank"],
    ["a rank of 2^32", [1.5, [], 2 ** 32], "batch_shape at batch.data_parallel_rank"],
    ["a boolean rank", [1.5, [], true], "batch_shape at batch.data_parallel_rank"],
    ["a text for a rank", [1.5, [], "0"], "batch_shape at batch.data_parallel_rank"],
  ])("%s is refused whole", (_name, value, refusal) => {
    expect(batchRefusal(value)).toBe(refusal);
  });

  test("a map batch with a name that is no text is refused whole", () => {
    const bytes = encodeWith(raw(0), [0x82, 0x05, 0x06, 0xa6, ...Buffer.from("events"), 0x90]);
    expect(decodeBatch(bytes)).toEqual({
      ok: false,
      error: { reason: "batch_shape", path: "batch" },
    });
  });

  test("events at the limit are read, one more is refused", () => {
    const limit = LIMITS.eventsPerBatch.value;
    const events = Array.from({ length: limit + 1 }, () => ["AllBlocksCleared"]);
    expect(unwrap(validateBatch([1, events.slice(1)])).events.length).toBe(limit);
    expect(validateBatch([1, events])).toEqual({
      ok: false,
      error: { reason: "too_many_events", path: "batch.events" },
    });
  });

  test("garbage bytes are a refusal of the payload", () => {
    expect(decodeBatch(new Uint8Array([0xc1, 1, 2]))).toEqual({
      ok: false,
      error: { reason: "payload_malformed", path: "payload" },
    });
  });
});

describe("one bad event costs only itself", () => {
  test("list and map forms of one revision change stand in one batch (field case A1)", () => {
    const events = eventsOf(
      listStore({ group_idx: 0, kv_cache_spec_kind: "full_attention" }),
      namedStore({ block_hashes: [2], parent_block_hash: 1, token_ids: [5, 6, 7, 8] }),
      ["BlockRemoved", [2], "GPU", 0],
      namedRemoval({ group_idx: 0 }),
      { block_hashes: [3] },
      { ...namedRemoval(), type: 7 },
    );
    expect(events.map((event) => event.type)).toEqual([
      "stored",
      "stored",
      "removed",
      "removed",
      "refused",
      "refused",
    ]);
  });

  test.each([
    ["an integer", 7, "event_shape at events[1]"],
    ["nil", null, "event_shape at events[1]"],
    ["bytes", new Uint8Array(9), "event_shape at events[1]"],
    ["a text", "BlockStored", "event_shape at events[1]"],
    ["an empty list", [], "event_shape at events[1]"],
    ["an empty map", {}, "event_tag at events[1].type"],
    ["a nil tag", [null, [1]], "event_tag at events[1][0]"],
    ["a number for a tag", [7], "event_tag at events[1][0]"],
    ["a number for a type", { type: 7 }, "event_tag at events[1].type"],
    ["an unknown tag", ["BlockInactive", [1]], "event_unknown at events[1]"],
    ["an unknown type", { type: "ChunkStored" }, "event_unknown at events[1]"],
    ["another case", { type: "blockstored" }, "event_unknown at events[1]"],
    ["a scoped clear of a fork", ["TierBlocksCleared", "CPU"], "event_unknown at events[1]"],
  ])("%s between two good stores", (_name, event, refusal) => {
    const [before, bad, after] = eventsOf(namedStore(), event, listStore());
    expect(before?.type).toBe("stored");
    expect(after?.type).toBe("stored");
    expect(bad?.type).toBe("refused");
    expect(bad === undefined ? "" : refusalOf(bad)).toBe(refusal);
  });

  test.each([
    ["an extension", [0xd4, 1, 1]],
    ["a text that is not UTF-8", [0xa3, 0xff, 0xff, 0xff]],
    ["a float", [0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]],
  ])("%s in the place of an event, a type, or a field", (_name, piece) => {
    const reasons = (value: unknown) => {
      const result = decodeBatch(encodeWith(batchOf(namedStore(), value, listStore()), piece));
      return unwrap(result).events.map(reasonOf);
    };
    expect(reasons(raw(0))).toEqual(["", "event_tag", ""]);
    expect(reasons({ type: raw(0) })).toEqual(["", "event_tag", ""]);
    expect(reasons(namedStore({ later: raw(0) }))).toEqual(["", "", ""]);
    expect(reasons(namedStore({ medium: raw(0) }))).toEqual(["", "medium_invalid", ""]);
    expect(reasons(namedStore({ group_idx: raw(0) }))).toEqual(["", "group_invalid", ""]);
    expect(reasons(namedStore({ block_hashes: [raw(0)] }))).toEqual(["", "hash_invalid", ""]);
    expect(reasons(namedStore({ block_hashes: raw(0) }))).toEqual(["", "hash_invalid", ""]);
    expect(reasons(namedStore({ token_ids: raw(0) }))).toEqual(["", "tokens_invalid", ""]);
    expect(reasons(namedStore({ extra_keys: raw(0) }))).toEqual(["", "extra_keys_invalid", ""]);
    expect(reasons(namedStore({ parent_block_hash: raw(0) }))).toEqual(["", "parent_invalid", ""]);
    expect(reasons(namedStore({ lora_name: raw(0) }))).toEqual(["", "lora_invalid", ""]);
  });

  test("a map event with a name that is no text cannot be taken at its word", () => {
    const withOddName = (type: string) => {
      const head = [0x82, 0xa4, ...Buffer.from("type"), 0xa0 | type.length, ...Buffer.from(type)];
      return unwrap(decodeBatch(encodeWith(batchOf(raw(0)), [...head, 0x07, 0x07]))).events[0];
    };
    expect(withOddName("BlockStored")).toMatchObject({
      type: "refused",
      refusal: { reason: "text_invalid", path: "events[0]" },
    });
    const unreadable = {
      type: "removal_unreadable",
      refusal: { reason: "text_invalid", path: "events[0]" },
      groupId: undefined,
      medium: undefined,
      hashes: undefined,
    };
    expect(withOddName("BlockRemoved")).toEqual(unreadable);
    expect(withOddName("AllBlocksCleared")).toEqual(unreadable);
  });
});

describe("tags of unknown events", () => {
  const tagOf = (tag: string) => {
    const event = eventOf({ type: tag });
    return event.type === "refused" ? event.tag : "no refusal";
  };

  test("pass as published, cut to 64 characters", () => {
    expect(tagOf("BlockTransferred")).toBe("BlockTransferred");
    expect(tagOf("x".repeat(65))).toBe("x".repeat(64));
    expect(tagOf("")).toBe("");
  });

  test("lose what a log or a metric label cannot show", () => {
    expect(tagOf("a\nb\u0000c\u001b[31m\u2028\u202e")).toBe("a?b?c?[31m??");
    expect(tagOf(`${"x".repeat(63)}😀`)).toBe(`${"x".repeat(63)}?`);
  });

  test("are told of unknown events only", () => {
    expect(eventOf(["BlockStored"])).toMatchObject({ type: "refused", tag: undefined });
  });
});

test("refusals name fields, never a token or a hash", () => {
  const secret = 123_456_789;
  const bad = [
    namedStore({ token_ids: [secret, -secret] }),
    namedStore({ token_ids: [secret], block_size: 3 }),
    namedStore({ block_hashes: [secret, "x"] }),
    namedStore({ lora_name: [secret] }),
    namedStore({ extra_keys: [secret] }),
    namedStore({ lookahead_token_ids: [[secret, "x"]] }),
    namedRemoval({ group_idx: -secret }),
  ];
  const text = encodeWire(batchOf(...bad));
  const result = unwrap(decodeBatch(text));
  const said = result.events.map((event) => refusalOf(event));
  expect(said.join()).not.toContain(String(secret));
  expect(said.every((line) => line !== "")).toBe(true);
});
