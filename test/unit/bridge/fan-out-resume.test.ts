/**
 * What it is: claims about subscribers that come back, on a fake rank.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: the ring alone (resume-ring.test.ts), random histories (test/property).
 */
import { create, fromBinary } from "@bufbuild/protobuf";
import { HeartbeatSchema, Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { expect, test } from "vitest";
import { FanOut, type FanOutOptions } from "../../../src/bridge/dist/fan-out.js";
import type { Subscriber } from "../../../src/bridge/dist/subscriber.js";
import {
  type Cursor,
  parseEpoch,
  parseSequenceNumber,
  type ResumePoint,
} from "../../../src/protocol/dist/index.js";
import { FakeConsumer, FakeRank } from "../../support/fake-rank.ts";

const KEYS = Projection.PREFIX_KEYS;
const INSTANCE = 5n;

function cursor(epoch: bigint, sequence: bigint | undefined): Cursor {
  const known = parseEpoch(epoch);
  if (known === undefined) throw new TypeError("an epoch is not 0");
  return {
    epoch: known,
    sequence: sequence === undefined ? undefined : parseSequenceNumber(sequence),
  };
}

class Bench {
  readonly rank: FakeRank;
  readonly fanOut: FanOut;

  constructor(options: Partial<FanOutOptions> = {}) {
    this.rank = new FakeRank((output) => this.fanOut.publish(output));
    this.fanOut = new FanOut({ view: this.rank, instance: INSTANCE, ...options });
  }

  subscribe(resume?: ResumePoint, projection = KEYS): Subscriber {
    const subscriber = this.fanOut.subscribe({ projection, onWake: () => {}, resume });
    if (subscriber === undefined) throw new TypeError("there is room");
    return subscriber;
  }

  drain(subscriber: Subscriber, consumer = new FakeConsumer()): FakeConsumer {
    for (let item = subscriber.next(); item !== undefined; item = subscriber.next()) {
      consumer.apply(item);
    }
    this.fanOut.audit();
    return consumer;
  }

  /** A consumer that has everything so far, and no stream any more. */
  left(projection = KEYS): FakeConsumer {
    const subscriber = this.subscribe(undefined, projection);
    const consumer = this.drain(subscriber);
    subscriber.close();
    consumer.kinds.length = 0;
    return consumer;
  }

  /** What a consumer that comes back is told. */
  back(consumer: FakeConsumer, resume = consumer.resumePoint, projection = KEYS): string {
    const subscriber = this.subscribe(resume, projection);
    this.drain(subscriber, consumer);
    return consumer.kinds.join(" ");
  }
}

test("who comes back gets what it missed, in order, and then is live: no snapshot", () => {
  const bench = new Bench();
  bench.rank.store(1);
  const consumer = bench.left();
  bench.rank.store(2);
  bench.rank.remove(1);
  const { snapshots } = bench.rank;
  const subscriber = bench.subscribe(consumer.resumePoint);
  bench.drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["resumed", "batch", "batch"]);
  bench.rank.store(3);
  bench.drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["resumed", "batch", "batch", "batch"]);
  expect(consumer.held).toEqual(new Set([2, 3]));
  expect(bench.rank.snapshots).toBe(snapshots);
  expect(bench.fanOut.counters()).toMatchObject({ starts: 2, resumed: 1, ringBatches: 4 });
});

test("who has everything gets nothing but the start", () => {
  const bench = new Bench();
  expect(bench.back(bench.left())).toBe("resumed");
  bench.rank.store(1);
  expect(bench.back(bench.left())).toBe("resumed");
});

test("the start says where the stream goes on, and everything else as of now", () => {
  const bench = new Bench({ heartbeatIntervalMs: 777 });
  bench.rank.store(1);
  const { resumePoint } = bench.left();
  bench.rank.store(2);
  const item = bench.subscribe(resumePoint).next();
  if (item?.type !== "start") throw new TypeError("a stream begins with its start");
  expect(item.start).toMatchObject({
    isResumed: true,
    instance: INSTANCE,
    heartbeatIntervalMs: 777,
  });
  expect(item.start.cursor).toMatchObject({ epoch: 1n, sequenceNumber: 1n });
  expect(item.start.isEngineConnected).toBe(true);
  const fresh = bench.subscribe().next();
  if (fresh?.type !== "start") throw new TypeError("a stream begins with its start");
  expect(fresh.start).toMatchObject({ isResumed: false, instance: INSTANCE });
});

test("what happens between the request and the start is not lost", () => {
  const bench = new Bench();
  const consumer = bench.left();
  const subscriber = bench.subscribe(consumer.resumePoint);
  bench.rank.store(4);
  bench.drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["resumed", "batch"]);
  expect(consumer.held).toEqual(bench.rank.held);
});

test("a withdrawal that was missed is told in its place", () => {
  const bench = new Bench();
  bench.rank.store(1);
  const consumer = bench.left();
  bench.rank.store(2);
  bench.rank.withdrawAll();
  bench.rank.store(3);
  expect(bench.back(consumer)).toBe("resumed batch withdraw batch");
  expect(consumer.held).toEqual(new Set([3]));
});

