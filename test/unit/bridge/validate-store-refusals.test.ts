// What a store may not say. Each costs the store and names the field.
import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { validateBatch } from "../../../src/bridge/dist/validate.js";
import { eventOf, refusalOf, storeOf, unwrap } from "../../support/decoded-events.ts";
import {
  batchOf,
  digest,
  listStore,
  namedStore,
  tokens,
  type WireFields,
  without,
} from "../../support/wire-builder.ts";

const refusal = (event: unknown): string => refusalOf(eventOf(event));
const fieldRefusal = (fields: WireFields): string => refusal(namedStore(fields));
/** For values too large to encode in a test: past the wire. */
const largeRefusal = (fields: WireFields): string => {
  const [event] = unwrap(validateBatch(batchOf(namedStore(fields)))).events;
  return event === undefined ? "no event" : refusalOf(event);
};

test("every refused store says so and nothing more", () => {
  expect(eventOf(namedStore({ block_hashes: 7 }))).toEqual({
    type: "refused",
    refusal: { reason: "hashes_invalid", path: "events[0].block_hashes" },
    tag: undefined,
  });
});

test.each([1, 2, 3, 4])("a list of %i elements ends before its block size", (length) => {
  expect(refusal(listStore({}, length))).toBe("event_arity at events[0]");
});

describe("hashes", () => {
  test.each([
    ["absent", undefined],
    ["nil", null],
    ["one integer", 7],
    ["one digest", digest(1)],
    ["a map", { 0: 1 }],
    ["a text", "1"],
  ])("%s is no list of hashes", (_name, value) => {
    const event =
      value === undefined
        ? without(namedStore(), "block_hashes")
        : namedStore({ block_hashes: value });
    expect(refusal(event)).toBe("hashes_invalid at events[0].block_hashes");
  });

  test.each([
    ["a float", 1.5],
    ["a boolean", true],
    ["nil", null],
    ["a text", "00000000"],
    ["a list", [1]],
    ["empty bytes", new Uint8Array(0)],
    ["seven bytes", new Uint8Array(7)],
    ["more bytes than the limit", new Uint8Array(LIMITS.hashBytes.value + 32)],
  ])("%s is no hash, wherever it stands", (_name, value) => {
    const bad = "hash_invalid at events[0].block_hashes";
    const fields = { token_ids: tokens(12) };
    expect(fieldRefusal({ ...fields, block_hashes: [value] })).toBe(bad);
    expect(fieldRefusal({ ...fields, block_hashes: [1, 2, value] })).toBe(bad);
  });

  test("an integer beyond 64 bits is no hash", () => {
    for (const value of [1n << 64n, -(1n << 63n) - 1n, 2 ** 53]) {
      expect(largeRefusal({ block_hashes: [value] })).toBe(
        "hash_invalid at events[0].block_hashes",
      );
    }
  });

  test("bytes at the limit are a hash", () => {
    const value = new Uint8Array(LIMITS.hashBytes.value);
    expect(storeOf(namedStore({ block_hashes: [value] })).hashes[0]?.length).toBe(32);
  });

  test("integers and bytes are not mixed, the parent included", () => {
    const mixed = { token_ids: tokens(8), block_hashes: [1, digest(1)] };
    expect(fieldRefusal(mixed)).toBe("hashes_mixed at events[0].block_hashes");
    expect(fieldRefusal({ ...mixed, block_hashes: [digest(1), 1] })).toContain("hashes_mixed");
    expect(fieldRefusal({ parent_block_hash: digest(1) })).toBe(
      "hashes_mixed at events[0].parent_block_hash",
    );
    expect(fieldRefusal({ block_hashes: [digest(1)], parent_block_hash: 1 })).toContain(
      "hashes_mixed",
    );
  });

  test("a hash stands once in a store, in whatever width", () => {
    const bad = "hash_repeated at events[0].block_hashes";
    const fields = { token_ids: tokens(12) };
    expect(fieldRefusal({ ...fields, block_hashes: [1, 2, 1n] })).toBe(bad);
    expect(fieldRefusal({ ...fields, block_hashes: [-1, (1n << 64n) - 1n] })).toBe(bad);
    expect(fieldRefusal({ ...fields, block_hashes: [digest(1), digest(1)] })).toBe(bad);
  });

  test("hashes at the limit are read, one more is refused", () => {
    const limit = LIMITS.hashesPerEvent.value;
    const list = tokens(limit + 1);
    const fields = { token_ids: [], block_size: 0 };
    expect(largeRefusal({ ...fields, block_hashes: list.slice(1) })).toBe("");
    expect(largeRefusal({ ...fields, block_hashes: list })).toBe(
      "too_many_hashes at events[0].block_hashes",
    );
  });
});

describe("parent", () => {
  test.each([
    ["a float", 1.5],
    ["a boolean", false],
    ["a text", ""],
    ["a list", [1]],
    ["empty bytes", new Uint8Array(0)],
  ])("%s is no parent", (_name, value) => {
    expect(fieldRefusal({ parent_block_hash: value })).toBe(
      "parent_invalid at events[0].parent_block_hash",
    );
  });

  test("an absent parent is unknown, and an unknown parent is no root", () => {
    expect(refusal(without(namedStore(), "parent_block_hash"))).toBe(
      "parent_invalid at events[0].parent_block_hash",
    );
  });

  test("a store is not its own parent, in whatever width", () => {
    const bad = "parent_is_own_hash at events[0].parent_block_hash";
    expect(fieldRefusal({ parent_block_hash: 1 })).toBe(bad);
    expect(fieldRefusal({ parent_block_hash: 1n })).toBe(bad);
    const fields = { block_hashes: [5, 6, 7], token_ids: tokens(12), parent_block_hash: 7 };
    expect(fieldRefusal(fields)).toBe(bad);
  });
});

