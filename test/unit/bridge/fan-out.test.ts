/**
 * What it is: claims about the fan-out, on a fake rank, without a clock or a socket.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: streams (test/e2e/bridge-service.test.ts does).
 */
import { create, fromBinary } from "@bufbuild/protobuf";
import {
  Completeness,
  HeartbeatSchema,
  Projection,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { expect, test } from "vitest";
import { FanOut, type FanOutOptions } from "../../../src/bridge/dist/fan-out.js";
import {
  ITEM_OVERHEAD_BYTES,
  type QueueItem,
  type Subscriber,
} from "../../../src/bridge/dist/subscriber.js";
import { FakeConsumer, FakeRank } from "../../support/fake-rank.ts";

const KEYS = Projection.PREFIX_KEYS;

function setUp(options: Partial<FanOutOptions> = {}) {
  const rank: FakeRank = new FakeRank((output) => fanOut.publish(output));
  const fanOut = new FanOut({ view: rank, instance: 1n, ...options });
  const subscribe = (projection: Projection = KEYS, onWake: () => void = () => {}): Subscriber => {
    const subscriber = fanOut.subscribe({ projection, onWake });
    expect(subscriber).toBeDefined();
    return subscriber as Subscriber;
  };
  return { rank, fanOut, subscribe };
}

function drain(subscriber: Subscriber, consumer = new FakeConsumer()): FakeConsumer {
  for (let item = subscriber.next(); item !== undefined; item = subscriber.next()) {
    consumer.apply(item);
  }
  return consumer;
}

function take(subscriber: Subscriber): QueueItem {
  const item = subscriber.next();
  expect(item).toBeDefined();
  return item as QueueItem;
}

test("a snapshot of nothing is one empty last piece", () => {
  const { subscribe } = setUp({ heartbeatIntervalMs: 1234 });
  const subscriber = subscribe();
  const start = take(subscriber);
  expect(start.type === "start" && start.start.heartbeatIntervalMs).toBe(1234);
  const piece = take(subscriber);
  expect(piece.type === "snapshot_chunk" && piece.chunk).toMatchObject({ index: 0, isLast: true });
  expect(subscriber.next()).toBeUndefined();
});

test("snapshot pieces are numbered from 0, hold at most the bound, and the last says so", () => {
  const { rank, subscribe } = setUp({ snapshotChunkBlocks: 4 });
  for (let block = 1; block <= 10; block++) rank.store(block);
  const consumer = drain(subscribe());
  expect(consumer.kinds).toEqual(["start", "chunk", "chunk", "chunk", "last_chunk"]);
  expect(consumer.held).toEqual(rank.held);
});

test("live batches come between snapshot pieces, and a piece is read only after them", () => {
  const { rank, subscribe } = setUp({ snapshotChunkBlocks: 2 });
  for (let block = 1; block <= 6; block++) rank.store(block);
  const subscriber = subscribe();
  const consumer = new FakeConsumer();
  consumer.apply(take(subscriber));
  consumer.apply(take(subscriber));
  // Block 5 is in a piece that is not read yet: that piece must not bring it back.
  rank.remove(5);
  rank.remove(1);
  rank.store(7);
  drain(subscriber, consumer);
  expect(consumer.kinds.slice(0, 5)).toEqual(["start", "chunk", "batch", "batch", "batch"]);
  expect(consumer.held).toEqual(new Set([2, 3, 4, 6, 7]));
});

test("a subscriber that has not begun queues nothing: its snapshot contains it all", () => {
  const { rank, subscribe } = setUp();
  const subscriber = subscribe();
  for (let block = 1; block <= 100; block++) rank.store(block);
  expect(subscriber.queuedBytes).toBe(0);
  expect(drain(subscriber).held).toEqual(rank.held);
});

test("the queue takes bytes up to its bound and not one more", () => {
  const { rank, fanOut, subscribe } = setUp({ queueBytes: 1000 });
  const subscriber = subscribe();
  drain(subscriber);
  const bytes = rank.store(1, 100);
  const cost = subscriber.queuedBytes;
  expect(cost).toBe(bytes.length + 1 + ITEM_OVERHEAD_BYTES);
  const room = Math.floor(1000 / cost);
  for (let i = 1; i < room; i++) rank.store(1 + i, 100);
  expect(subscriber.queuedBytes).toBe(room * cost);
  expect(fanOut.counters().overflows).toBe(0);
  rank.store(200, 100);
  expect(subscriber.queuedBytes).toBe(0);
  expect(fanOut.counters().overflows).toBe(1);
  fanOut.audit();
  const consumer = drain(subscriber);
  expect(consumer.kinds).toEqual(["start", "chunk", "last_chunk"]);
  expect(consumer.held).toEqual(rank.held);
});

test("a batch larger than the whole queue leads to a snapshot, not to a stall", () => {
  const { rank, subscribe } = setUp({ queueBytes: 500 });
  const subscriber = subscribe();
  drain(subscriber);
  rank.store(1, 2000);
  expect(drain(subscriber).held).toEqual(new Set([1]));
});

test("one of 64 subscribers stops and costs the others nothing", () => {
  const { rank, fanOut, subscribe } = setUp({ queueBytes: 2000 });
  const subscribers = Array.from({ length: 64 }, () => subscribe());
  const consumers = subscribers.map((subscriber) => drain(subscriber));
  for (let block = 1; block <= 500; block++) {
    rank.store(block, 20);
    for (let i = 1; i < 64; i++) drain(subscribers[i] as Subscriber, consumers[i] as FakeConsumer);
    expect(subscribers[0]?.queuedBytes).toBeLessThanOrEqual(2000);
  }
  fanOut.audit();
  for (let i = 1; i < 64; i++) {
    expect(consumers[i]?.held).toEqual(rank.held);
    expect(subscribers[i]?.counts).toMatchObject({ starts: 1, overflows: 0 });
  }
  // It overflowed once: without a start it queues nothing, so it cannot overflow again.
  expect(subscribers[0]?.counts.overflows).toBe(1);
  expect(drain(subscribers[0] as Subscriber, consumers[0] as FakeConsumer).held).toEqual(rank.held);
});

test("a further subscriber is refused at the limit, and one that leaves makes room", () => {
  const { fanOut, subscribe } = setUp({ maxSubscribers: 2 });
  const first = subscribe();
  subscribe();
  const refused = fanOut.subscribe({ projection: KEYS, onWake: () => {} });
  expect(refused).toBeUndefined();
  expect(fanOut.counters().refusedSubscribers).toBe(1);
  first.close();
  first.close();
  expect(fanOut.subscriberCount).toBe(1);
  subscribe();
});

test("a batch is serialised once: all subscribers of a projection take the same object", () => {
  const { rank, subscribe } = setUp();
  const subscribers = [subscribe(), subscribe(), subscribe()];
  for (const subscriber of subscribers) drain(subscriber);
  const bytes = rank.store(1);
  const items = subscribers.map(take);
  expect(items[1]).toBe(items[0]);
  expect(items[2]).toBe(items[0]);
  const item = items[0];
  expect(item?.type === "field" && item.no).toBe(3);
  expect(item?.type === "field" && Buffer.compare(item.bytes, bytes)).toBe(0);
});

test("the framed bytes after the field's tag are the typed message", () => {
  const { rank, subscribe } = setUp();
  const subscriber = subscribe();
  drain(subscriber);
  rank.store(42);
  const item = take(subscriber);
  if (item.type !== "field") throw new TypeError("a batch is a field");
  const wire = Uint8Array.from([(item.no << 3) | 2, ...item.delimited]);
  const { message } = fromBinary(SubscribeResponseSchema, wire);
  expect(message.case).toBe("batch");
  expect(message.case === "batch" && message.value.batch?.events[0]?.endTokens).toBe(42);
});

test("an epoch empties the queue, withdraws, and then starts anew", () => {
  const { rank, subscribe } = setUp();
  rank.store(1);
  const subscriber = subscribe();
  const consumer = drain(subscriber);
  rank.store(2);
  rank.newEpoch();
  rank.newEpoch();
  rank.store(3);
  consumer.kinds.length = 0;
  drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["withdraw", "start", "chunk", "last_chunk"]);
  expect(consumer.held).toEqual(new Set([3]));
});

