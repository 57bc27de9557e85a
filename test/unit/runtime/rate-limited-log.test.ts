/**
 * What it is: tests of the rate-limited log, driven to its bound of keys.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: wait.
 */
import { describe, expect, test } from "vitest";
import {
  InvariantViolation,
  type LogFields,
  RateLimitedLog,
  silentLog,
} from "../../../src/runtime/dist/index.js";

function limited(maxKeys: number) {
  const lines: LogFields[] = [];
  const log = { ...silentLog, warn: (fields: LogFields) => void lines.push(fields) };
  return { lines, log: new RateLimitedLog({ log, intervalMs: 100, maxKeys }) };
}

describe("RateLimitedLog", () => {
  test("one line per key and interval; the next one tells how many were left out", () => {
    const { lines, log } = limited(8);
    expect(log.warn("a", 0, { n: 0 }, "x")).toBe(true);
    for (let t = 1; t < 100; t++) expect(log.warn("a", t, { n: t }, "x")).toBe(false);
    expect(log.warn("b", 50, { n: 50 }, "x")).toBe(true);
    expect(log.warn("a", 100, { n: 100 }, "x")).toBe(true);
    expect(log.warn("a", 200, { n: 200 }, "x")).toBe(true);
    expect(lines).toEqual([{ n: 0 }, { n: 50 }, { n: 100, suppressed: 99 }, { n: 200 }]);
    expect(log.suppressedTotal).toBe(99);
  });

  test("hostile keys cost at most maxKeys + 1 lines an interval and no memory", () => {
    const { lines, log } = limited(4);
    for (let i = 0; i < 10_000; i++) log.warn(`key ${i}`, i / 1_000, {}, "x");
    expect(lines).toHaveLength(5);
    expect(log.keyCount).toBe(4);
    expect(log.suppressedTotal).toBe(9_995);
  });

  test("a key whose interval is over makes room; what it left out is told by another", () => {
    const { lines, log } = limited(1);
    log.warn("a", 0, {}, "x");
    log.warn("a", 1, {}, "x");
    log.warn("b", 150, { b: 1 }, "x");
    log.warn("c", 160, { c: 1 }, "x");
    expect(lines).toEqual([{}, { b: 1 }, { c: 1, suppressed: 1 }]);
    expect(log.keyCount).toBe(1);
  });

  test("a bound of none is our bug", () => {
    const make = (intervalMs: number, maxKeys: number) => () =>
      new RateLimitedLog({ log: silentLog, intervalMs, maxKeys });
    expect(make(0, 1)).toThrow(InvariantViolation);
    expect(make(1, 0)).toThrow(InvariantViolation);
  });
});
