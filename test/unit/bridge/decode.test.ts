import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { decodePayload, ODD_NAME } from "../../../src/bridge/dist/decode.js";
import { encodeWire, encodeWith, raw } from "../../support/wire-builder.ts";

const MALFORMED = { ok: false, error: { reason: "payload_malformed", path: "payload" } };
const bytes = (...values: readonly number[]): Uint8Array => new Uint8Array(values);
const repeat = (count: number, ...values: readonly number[]): number[] =>
  Array.from({ length: count }, () => values).flat();

describe("values", () => {
  test("every width of an integer is exact", () => {
    const values = [0, 127, -1, -32, 255, 65535, 4294967295, -128, -32768, -2147483648];
    expect(decodePayload(encodeWire(values))).toEqual({ ok: true, value: values });
    const wide = [(1n << 53n) + 1n, (1n << 64n) - 1n, -(1n << 63n)];
    expect(decodePayload(encodeWire(wide))).toEqual({ ok: true, value: wide });
  });

  test("nil, booleans, texts, bytes and containers of every header come back as they are", () => {
    const value = [
      null,
      true,
      false,
      "",
      "a",
      "ü".repeat(20),
      "x".repeat(300),
      "y".repeat(70_000),
      new Uint8Array(3),
      new Uint8Array(300),
      new Uint8Array(70_000),
      [],
      Array(15).fill(0),
      Array(16).fill(0),
      Array(70_000).fill(0),
      {},
      { a: { b: 1 } },
      Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, i])),
      Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, 0])),
    ];
    expect(decodePayload(encodeWire(value))).toEqual({ ok: true, value });
  });

  test("of two equal names in one map the last value counts", () => {
    const result = decodePayload(bytes(0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2));
    expect(result).toEqual({ ok: true, value: { a: 2 } });
  });
});

describe("unsound structure is refused", () => {
  test.each([
    ["nothing at all", bytes()],
    ["a byte that msgpack does not use", bytes(0x91, 0xc1)],
    ["two values", bytes(0x01, 0x02)],
    ["trailing garbage", bytes(...encodeWire([1, []]), 0xff)],
    ["a list with a missing element", bytes(0x93, 1, 2)],
    ["a map with a missing value", bytes(0x81, 0xa1, 0x61)],
    ["an integer cut short", bytes(0xcf, 0, 0, 0)],
    ["a float cut short", bytes(0xcb, 0)],
    ["a string cut short", bytes(0xa5, 0x61)],
    ["a string header cut short", bytes(0xdb, 0, 0)],
    ["bytes cut short", bytes(0xc4, 200, 1)],
    ["a list header cut short", bytes(0xdd, 0, 0)],
    ["an extension for a batch", bytes(0xd4, 1, 2)],
    ["text that is not UTF-8 in the batch's own list", bytes(0x92, 0xa1, 0xff, 0x90)],
    ["a name that is not UTF-8 in a batch map", bytes(0x81, 0xa1, 0xff, 0x90)],
  ])("%s", (_name, input) => {
    expect(decodePayload(input)).toEqual(MALFORMED);
  });

  test("every proper prefix of a good payload", () => {
    const good = encodeWire([1.5, [{ type: "BlockStored", token_ids: [1, 300, 70_000] }], 0]);
    for (let size = 0; size < good.length; size++) {
      expect(decodePayload(good.subarray(0, size))).toEqual(MALFORMED);
    }
  });
});

