/**
 * What it is: tests of the branded identifiers: what each of them takes, at its edges.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: use them.
 */
import { describe, expect, test } from "vitest";
import {
  blockHashBytes,
  isUint32,
  parseByteHash,
  parseDpRank,
  parseEpoch,
  parseGroupId,
  parseIntegerHash,
  parseSequenceFrame,
  parseSequenceNumber,
} from "../../../src/protocol/dist/index.js";

/** The bytes of a hash in hexadecimal; undefined = refused. */
function hex(hash: ReturnType<typeof parseIntegerHash>): string | undefined {
  return hash === undefined ? undefined : Buffer.from(blockHashBytes(hash)).toString("hex");
}

const NOT_UINT32 = [
  -1,
  -0,
  0.5,
  2 ** 32,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  1n,
  "1",
  null,
  undefined,
  [],
  true,
];

describe("uint32", () => {
  test.each([0, 1, 2 ** 31, 2 ** 32 - 1])("%s is one, and a group id and a rank", (value) => {
    expect(isUint32(value)).toBe(true);
    expect(parseGroupId(value)).toBe(value);
    expect(parseDpRank(value)).toBe(value);
  });

  test.each(NOT_UINT32.map((value) => [value]))("%s is none", (value) => {
    expect(isUint32(value)).toBe(false);
    expect(parseGroupId(value)).toBeUndefined();
    expect(parseDpRank(value)).toBeUndefined();
  });
});

describe("64-bit numbers", () => {
  test("a sequence number is 0 to 2^64 - 1", () => {
    expect(parseSequenceNumber(0n)).toBe(0n);
    expect(parseSequenceNumber((1n << 64n) - 1n)).toBe((1n << 64n) - 1n);
    expect(parseSequenceNumber(-1n)).toBeUndefined();
    expect(parseSequenceNumber(1n << 64n)).toBeUndefined();
  });

  test("an epoch is never 0", () => {
    expect(parseEpoch(0n)).toBeUndefined();
    expect(parseEpoch(1n)).toBe(1n);
    expect(parseEpoch((1n << 64n) - 1n)).toBe((1n << 64n) - 1n);
    expect(parseEpoch(1n << 64n)).toBeUndefined();
  });

  test("a sequence frame has 8 bytes, big-endian, wherever it lies in its buffer", () => {
    const buffer = Uint8Array.from([9, 9, 9, 0x80, 0, 0, 0, 0, 0, 1, 2, 9]);
    expect(parseSequenceFrame(buffer.subarray(3, 11))).toBe(0x8000000000000102n);
    expect(parseSequenceFrame(new Uint8Array(8).fill(255))).toBe((1n << 64n) - 1n);
    for (const length of [0, 4, 7, 9, 16]) {
      expect(parseSequenceFrame(new Uint8Array(length))).toBeUndefined();
    }
  });
});

describe("integer hashes", () => {
  test.each([
    [0, "0000000000000000"],
    [1, "0000000000000001"],
    [2 ** 32 - 1, "00000000ffffffff"],
    [2 ** 32, "0000000100000000"],
    [Number.MAX_SAFE_INTEGER, "001fffffffffffff"],
    [-1, "ffffffffffffffff"],
    [-(2 ** 32) - 1, "fffffffeffffffff"],
    [Number.MIN_SAFE_INTEGER, "ffe0000000000001"],
  ])("%d has one identity as number and as bigint", (value, expected) => {
    expect(hex(parseIntegerHash(value))).toBe(expected);
    expect(hex(parseIntegerHash(BigInt(value)))).toBe(expected);
  });

  test("all 64 bits are exact, and signed and unsigned names of the same bits are one", () => {
    expect(hex(parseIntegerHash((1n << 64n) - 3n))).toBe("fffffffffffffffd");
    expect(parseIntegerHash(-3n)).toBe(parseIntegerHash((1n << 64n) - 3n));
    expect(hex(parseIntegerHash(-(1n << 63n)))).toBe("8000000000000000");
    expect(hex(parseIntegerHash(0x0123456789abcdefn))).toBe("0123456789abcdef");
  });

  test.each([
    1n << 64n,
    -(1n << 63n) - 1n,
    2 ** 53,
    -(2 ** 53),
    0.5,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ])("%s is refused, not rounded or clamped", (value) => {
    expect(parseIntegerHash(value)).toBeUndefined();
  });
});

describe("byte hashes", () => {
  const limits = { digestBytes: 32, maxBytes: 128 };
  const digest = (from: number, length = 32) => Uint8Array.from({ length }, (_, i) => from + i);

  test("one digest is its own identity, byte for byte", () => {
    const all = Uint8Array.from({ length: 256 }, (_, i) => i);
    const hash = parseByteHash(all, { digestBytes: 256, maxBytes: 256 });
    expect(hash === undefined ? undefined : blockHashBytes(hash)).toEqual(all);
  });

  test("of several joined digests the last one is the identity", () => {
    const joined = Buffer.concat([digest(0), digest(50), digest(100)]);
    expect(parseByteHash(joined, limits)).toBe(parseByteHash(digest(100), limits));
  });

  test("another length is kept whole: it is no list of digests", () => {
    expect(parseByteHash(digest(0, 40), limits)).toHaveLength(40);
    expect(parseByteHash(digest(0, 16), limits)).toHaveLength(16);
  });

  test("8 bytes are the least and maxBytes the most", () => {
    expect(parseByteHash(digest(0, 7), limits)).toBeUndefined();
    expect(parseByteHash(digest(0, 8), limits)).toHaveLength(8);
    expect(parseByteHash(digest(0, 128), limits)).toHaveLength(32);
    expect(parseByteHash(digest(0, 129), limits)).toBeUndefined();
  });

  test("8 bytes name the same block as the integer of the same bits", () => {
    const bytes = Uint8Array.from([0xff, 0, 1, 2, 3, 4, 5, 6]);
    expect(parseByteHash(bytes, limits)).toBe(parseIntegerHash(0xff00010203040506n));
  });
});
