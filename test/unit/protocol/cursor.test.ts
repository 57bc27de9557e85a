/**
 * What it is: tests of cursors: how places in one history follow each other, and what a view
 * contains.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: decide about gaps.
 */
import { describe, expect, test } from "vitest";
import {
  type Cursor,
  contains,
  type Epoch,
  parseEpoch,
  parseSequenceNumber,
  type SequenceNumber,
  succession,
} from "../../../src/protocol/dist/index.js";

function sequence(value: bigint): SequenceNumber {
  return parseSequenceNumber(value) ?? expect.fail("no sequence number");
}

function epoch(value: bigint): Epoch {
  return parseEpoch(value) ?? expect.fail("no epoch");
}

function at(epochValue: bigint, value: bigint | undefined): Cursor {
  return { epoch: epoch(epochValue), sequence: value === undefined ? undefined : sequence(value) };
}

const TOP = (1n << 64n) - 1n;

describe("succession", () => {
  test.each([
    [undefined, 0n, "first"],
    [undefined, 77n, "first"],
    [0n, 1n, "successor"],
    [2n ** 53n, 2n ** 53n + 1n, "successor"],
    [TOP - 1n, TOP, "successor"],
    [5n, 5n, "repeat"],
    [TOP, TOP, "repeat"],
    [5n, 4n, "older"],
    [TOP, 0n, "older"],
    [5n, 7n, "gap"],
    [0n, TOP, "gap"],
    [2n ** 53n, 2n ** 53n + 2n, "gap"],
  ] as const)("after %s comes %s: %s", (last, next, expected) => {
    expect(succession(last === undefined ? undefined : sequence(last), sequence(next))).toBe(
      expected,
    );
  });
});

describe("contains", () => {
  test.each([
    ["a later place", at(1n, 5n), at(1n, 4n), true],
    ["the same place", at(1n, 5n), at(1n, 5n), true],
    ["an earlier place", at(1n, 4n), at(1n, 5n), false],
    [
      "an epoch of which nothing is there yet, from nothing",
      at(1n, undefined),
      at(1n, undefined),
      true,
    ],
    ["an epoch of which nothing is there yet, from something", at(1n, 0n), at(1n, undefined), true],
    ["something, from nothing", at(1n, undefined), at(1n, 0n), false],
    ["another epoch, even of a lower sequence", at(2n, 9n), at(1n, 1n), false],
    ["another epoch, even of nothing", at(1n, 9n), at(2n, undefined), false],
  ] as const)("%s", (_name, applied, target, expected) => {
    expect(contains(applied, target)).toBe(expected);
  });

  test("it is an order within an epoch: for all small pairs, both ways only when equal", () => {
    const places = [undefined, 0n, 1n, 2n].map((value) => at(1n, value));
    for (const one of places) {
      for (const other of places) {
        const isBoth = contains(one, other) && contains(other, one);
        expect(isBoth).toBe(one.sequence === other.sequence);
        expect(contains(one, other) || contains(other, one)).toBe(true);
      }
    }
  });
});