test("an epoch before the first start does not come before the start", () => {
  const { rank, subscribe } = setUp();
  const subscriber = subscribe();
  rank.newEpoch();
  expect(take(subscriber).type).toBe("start");
});

test("an epoch in the middle of a snapshot ends that snapshot", () => {
  const { rank, fanOut, subscribe } = setUp({ snapshotChunkBlocks: 1 });
  for (let block = 1; block <= 5; block++) rank.store(block);
  const subscriber = subscribe();
  const consumer = new FakeConsumer();
  consumer.apply(take(subscriber));
  consumer.apply(take(subscriber));
  rank.newEpoch();
  fanOut.audit();
  drain(subscriber, consumer);
  expect(consumer.kinds).toEqual(["start", "chunk", "withdraw", "start", "last_chunk"]);
  expect(consumer.held.size).toBe(0);
});

test("withdrawals and engine facts reach both projections in order", () => {
  const { rank, subscribe } = setUp();
  for (const projection of [KEYS, Projection.ENGINE]) {
    const subscriber = subscribe(projection);
    const consumer = drain(subscriber);
    consumer.kinds.length = 0;
    rank.store(1);
    rank.withdrawAll();
    rank.tellEngine("0.33.0");
    rank.store(2);
    drain(subscriber, consumer);
    expect(consumer.kinds).toEqual(["batch", "withdraw", "engine", "batch"]);
    expect(consumer.held).toEqual(new Set([2]));
    rank.withdrawAll();
  }
});

