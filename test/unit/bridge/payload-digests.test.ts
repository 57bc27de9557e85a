import { describe, expect, test } from "vitest";
import { PayloadDigests } from "../../../src/bridge/dist/payload-digests.js";
import { parseSequenceNumber, type SequenceNumber } from "../../../src/protocol/dist/index.js";

function sequence(value: number): SequenceNumber {
  const parsed = parseSequenceNumber(BigInt(value));
  if (parsed === undefined) throw new RangeError("not a sequence number");
  return parsed;
}

function filled(limit: number, ...numbers: readonly number[]): PayloadDigests {
  const digests = new PayloadDigests(limit);
  for (const number of numbers) digests.add(sequence(number), `digest ${number}`);
  return digests;
}

describe("digests of delivered payloads", () => {
  test("what was delivered under a number is known, with holes between numbers too", () => {
    const digests = filled(10, 3, 4, 9, 20);
    for (const number of [3, 4, 9, 20]) {
      expect(digests.compare(sequence(number), `digest ${number}`)).toBe("equal");
      expect(digests.compare(sequence(number), "another")).toBe("differs");
    }
    for (const number of [0, 2, 5, 8, 10, 21]) {
      expect(digests.compare(sequence(number), `digest ${number}`)).toBe("unknown");
    }
  });

  test("the oldest one goes at the limit, round after round", () => {
    const digests = new PayloadDigests(4);
    for (let number = 0; number < 30; number++) {
      digests.add(sequence(number), `digest ${number}`);
      const first = Math.max(0, number - 3);
      const kept = Array.from({ length: number - first + 1 }, (_, index) => first + index);
      expect(digests.entries()).toEqual(kept.map((one) => [BigInt(one), `digest ${one}`]));
      for (const one of kept) expect(digests.compare(sequence(one), `digest ${one}`)).toBe("equal");
      if (first > 0) expect(digests.compare(sequence(first - 1), "any")).toBe("unknown");
    }
  });

  test("a number that does not grow is of another process: what was known is void", () => {
    const digests = filled(4, 1, 2, 3, 4, 5, 6);
    digests.add(sequence(6), "again");
    expect(digests.entries()).toEqual([[6n, "again"]]);
    digests.add(sequence(7), "next");
    expect(digests.compare(sequence(5), "digest 5")).toBe("unknown");
    expect(digests.compare(sequence(7), "next")).toBe("equal");
    digests.clear();
    expect(digests.entries()).toEqual([]);
    digests.add(sequence(0), "first");
    expect(digests.compare(sequence(0), "first")).toBe("equal");
  });
});
