// What a block's hash covers beside tokens: kept, named or opaque, but never lost.
import { LIMITS } from "@kv-group-bridge/protocol";
import { expect, test } from "vitest";
import { eventOf, refusalOf, storeOf } from "../../support/decoded-events.ts";
import { digest, listStore, namedStore, tokens } from "../../support/wire-builder.ts";

const OPAQUE = { type: "opaque" };
const keysOf = (entry: unknown) => storeOf(namedStore({ extra_keys: [entry] })).extraKeys?.[0];
const refusal = (value: unknown): string => refusalOf(eventOf(namedStore({ extra_keys: value })));

test("absent and nil are no extra keys; nil entries are plain blocks", () => {
  expect(storeOf(namedStore()).extraKeys).toBe(undefined);
  expect(storeOf(namedStore({ extra_keys: null })).extraKeys).toBe(undefined);
  const fields = { block_hashes: [1, 2], token_ids: tokens(8), extra_keys: [null, ["salt"]] };
  expect(storeOf(namedStore(fields)).extraKeys).toEqual([
    undefined,
    [{ type: "text", value: "salt" }],
  ]);
});

test("an image with its offset (0.19.0) and without (0.17.0, 0.18)", () => {
  const fields = { block_hashes: [1, 2], token_ids: tokens(8) };
  const offset = listStore({ ...fields, extra_keys: [null, [["mm-id", -5]]] }, 9);
  expect(storeOf(offset).extraKeys?.[1]).toEqual([
    { type: "item", identifier: "mm-id", offset: -5 },
  ]);
  const bare = listStore({ ...fields, extra_keys: [null, [["mm-id"]]] }, 9);
  expect(storeOf(bare).extraKeys?.[1]).toEqual([
    { type: "item", identifier: "mm-id", offset: undefined },
  ]);
});

test("texts, images and bytes in one block keep their order", () => {
  expect(keysOf(["lora", ["img", -5], "salt", digest(1)])).toEqual([
    { type: "text", value: "lora" },
    { type: "item", identifier: "img", offset: -5 },
    { type: "text", value: "salt" },
    OPAQUE,
  ]);
});

test.each([
  ["nil", null],
  ["a number", 7],
  ["a boolean", true],
  ["bytes", digest(1)],
  ["a map", { type: "lora" }],
  ["an empty list", []],
  ["a list of three", ["img", 1, 2]],
  ["an offset that is a float", ["img", 1.5]],
  ["an offset that is a text", ["img", "1"]],
  ["an offset beyond 2^53", ["img", 1n << 60n]],
  ["an identifier that is a number", [7, 1]],
  ["a tagged key", ["lora", "name", "path"]],
  ["a deep structure", [["img", 1]]],
])("%s is opaque, and the block with it", (_name, element) => {
  expect(keysOf([element])).toEqual([OPAQUE]);
  expect(keysOf(["salt", element])).toEqual([{ type: "text", value: "salt" }, OPAQUE]);
});

test("an entry that is there but empty is not plain", () => {
  expect(keysOf([])).toEqual([OPAQUE]);
});

test("keys of a block at the limit are kept, one more makes the block opaque", () => {
  const limit = LIMITS.extraKeysPerBlock.value;
  const keys = Array.from({ length: limit + 1 }, (_, i) => [`img-${i}`, i]);
  expect(keysOf(keys.slice(1))?.length).toBe(limit);
  expect(keysOf(keys)).toEqual([OPAQUE]);
});

test("a text at the limit is kept, one character more refuses the store", () => {
  const text = "s".repeat(LIMITS.textBytes.value);
  expect(keysOf([text])?.length).toBe(1);
  const tooLong = "text_too_long at events[0].extra_keys";
  expect(refusal([[`${text}s`]])).toBe(tooLong);
  expect(refusal([[[`${text}s`, 0]]])).toBe(tooLong);
});

test.each([
  ["fewer entries than hashes", []],
  ["more entries than hashes", [null, null]],
  ["a text", "a"],
  ["a map", { cache_salt: "a" }],
  ["a number", 1],
  ["a text for an entry", ["salt"]],
  ["a number for an entry", [7]],
  ["a map for an entry", [{}]],
])("%s refuses the store", (_name, value) => {
  expect(refusal(value)).toBe("extra_keys_invalid at events[0].extra_keys");
});