describe("bombs are refused before anything is allocated", () => {
  test.each([
    ["lists of ten million, nested", bytes(...repeat(5, 0xdd, 0x00, 0x98, 0x96, 0x80))],
    ["lists of 2^32 − 1, nested", bytes(...repeat(20, 0xdd, 0xff, 0xff, 0xff, 0xff))],
    ["lists of 65,535, nested 2,000 deep", bytes(...repeat(2000, 0xdc, 0xff, 0xff))],
    ["maps of 2^32 − 1 pairs", bytes(0xdf, 0xff, 0xff, 0xff, 0xff, ...repeat(99, 0))],
    ["bytes of 4 GB", bytes(0xc6, 0xff, 0xff, 0xff, 0xff)],
    ["an extension of 4 GB", bytes(0xc9, 0xff, 0xff, 0xff, 0xff, 1)],
    ["a million lists of one, nested", new Uint8Array(1_000_000).fill(0x91)],
    ["a million maps, nested", new Uint8Array(1_000_000).fill(0x81)],
  ])("%s", (_name, input) => {
    const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed;
    expect(decodePayload(input)).toEqual(MALFORMED);
    const after = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed;
    expect(after - before).toBeLessThan(50_000_000);
  });

  test("nesting at the limit is read, one level more is not", () => {
    const nested = (depth: number) => bytes(...repeat(depth - 1, 0x91), 0x90);
    expect(decodePayload(nested(LIMITS.nestingDepth.value)).ok).toBe(true);
    expect(decodePayload(nested(LIMITS.nestingDepth.value + 1))).toEqual(MALFORMED);
  });

  test("a payload of nothing but containers, or of more values than any batch has", () => {
    const list = (count: number, element: number) => {
      const input = new Uint8Array(5 + count).fill(element);
      input[0] = 0xdd;
      new DataView(input.buffer).setUint32(1, count);
      return input;
    };
    expect(decodePayload(list(2_000_000, 0x80))).toEqual(MALFORMED);
    expect(decodePayload(list(17_000_000, 0x00))).toEqual(MALFORMED);
  });

  test("a payload beyond the limit of bytes", () => {
    const result = decodePayload(new Uint8Array(LIMITS.payloadBytes.value + 1));
    expect(result).toEqual({ ok: false, error: { reason: "payload_too_large", path: "payload" } });
  });
});

describe("odd values inside events cost nothing around them", () => {
  const oddity = (...piece: readonly number[]): unknown => {
    const input = encodeWith([1.5, [[raw(0), "after"]]], piece);
    const copy = Uint8Array.from(input);
    const result = decodePayload(input);
    expect(input).toEqual(copy);
    const value = result.ok ? result.value : undefined;
    expect(value).toMatchObject([1.5, [[expect.anything(), "after"]]]);
    return (value as readonly (readonly (readonly unknown[])[])[])[1]?.[0]?.[0];
  };

  test.each([
    ["a string of one bad byte", [0xa1, 0xff]],
    ["an overlong encoding", [0xa2, 0xc0, 0x80]],
    ["a lone surrogate", [0xa3, 0xed, 0xa0, 0x80]],
    ["a long fixstr", [0xbf, ...repeat(31, 0xff)]],
    ["a str 8", [0xd9, 40, ...repeat(40, 0xfe)]],
    ["a str 16", [0xda, 1, 0, ...repeat(256, 0xfe)]],
    ["a str 32", [0xdb, 0, 0, 0, 1, 0xfe]],
    ["an extension of one byte", [0xd4, 5, 0]],
    ["an extension of 16 bytes", [0xd8, 5, ...repeat(16, 0)]],
    ["an extension of no bytes", [0xc7, 0, 5]],
    ["a timestamp", [0xd6, 0xff, 0, 0, 0, 0]],
    ["a large extension", [0xc8, 1, 0, 5, ...repeat(256, 0)]],
    ["a float that is an integer", [0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]],
    ["a short float", [0xca, 0x3f, 0x80, 0, 0]],
  ])("%s becomes a list that begins with true", (_name, piece) => {
    const value = oddity(...piece);
    expect(Array.isArray(value) && value[0] === true).toBe(true);
  });

  test.each([
    ["a number", [0x07]],
    ["nil", [0xc0]],
    ["bytes", [0xc4, 1, 0x61]],
    ["a list", [0x91, 0x01]],
    ["a string that is not UTF-8", [0xa2, 0xff, 0xff]],
    ["__proto__", [0xa9, ...Buffer.from("__proto__")]],
  ])("%s as a name is kept under the odd name", (_name, piece) => {
    // A map of one pair is written by hand: 0x81, name, 5.
    const result = decodePayload(encodeWith([1.5, [raw(0)]], [0x81, ...piece, 0x05]));
    expect(result).toEqual({ ok: true, value: [1.5, [{ [ODD_NAME]: 5 }]] });
  });

  test("a float at the batch's own level is a float", () => {
    expect(decodePayload(bytes(0x92, 0xca, 0x3f, 0x80, 0, 0, 0x90))).toEqual({
      ok: true,
      value: [1, []],
    });
  });
});