test("ENGINE has no snapshot and is complete only when nothing was held", () => {
  const { rank, subscribe } = setUp();
  const early = take(subscribe(Projection.ENGINE));
  expect(early.type === "start" && early.start.completeness).toBe(Completeness.COMPLETE);
  rank.store(1);
  const subscriber = subscribe(Projection.ENGINE);
  const late = take(subscriber);
  expect(late.type === "start" && late.start.completeness).toBe(Completeness.INCOMPLETE);
  expect(subscriber.next()).toBeUndefined();
  rank.store(2);
  expect(take(subscriber)).toMatchObject({ type: "field", no: 3 });
});

test("heartbeats wait behind what is queued, and only the newest is kept", () => {
  const { rank, fanOut, subscribe } = setUp();
  const subscriber = subscribe();
  fanOut.heartbeat(create(HeartbeatSchema));
  drain(subscriber);
  fanOut.heartbeat(create(HeartbeatSchema, { lastBatchAgeMs: 1n }));
  rank.store(1);
  fanOut.heartbeat(create(HeartbeatSchema, { lastBatchAgeMs: 2n }));
  expect(take(subscriber)).toMatchObject({ no: 3 });
  const item = take(subscriber);
  if (item.type !== "field") throw new TypeError("a heartbeat is a field");
  expect(fromBinary(HeartbeatSchema, item.bytes).lastBatchAgeMs).toBe(2n);
  expect(subscriber.next()).toBeUndefined();
});

test("a stopped subscriber does not gather heartbeats", () => {
  const { rank, fanOut, subscribe } = setUp();
  const subscriber = subscribe();
  const consumer = drain(subscriber);
  for (let i = 0; i < 1000; i++) fanOut.heartbeat(create(HeartbeatSchema));
  expect(subscriber.queuedBytes).toBe(0);
  // A heartbeat of an epoch that is over would tell of a cursor that means nothing now.
  rank.newEpoch();
  expect(drain(subscriber, consumer).kinds.includes("heartbeat")).toBe(false);
});

test("every offer wakes, and a closed subscriber gives and takes nothing", () => {
  const { rank, fanOut, subscribe } = setUp();
  let wakes = 0;
  const subscriber = subscribe(KEYS, () => wakes++);
  drain(subscriber);
  rank.store(1);
  fanOut.heartbeat(create(HeartbeatSchema));
  rank.newEpoch();
  expect(wakes).toBe(3);
  subscriber.close();
  expect(wakes).toBe(4);
  rank.store(2);
  expect(subscriber.next()).toBeUndefined();
  expect(subscriber.isClosed).toBe(true);
  expect(wakes).toBe(4);
});
