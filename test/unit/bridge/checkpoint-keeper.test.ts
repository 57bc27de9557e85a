import { beforeEach, expect, test } from "vitest";
import {
  CheckpointKeeper,
  type CheckpointKeeperOptions,
} from "../../../src/bridge/dist/checkpoint-keeper.js";
import { readCheckpoint } from "../../../src/bridge/dist/checkpoint-reader.js";
import type { CheckpointHead } from "../../../src/bridge/dist/checkpoint-state.js";
import { UNSTATED_ENGINE } from "../../../src/bridge/dist/engine-config.js";
import { KvEventsError, LIMITS, parseSequenceNumber } from "../../../src/protocol/dist/index.js";
import { headOf, PlayedRank } from "../../support/played-rank.ts";
import { span, stored } from "../../support/typed-events.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const INTERVAL_MS = LIMITS.checkpointIntervalMs.value;
const FINAL_MS = LIMITS.checkpointFinalMs.value;

let clock = new VirtualClock();
let rank = new PlayedRank(UNSTATED_ENGINE);
let batches = 0;
let files: Buffer[] = [];
let reports: Readonly<Record<string, unknown>>[] = [];
let fatal: unknown[] = [];
let betweenPieces: (() => void) | undefined;

beforeEach(() => {
  clock = new VirtualClock();
  rank = new PlayedRank(UNSTATED_ENGINE);
  batches = 0;
  files = [];
  reports = [];
  fatal = [];
  betweenPieces = undefined;
});

function batch(): void {
  batches += 1;
  rank.apply([stored([batches], span(batches * 10, batches * 10 + 3))]);
}

function headNow(): CheckpointHead | undefined {
  const last = parseSequenceNumber(BigInt(batches));
  if (last === undefined || batches === 0) return undefined;
  return { ...rank.head(), gate: { last, digests: [[last, "digest"]] } };
}

/** A disk of memory. */
async function toMemory(pieces: AsyncIterable<Uint8Array>): Promise<number> {
  const taken: Uint8Array[] = [];
  for await (const piece of pieces) taken.push(piece);
  const whole = Buffer.concat(taken);
  files.push(whole);
  return whole.length;
}

async function toNowhere(): Promise<number> {
  throw new KvEventsError("checkpoint_failed", "the disk is full");
}

function keeperOf(more: Partial<CheckpointKeeperOptions> = {}): CheckpointKeeper {
  const keeper = new CheckpointKeeper({
    target: { write: toMemory },
    mirror: rank.mirror,
    head: headNow,
    pieceBlocks: 2,
    clock,
    timers: clock,
    report: (_message, fields) => reports.push(fields),
    onFatal: (error) => fatal.push(error),
    giveWay: async () => betweenPieces?.(),
    ...more,
  });
  keeper.start();
  return keeper;
}

/** The last batch in the newest file. */
function lastIn(bytes: Buffer | undefined): bigint | undefined {
  if (bytes === undefined) return undefined;
  const read = readCheckpoint(bytes, {
    fingerprint: headOf().fingerprint,
    dpRank: headOf().dpRank,
  });
  if (!read.ok) return undefined;
  const other = new PlayedRank(UNSTATED_ENGINE);
  read.value.restore(other.mirror);
  other.mirror.audit();
  expect(other.mirror.placed).toBe(Number(read.value.head.gate.last));
  return read.value.head.gate.last;
}

test("writes after an interval, not before, and only when something changed", async () => {
  const keeper = keeperOf();
  for (let i = 0; i < 7; i++) batch();
  clock.advance(INTERVAL_MS - 1);
  expect(files).toHaveLength(0);
  clock.advance(1);
  await until(() => keeper.counters().written === 1);
  expect(lastIn(files[0])).toBe(7n);
  clock.advance(INTERVAL_MS * 3);
  batch();
  clock.advance(INTERVAL_MS);
  await until(() => keeper.counters().written === 2);
  expect(files).toHaveLength(2);
  expect(keeper.counters()).toMatchObject({ failed: 0, voided: 0, lastBytes: files[1]?.length });
  await keeper.close();
  expect(files).toHaveLength(2);
  expect(clock.pendingTimers).toBe(0);
});

