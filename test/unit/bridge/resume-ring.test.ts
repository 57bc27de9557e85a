import { expect, test } from "vitest";
import { FieldItem } from "../../../src/bridge/dist/field-item.js";
import {
  ResumeRing,
  type ResumeRingOptions,
  RING_ITEM_OVERHEAD_BYTES,
  RING_MESSAGE_OVERHEAD_BYTES,
  type RingItem,
} from "../../../src/bridge/dist/resume-ring.js";
import { LIMITS, parseSequenceNumber } from "../../../src/protocol/dist/index.js";

function number(n: number) {
  const sequence = parseSequenceNumber(BigInt(n));
  if (sequence === undefined) throw new TypeError("a small number is one");
  return sequence;
}

/** A ring whose items are told by a name. */
class Bench {
  readonly ring: ResumeRing;
  readonly #names = new Map<RingItem["key"], string>();

  constructor(options: Partial<ResumeRingOptions> = {}) {
    const maxBytes = LIMITS.resumeRingBytes.value;
    this.ring = new ResumeRing({
      maxBytes,
      maxBatches: LIMITS.resumeRingBatches.value,
      ...options,
    });
  }

  batch(n: number, bytes = 10, engineBytes?: number): void {
    const key = new FieldItem(3, new Uint8Array(bytes));
    this.#names.set(key, `b${n}`);
    const engine =
      engineBytes === undefined ? undefined : new FieldItem(3, new Uint8Array(engineBytes));
    this.ring.pushBatch(number(n), { key, engine });
    this.ring.audit();
  }

  withdraw(name: string, bytes = 10): void {
    const key = new FieldItem(4, new Uint8Array(bytes));
    this.#names.set(key, name);
    this.ring.pushWithdrawal({ key, engine: key });
    this.ring.audit();
  }

  since(n: number | undefined): string | undefined {
    const items = this.ring.since(n === undefined ? undefined : number(n));
    return items?.map(({ key }) => this.#names.get(key)).join(" ");
  }
}

test("everything since the begin of an epoch is there, before and after the first batch", () => {
  const bench = new Bench();
  expect(bench.since(undefined)).toBe("");
  bench.batch(0);
  bench.batch(1);
  expect(bench.since(undefined)).toBe("b0 b1");
  expect(bench.since(0)).toBe("b1");
  expect(bench.since(1)).toBe("");
});

test("a batch that was never said is no place to go on from", () => {
  const bench = new Bench();
  expect(bench.since(0)).toBeUndefined();
  for (const n of [5, 6, 7]) bench.batch(n);
  for (const n of [0, 4, 8, 1000]) expect(bench.since(n), String(n)).toBeUndefined();
  expect(bench.since(5)).toBe("b6 b7");
});

test("a withdrawal goes to all who have no later batch, and only to them", () => {
  const bench = new Bench();
  bench.withdraw("w-");
  bench.batch(0);
  bench.withdraw("w0");
  bench.withdraw("v0");
  bench.batch(1);
  bench.withdraw("w1");
  expect(bench.since(undefined)).toBe("w- b0 w0 v0 b1 w1");
  expect(bench.since(0)).toBe("w0 v0 b1 w1");
  expect(bench.since(1)).toBe("w1");
});

test("a new epoch is empty, and nothing of it is missing", () => {
  const bench = new Bench({ begin: number(9) });
  bench.batch(10);
  bench.ring.beginEpoch();
  expect(bench.since(10)).toBeUndefined();
  expect(bench.since(9)).toBeUndefined();
  expect(bench.since(undefined)).toBe("");
  expect([bench.ring.bytes, bench.ring.batches]).toEqual([0, 0]);
  bench.batch(0);
  expect(bench.since(undefined)).toBe("b0");
});

test("a ring that began at a checkpoint goes on from there, not from before", () => {
  const bench = new Bench({ begin: number(41) });
  expect(bench.since(41)).toBe("");
  bench.withdraw("w41");
  bench.batch(42);
  expect(bench.since(41)).toBe("w41 b42");
  expect(bench.since(40)).toBeUndefined();
  expect(bench.since(undefined)).toBeUndefined();
});

test("at the bound of batches the oldest leaves with what came before it", () => {
  const bench = new Bench({ maxBatches: 3 });
  bench.withdraw("w-");
  for (let n = 0; n < 3; n++) bench.batch(n);
  expect(bench.since(undefined)).toBe("w- b0 b1 b2");
  bench.batch(3);
  expect(bench.ring.batches).toBe(3);
  expect(bench.since(undefined)).toBeUndefined();
  expect(bench.since(0)).toBe("b1 b2 b3");
  for (let n = 4; n < 1000; n++) bench.batch(n);
  expect(bench.since(995)).toBeUndefined();
  expect(bench.since(996)).toBe("b997 b998 b999");
});

test("bytes are counted with both projections and the overhead, up to the bound and no further", () => {
  const cost = RING_ITEM_OVERHEAD_BYTES + 11 + 21 + 2 * RING_MESSAGE_OVERHEAD_BYTES;
  const bench = new Bench({ maxBytes: 3 * cost });
  for (let n = 0; n < 3; n++) bench.batch(n, 10, 20);
  expect(bench.ring.bytes).toBe(3 * cost);
  expect(bench.since(undefined)).toBe("b0 b1 b2");
  bench.batch(3, 10, 20);
  expect(bench.ring.bytes).toBe(3 * cost);
  expect(bench.since(undefined)).toBeUndefined();
  expect(bench.since(0)).toBe("b1 b2 b3");
});

test("a batch larger than the ring leaves it empty, and whoever has it goes on", () => {
  const bench = new Bench({ maxBytes: 1500 });
  bench.batch(0);
  bench.batch(1, 20_000);
  expect(bench.ring.bytes).toBe(0);
  expect(bench.since(0)).toBeUndefined();
  expect(bench.since(1)).toBe("");
  bench.batch(2);
  expect(bench.since(1)).toBe("b2");
});

// A withdrawal that nobody can be told any more would leave views too high.
test("a lost withdrawal stops everybody until the next batch", () => {
  const bench = new Bench({ maxBytes: 1500 });
  bench.batch(0);
  bench.withdraw("w0", 20_000);
  for (const n of [undefined, 0]) expect(bench.since(n)).toBeUndefined();
  bench.withdraw("v0");
  expect(bench.since(0)).toBeUndefined();
  bench.batch(1);
  expect(bench.since(0)).toBeUndefined();
  expect(bench.since(1)).toBe("");
  bench.batch(2);
  expect(bench.since(1)).toBe("b2");
  bench.withdraw("w2", 20_000);
  bench.ring.beginEpoch();
  expect(bench.since(undefined)).toBe("");
});

test("a ring without room serves those who have everything", () => {
  for (const options of [{ maxBytes: 0 }, { maxBatches: 0 }]) {
    const bench = new Bench(options);
    bench.batch(0);
    bench.batch(1);
    expect(bench.since(0)).toBeUndefined();
    expect(bench.since(1)).toBe("");
  }
});