describe("tokens and block size", () => {
  test.each([
    ["a float", 1.5],
    ["a negative", -1],
    ["2^32", 2 ** 32],
    ["2^53 + 1", (1n << 53n) + 1n],
    ["2^64 − 1", (1n << 64n) - 1n],
    ["a boolean", true],
    ["nil", null],
    ["a text", "7"],
    ["a list", [7]],
  ])("%s is no token", (_name, value) => {
    expect(fieldRefusal({ token_ids: [1, 2, 3, value] })).toBe(
      "tokens_invalid at events[0].token_ids",
    );
  });

  test.each([
    ["a number", 7],
    ["a text", "1234"],
    ["bytes", digest(1)],
    ["a map", { 0: 1 }],
  ])("%s is no list of tokens", (_name, value) => {
    expect(fieldRefusal({ token_ids: value })).toBe("tokens_invalid at events[0].token_ids");
  });

  test("tokens at the limit are read, one more is refused", () => {
    const limit = LIMITS.tokensPerEvent.value;
    const list = new Array<number>(limit + 1).fill(7);
    expect(largeRefusal({ token_ids: list.slice(1), block_size: 16 })).toBe("");
    expect(largeRefusal({ token_ids: list, block_size: 1 })).toBe(
      "too_many_tokens at events[0].token_ids",
    );
  });

  test.each([
    ["nil", null],
    ["negative", -4],
    ["a float", 4.5],
    ["a boolean", true],
    ["a text", "4"],
    ["2^32", 2 ** 32],
    ["2^64 − 1", (1n << 64n) - 1n],
    ["0 beside tokens", 0],
  ])("a block size that is %s", (_name, value) => {
    expect(fieldRefusal({ block_size: value })).toBe("block_size_invalid at events[0].block_size");
  });

  test("an absent block size", () => {
    expect(refusal(without(namedStore(), "block_size"))).toBe(
      "block_size_invalid at events[0].block_size",
    );
  });

  test.each([
    ["two hashes in one block's tokens", { block_hashes: [1, 2] }],
    ["half a block", { token_ids: [1, 2] }],
    ["a block and a half", { token_ids: tokens(6) }],
    ["one token too many per event (field case B9)", { token_ids: tokens(5) }],
    ["one token too many per chunk", { token_ids: tokens(257), block_size: 256 }],
    ["a block size of 2^31", { block_size: 2 ** 31 }],
    ["tokens of no whole block and no hash", { block_hashes: [], token_ids: tokens(3) }],
  ])("%s do not go together", (_name, fields) => {
    expect(fieldRefusal(fields)).toBe("tokens_misaligned at events[0].token_ids");
  });
});

describe("look-ahead tokens", () => {
  const two = { block_hashes: [1, 2], token_ids: tokens(8) };
  test.each([
    ["too few lists", [[5]]],
    ["too many lists", [[5], [6], [7]]],
    ["lists of two lengths", [[5], [6, 7]]],
    ["a list and nil", [[5], null]],
    ["nil and a list", [null, [5]]],
    ["numbers", [5, 6]],
    ["a negative token", [[5], [-6]]],
    ["a boolean token", [[5], [true]]],
    ["a text", "56"],
    ["a map", { 0: [5] }],
  ])("%s", (_name, value) => {
    expect(fieldRefusal({ ...two, lookahead_token_ids: value })).toBe(
      "lookahead_invalid at events[0].lookahead_token_ids",
    );
  });

  test("lists without a hash", () => {
    const empty = { block_hashes: [], lookahead_token_ids: [[5]] };
    expect(fieldRefusal(empty)).toContain("lookahead_invalid");
  });

  test("more look-ahead tokens than an event may hold are refused unread", () => {
    const half = new Array<number>(LIMITS.tokensPerEvent.value / 2 + 1).fill(7);
    expect(largeRefusal({ ...two, lookahead_token_ids: [half, half] })).toBe(
      "too_many_tokens at events[0].lookahead_token_ids",
    );
  });
});

describe("LoRA", () => {
  test.each([
    ["a float", 1.5],
    ["a boolean", true],
    ["a text", "3"],
    ["2^63", 1n << 63n],
  ])("%s is no LoRA number", (_name, value) => {
    expect(fieldRefusal({ lora_id: value })).toBe("lora_invalid at events[0].lora_id");
  });

  test.each([
    ["a number", 3],
    ["a map", { cache_salt: "a" }],
    ["a list", ["a"]],
    ["bytes", digest(1)],
  ])("%s is no LoRA name", (_name, value) => {
    expect(fieldRefusal({ lora_name: value })).toBe("lora_invalid at events[0].lora_name");
  });

  test("an empty name is a name", () => {
    expect(storeOf(namedStore({ lora_name: "" })).loraName).toBe("");
  });
});