test("what is told of the present comes after what is told of the past", () => {
  // Batches of the ring say how things stood then; the last heartbeat may know better.
  const bench = new Bench();
  const consumer = bench.left();
  bench.rank.store(1);
  bench.fanOut.heartbeat(create(HeartbeatSchema, { isCatchingUp: true }));
  const subscriber = bench.subscribe(consumer.resumePoint);
  consumer.apply(subscriber.next() ?? expect.unreachable());
  consumer.apply(subscriber.next() ?? expect.unreachable());
  const last = subscriber.next();
  if (last?.type !== "field") throw new TypeError("a heartbeat is a field");
  expect([last.no, fromBinary(HeartbeatSchema, last.bytes).isCatchingUp]).toEqual([5, true]);
  bench.rank.store(2);
  expect(bench.back(bench.left())).toBe("resumed");
});

for (const [name, change] of [
  ["another epoch", ({ rank }: Bench) => rank.newEpoch()],
  ["a ring that has forgotten", ({ rank }: Bench) => [1, 2, 3, 4].map((n) => rank.store(n))],
  ["a ring that is too large for the queue", ({ rank }: Bench) => rank.store(1, 900)],
] as const) {
  test(`${name} is answered with a snapshot`, () => {
    const bench = new Bench({ resumeRingBatches: 3, queueBytes: 800 });
    bench.rank.store(9);
    const consumer = bench.left();
    change(bench);
    expect(bench.back(consumer)).toMatch(/^start (chunk )?last_chunk$/);
    expect(consumer.held).toEqual(bench.rank.held);
    expect(bench.fanOut.counters().resumed).toBe(0);
  });
}

test("a cursor that the rank has not reached is answered with a snapshot", () => {
  const bench = new Bench();
  bench.rank.store(1);
  const ahead = { cursor: cursor(1n, 2n), instance: INSTANCE };
  expect(bench.back(new FakeConsumer(), ahead)).toBe("start chunk last_chunk");
});

test("a subscriber that overflows after it came back begins anew", () => {
  const bench = new Bench({ queueBytes: 400 });
  const consumer = bench.left();
  const subscriber = bench.subscribe(consumer.resumePoint);
  consumer.apply(subscriber.next() ?? expect.unreachable());
  for (let n = 1; n < 9; n++) bench.rank.store(n);
  bench.drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["resumed", "start", "chunk", "last_chunk"]);
  expect(consumer.held).toEqual(bench.rank.held);
});

test("the instance that wrote the checkpoint is followed from its cursor alone, others never", () => {
  const floor = cursor(1n, 2n);
  const other = INSTANCE + 1n;
  const bench = new Bench({ resumeFloor: { cursor: floor, instance: other } });
  bench.rank.sequence = 2n;
  const ask = (at: Cursor, instance: bigint): boolean => {
    const item = bench.subscribe({ cursor: at, instance }).next();
    return item?.type === "start" && item.start.isResumed;
  };
  expect(ask(floor, other)).toBe(true);
  bench.rank.store(1);
  bench.rank.store(2);
  // Numbers after the floor are this process's own: another one said other things under them.
  for (const [sequence, instance, isResumed] of [
    [1n, other, false],
    [2n, other, true],
    [3n, other, false],
    [4n, other, false],
    [undefined, other, false],
    [1n, INSTANCE, false],
    [2n, INSTANCE, true],
    [3n, INSTANCE, true],
    [4n, INSTANCE, true],
    // A third process came to this number on a way of its own.
    [2n, other + 1n, false],
    [2n, 0n, false],
    [4n, 0n, false],
  ] as const) {
    const name = `${sequence} of ${instance}`;
    expect(ask(cursor(1n, sequence), instance), name).toBe(isResumed);
  }
  expect(ask(cursor(2n, 2n), other)).toBe(false);
  bench.rank.newEpoch();
  expect(ask(floor, other)).toBe(false);
});

test("without a checkpoint nobody goes on from another instance", () => {
  const bench = new Bench();
  const consumer = bench.left();
  const { cursor: at } = consumer.resumePoint ?? expect.unreachable();
  expect(bench.back(consumer, { cursor: at, instance: INSTANCE + 1n })).toBe("start last_chunk");
});

test("ENGINE goes on too, with its own bytes", () => {
  const bench = new Bench();
  const consumer = bench.left(Projection.ENGINE);
  bench.rank.store(1);
  bench.rank.withdrawAll();
  bench.rank.store(2);
  const told = bench.back(consumer, consumer.resumePoint, Projection.ENGINE);
  expect(told).toBe("resumed batch withdraw batch");
  expect(consumer.held).toEqual(new Set([2]));
});

test("a process without an instance is our bug", () => {
  expect(() => new Bench({ instance: 0n })).toThrow("has an instance");
});
