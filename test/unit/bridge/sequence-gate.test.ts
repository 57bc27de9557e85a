import { describe, expect, test } from "vitest";
import { SequenceGate } from "../../../src/bridge/dist/sequence-gate.js";
import { parseSequenceNumber, type SequenceNumber } from "../../../src/protocol/dist/index.js";

function seq(value: number): SequenceNumber {
  const parsed = parseSequenceNumber(BigInt(value));
  if (parsed === undefined) throw new RangeError("not a sequence number");
  return parsed;
}

describe("the gate judges the order of batches", () => {
  test("a first batch is delivered whatever its number", () => {
    expect(new SequenceGate(4).step(seq(7), "a").type).toBe("deliver");
    expect(new SequenceGate(4).step(seq(0), "a").type).toBe("deliver");
  });

  test("the successor is delivered and moves the gate", () => {
    const gate = new SequenceGate(4);
    gate.step(seq(0), "a");
    expect(gate.step(seq(1), "b").type).toBe("deliver");
    expect(gate.last).toBe(1n);
  });

  test("the same number with the same bytes is a duplicate and moves nothing", () => {
    const gate = new SequenceGate(4);
    gate.step(seq(0), "a");
    gate.step(seq(1), "b");
    expect(gate.step(seq(1), "b").type).toBe("duplicate");
    expect(gate.step(seq(0), "a").type).toBe("duplicate");
    expect(gate.last).toBe(1n);
  });

  test("the same number with other bytes is another engine", () => {
    const gate = new SequenceGate(4);
    gate.step(seq(0), "a");
    gate.step(seq(1), "b");
    expect(gate.step(seq(1), "x").type).toBe("restarted");
    expect(gate.step(seq(2), "c").type).toBe("deliver");
  });

  test("a number back to 0 is another engine, and what came before is forgotten", () => {
    const gate = new SequenceGate(4);
    for (let i = 0; i < 3; i++) gate.step(seq(i), `a${i}`);
    expect(gate.step(seq(0), "b0").type).toBe("restarted");
    expect(gate.step(seq(1), "a1").type).toBe("deliver");
  });

  test("a gap is told with the number of batches that are missing", () => {
    const gate = new SequenceGate(4);
    gate.step(seq(3), "a");
    expect(gate.step(seq(7), "b")).toEqual({ type: "lost", missing: 3n });
    expect(gate.last).toBe(7n);
  });

  test("at the bound of digests an older repeat is taken for another engine", () => {
    const gate = new SequenceGate(2);
    for (let i = 0; i < 3; i++) gate.step(seq(i), `a${i}`);
    expect(gate.step(seq(1), "a1").type).toBe("duplicate");
    expect(gate.step(seq(0), "a0").type).toBe("restarted");
  });

  test("numbers beyond 2^53 are exact", () => {
    const gate = new SequenceGate(2);
    const big = parseSequenceNumber(2n ** 64n - 2n);
    const next = parseSequenceNumber(2n ** 64n - 1n);
    if (big === undefined || next === undefined) throw new RangeError("not sequence numbers");
    gate.step(big, "a");
    expect(gate.step(next, "b").type).toBe("deliver");
  });
});