test("writes nothing while there is nothing worth writing", async () => {
  const keeper = keeperOf();
  clock.advance(INTERVAL_MS * 2);
  await keeper.close();
  expect(files).toHaveLength(0);
});

test("batches between the pieces are in the file: head and blocks are of one moment", async () => {
  const keeper = keeperOf();
  for (let i = 0; i < 9; i++) batch();
  betweenPieces = batch;
  clock.advance(INTERVAL_MS);
  await until(() => keeper.counters().written === 1);
  betweenPieces = undefined;
  expect(batches).toBeGreaterThan(9);
  expect(lastIn(files[0])).toBe(BigInt(batches));
  await keeper.close();
  expect(files).toHaveLength(1);
});

test("the last checkpoint has what came after the one before", async () => {
  const keeper = keeperOf();
  batch();
  clock.advance(INTERVAL_MS);
  await until(() => keeper.counters().written === 1);
  batch();
  await Promise.all([keeper.close(), keeper.close()]);
  expect(lastIn(files.at(-1))).toBe(2n);
  expect(files).toHaveLength(2);
});

test("a close while one is written waits for it and writes the rest", async () => {
  const keeper = keeperOf();
  for (let i = 0; i < 6; i++) batch();
  clock.advance(INTERVAL_MS);
  const closed = keeper.close();
  batch();
  await closed;
  expect(lastIn(files.at(-1))).toBe(7n);
});

test("a new beginning in the middle voids that one; it is no failure, and the next one is good", async () => {
  const keeper = keeperOf();
  for (let i = 0; i < 9; i++) batch();
  betweenPieces = () => {
    rank.begin();
    batches = 0;
    betweenPieces = undefined;
  };
  clock.advance(INTERVAL_MS);
  await until(() => keeper.counters().voided === 1);
  batch();
  await keeper.close();
  expect(keeper.counters()).toMatchObject({ written: 1, failed: 0, voided: 1 });
  expect(lastIn(files[0])).toBe(1n);
});

test("failures are counted, and told once a minute with the number left out", async () => {
  const keeper = keeperOf({ target: { write: toNowhere }, intervalMs: 1_000 });
  batch();
  for (let i = 1; i <= 62; i++) {
    clock.advance(1_000);
    await until(() => keeper.counters().failed === i);
  }
  expect(reports).toEqual([
    { reason: "the disk is full" },
    { reason: "the disk is full", suppressed: 59 },
  ]);
  await keeper.close();
  expect(fatal).toEqual([]);
});

test("that the last one failed is told, however lately another failure was", async () => {
  const keeper = keeperOf({ target: { write: toNowhere }, intervalMs: 1_000 });
  batch();
  for (let i = 1; i <= 3; i++) {
    clock.advance(1_000);
    await until(() => keeper.counters().failed === i);
  }
  await keeper.close();
  expect(reports).toEqual([
    { reason: "the disk is full" },
    { reason: "the disk is full", suppressed: 2 },
  ]);
});

test("a disk that hangs does not hold up the end beyond checkpointFinalMs", async () => {
  const keeper = keeperOf({ target: { write: () => new Promise<number>(() => {}) } });
  batch();
  let isClosed = false;
  const closed = keeper.close().then(() => {
    isClosed = true;
  });
  clock.advance(FINAL_MS - 1);
  await Promise.resolve();
  expect(isClosed).toBe(false);
  clock.advance(1);
  await closed;
  expect(keeper.counters()).toMatchObject({ written: 0, failed: 1 });
  expect(reports[0]?.["reason"]).toBe("the last checkpoint took too long");
});

test("a write that does not end is not joined by a second one", async () => {
  let begun = 0;
  const write = (): Promise<number> => {
    begun += 1;
    return new Promise<number>(() => {});
  };
  keeperOf({ target: { write } });
  batch();
  clock.advance(INTERVAL_MS * 3);
  expect(begun).toBe(1);
});

test("what is no failure of the disk ends the process", async () => {
  const bug = new RangeError("our own");
  const keeper = keeperOf({ target: { write: () => Promise.reject(bug) } });
  batch();
  await keeper.close();
  expect(fatal).toEqual([bug]);
});
