/**
 * What it is: claims about the two small states of the ZMQ side: what is missing, and who is
 * connected.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: sockets (test/e2e/zmq-source.test.ts does).
 */
import { expect, test } from "vitest";
import {
  ARRIVAL_HINT_AFTER_MS,
  ArrivalWatch,
  arrivalHint,
} from "../../../src/bridge/dist/arrival-watch.js";
import { ConnectionTracker } from "../../../src/bridge/dist/connection-tracker.js";

const NOTHING = { isConnected: false, messages: 0, placedBlocks: 0n, isCatchingUp: false };
const CONNECTED = { ...NOTHING, isConnected: true };
const TALKING = { ...CONNECTED, messages: 3 };
const FOLLOWING = { ...CONNECTED, messages: 9, placedBlocks: 7n };

test("each lack is named once, after its time and not before", () => {
  const watch = new ArrivalWatch(0);
  let beginMs = 0;
  for (const [facts, arrival] of [
    [NOTHING, "not_connected"],
    [CONNECTED, "no_messages"],
    [TALKING, "no_usable_stores"],
  ] as const) {
    const said: unknown[] = [];
    for (let passedMs = 0; passedMs <= ARRIVAL_HINT_AFTER_MS * 3; passedMs += 5000) {
      const now = watch.step(beginMs + passedMs, facts);
      if (now !== undefined) said.push([now, passedMs]);
    }
    expect(said).toEqual([[arrival, ARRIVAL_HINT_AFTER_MS]]);
    expect(watch.current).toBe(arrival);
    beginMs += ARRIVAL_HINT_AFTER_MS * 4;
  }
});

test("following is said at once, and once until it is lost", () => {
  const watch = new ArrivalWatch(0);
  expect(watch.step(10, FOLLOWING)).toBe("following");
  expect(watch.step(20, FOLLOWING)).toBeUndefined();
  expect(watch.step(30, { ...FOLLOWING, isConnected: false })).toBeUndefined();
  expect(watch.step(40, FOLLOWING)).toBe("following");
});

test("an idle engine that a reply or a checkpoint told everything of is followed", () => {
  const watch = new ArrivalWatch(0);
  expect(watch.step(5000, { ...FOLLOWING, messages: 0 })).toBe("following");
  expect(watch.step(5000 + 2 * ARRIVAL_HINT_AFTER_MS, { ...FOLLOWING, messages: 0 })).toBe(
    undefined,
  );
});

test("what a checkpoint holds does not count before the engine has proved itself", () => {
  const watch = new ArrivalWatch(0);
  const unproved = { ...FOLLOWING, messages: 0, isCatchingUp: true };
  expect(watch.step(5000, unproved)).toBeUndefined();
  expect(watch.step(5000 + ARRIVAL_HINT_AFTER_MS, unproved)).toBe("no_messages");
  expect(watch.step(70_000, { ...unproved, isCatchingUp: false })).toBe("following");
});

test("an engine that is followed may empty its cache, and may lag behind for a while", () => {
  const watch = new ArrivalWatch(0);
  watch.step(10, FOLLOWING);
  expect(watch.step(20, { ...FOLLOWING, placedBlocks: 0n })).toBeUndefined();
  expect(watch.step(30, { ...FOLLOWING, isCatchingUp: true })).toBeUndefined();
  expect(watch.current).toBe("following");
});

test("after a loss, even one between two steps, it must be seen to be followed again", () => {
  const watch = new ArrivalWatch(0);
  watch.step(10, FOLLOWING);
  watch.disconnected();
  watch.step(15, { ...FOLLOWING, isConnected: false });
  expect(watch.step(20, CONNECTED)).toBeUndefined();
  expect(watch.current).toBe("no_messages");
  expect(watch.step(20 + ARRIVAL_HINT_AFTER_MS, TALKING)).toBeUndefined();
  expect(watch.current).toBe("no_usable_stores");
  expect(watch.step(80_000, FOLLOWING)).toBe("following");
});

test("a connection that flaps faster than the hint's time says nothing", () => {
  const watch = new ArrivalWatch(0);
  for (let nowMs = 0; nowMs < 10 * ARRIVAL_HINT_AFTER_MS; nowMs += ARRIVAL_HINT_AFTER_MS / 2) {
    const isConnected = (nowMs / (ARRIVAL_HINT_AFTER_MS / 2)) % 2 === 0;
    expect(watch.step(nowMs, { ...NOTHING, isConnected })).toBeUndefined();
  }
});

test("every state has a hint that tells what to look at", () => {
  const hints = (["not_connected", "no_messages", "no_usable_stores", "following"] as const).map(
    arrivalHint,
  );
  expect(new Set(hints).size).toBe(4);
  expect(hints[0]).toContain("not connected");
  expect(hints[1]).toContain("connected, zero messages");
  expect(hints[2]).toContain("no usable stores");
});

test("connected means at least one peer; each change is told once", () => {
  const tracker = new ConnectionTracker();
  expect(tracker.handshake()).toBe(true);
  expect(tracker.handshake()).toBeUndefined();
  expect(tracker.disconnect()).toBeUndefined();
  expect(tracker.disconnect()).toBe(false);
  expect(tracker.disconnect()).toBeUndefined();
  expect(tracker.handshake()).toBe(true);
});

test("a stranger who fails the handshake does not disconnect the engine", () => {
  const tracker = new ConnectionTracker();
  tracker.handshake();
  tracker.handshakeFailed();
  expect(tracker.disconnect()).toBeUndefined();
  expect(tracker.disconnect()).toBe(false);
});
