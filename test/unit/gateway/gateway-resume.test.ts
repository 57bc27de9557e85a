/**
 * What it is: claims about a gateway whose streams end and go on, and whose workers move.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: messages alone (rank-view-resume.test.ts), sockets (test/e2e/resume.test.ts).
 */
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { expect, test } from "vitest";
import type { WorkerSettings } from "../../../src/gateway/dist/index.js";
import { MAX_RANKS } from "../../../src/prefix-index/dist/index.js";
import { LIMITS, type ResumePoint } from "../../../src/protocol/dist/index.js";
import { Bench, codeOf } from "./gateway-bench.ts";
import {
  batch,
  chunk,
  FULL_4,
  type HandBridge,
  heartbeat,
  liveWith,
  remove,
  type StartInit,
  start,
  store,
  withdraw,
} from "./messages.ts";

const asked = (bridge: HandBridge): ResumePoint | undefined => bridge.streams.at(-1)?.resume;

function resumed(sequence: number, more: StartInit = {}): SubscribeResponse {
  const cursor = { epoch: 7n, sequenceNumber: BigInt(sequence) };
  return start({ isResumed: true, cursor, ...more });
}

/** One live worker that holds 8 tokens' blocks at sequence 0. */
function following(): { readonly bench: Bench; readonly bridge: HandBridge } {
  const bench = new Bench();
  const bridge = bench.addLive("w", [store(0, [4, 4, 4])]);
  bridge.send([batch(0, [store(0, [8, 4, 8])])]);
  return { bench, bridge };
}

/** Long enough for any first pause. */
const PAUSE_MS = LIMITS.reconnectMinMs.value;

test("a stream that ends is asked for again from the cursor, stale until it goes on", () => {
  const { bench, bridge } = following();
  expect(bridge.streams[0]?.resume).toBeUndefined();
  bridge.end("bridge_unreachable");
  expect([bench.state(), bench.score(9)]).toEqual(["stale disconnected", "w=8"]);
  bench.clock.advance(PAUSE_MS);
  expect(asked(bridge)).toEqual({ cursor: { epoch: 7n, sequence: 0n }, instance: 3n });
  expect([bench.state(), bench.score(9)]).toEqual(["stale disconnected", "w=8"]);
  bridge.send([resumed(0)]);
  expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=8"]);
  expect(bench.gateway.workers()[0]).toMatchObject({
    subscriptionState: "live",
    lastError: undefined,
  });
  bridge.send([batch(1, [remove(0, [8])])]);
  expect(bench.score(9)).toBe("w=4");
});

test("a stream that begins anew clears what was known", () => {
  const { bench, bridge } = following();
  bridge.end("bridge_unreachable");
  bench.clock.advance(PAUSE_MS);
  bridge.send([start()]);
  expect([bench.state(), bench.score(9)]).toEqual(["lower_bound snapshot_pending", "w=0"]);
});

for (const error of ["resume_refused", "bridge_protocol"] as const) {
  test(`after ${error} the next stream asks for a snapshot, and the view stays till then`, () => {
    const { bench, bridge } = following();
    bridge.end("bridge_unreachable");
    bench.clock.advance(PAUSE_MS);
    expect(asked(bridge)).toBeDefined();
    bridge.end(error);
    bench.clock.advance(error === "resume_refused" ? 0 : 2 * PAUSE_MS);
    expect(bridge.streams.length).toBe(3);
    expect(asked(bridge)).toBeUndefined();
    expect(bench.score(9)).toBe("w=8");
    bridge.send(liveWith([store(0, [4, 4, 4])]));
    expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=4"]);
  });
}

test("after a message that was refused the next stream asks for a snapshot", () => {
  const { bench, bridge } = following();
  bridge.send([batch(5)]);
  bench.clock.advance(PAUSE_MS);
  expect(asked(bridge)).toBeUndefined();
});

test("an engine that changed while nobody listened leads to a snapshot", () => {
  const { bench, bridge } = following();
  bridge.end("bridge_unreachable");
  bench.clock.advance(PAUSE_MS);
  const changed = { ...FULL_4, lookaheadTokens: 1 };
  bridge.send([resumed(0, { engine: changed })]);
  expect(bench.gateway.workers()[0]?.lastError).toBe("engine_changed");
  expect(bench.score(9)).toBe("w=0");
  bench.clock.advance(2 * PAUSE_MS);
  expect(asked(bridge)).toBeUndefined();
  bridge.send(liveWith([store(0, [4, 4, 8], { lookahead: 1 })], changed));
  expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=8"]);
});

test("a cut between a withdrawal and its batch leads to a snapshot", () => {
  const { bench, bridge } = following();
  bridge.send([withdraw()]);
  bridge.end("bridge_unreachable");
  bench.clock.advance(PAUSE_MS);
  expect(asked(bridge)).toBeUndefined();
});

test("a bridge that is catching up makes answers stale, until it has caught up", () => {
  const { bench, bridge } = following();
  bridge.send([heartbeat(0, true, true)]);
  expect([bench.state(), bench.score(9)]).toEqual(["stale catching_up", "w=8"]);
  bridge.send([heartbeat(0, false, true)]);
  expect(bench.state()).toBe("stale catching_up engine_disconnected");
  bridge.send([batch(1, [], { isCatchingUp: true })]);
  expect(bench.state()).toBe("stale catching_up engine_disconnected");
  bridge.send([batch(2), heartbeat(2)]);
  expect(bench.state()).toBe("exact");
});

test("a worker that moves keeps its view, stale until the new address goes on with it", () => {
  const { bench, bridge } = following();
  bench.gateway.updateWorker({ name: "w", url: "http://other:1" });
  const other = bench.bridge("other");
  expect(bridge.streams.map((stream) => stream.isOpen)).toEqual([false]);
  expect(bridge.isClosed).toBe(true);
  expect([bench.state(), bench.score(9)]).toEqual(["stale disconnected", "w=8"]);
  expect(bench.gateway.workers()[0]?.bridgeUrl).toBe("http://other:1");
  expect(asked(other)).toEqual({ cursor: { epoch: 7n, sequence: 0n }, instance: 3n });
  other.send([resumed(0)]);
  expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=8"]);
});

test("a new address with another history begins anew", () => {
  const { bench } = following();
  bench.gateway.updateWorker({ name: "w", url: "http://other:1" });
  bench
    .bridge("other")
    .send([start({ cursor: { epoch: 9n }, instance: 4n }), chunk(0, true, [store(0, [4, 4, 4])])]);
  expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=4"]);
});

test("a worker may move in any state, and leaves nothing behind", () => {
  for (const [name, events] of [
    ["connecting", (_bridge: HandBridge) => {}],
    ["snapshot", (bridge: HandBridge) => bridge.send([start()])],
    ["live", (bridge: HandBridge) => bridge.send(liveWith([]))],
    ["backoff", (bridge: HandBridge) => bridge.end("permission_denied")],
  ] as const) {
    const bench = new Bench();
    const bridge = bench.add("w");
    events(bridge);
    expect(bench.gateway.workers()[0]?.subscriptionState).toBe(name);
    bench.gateway.updateWorker({ name: "w", url: "http://other:1" });
    expect(
      bridge.streams.some((stream) => stream.isOpen),
      name,
    ).toBe(false);
    expect(bench.clock.pendingTimers, name).toBe(1);
    bench.bridge("other").send(liveWith([store(0, [4, 4, 8])]));
    expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=8"]);
    bench.gateway.removeWorker("w");
    expect(bench.bridge("other").isClosed).toBe(true);
    expect(bench.clock.pendingTimers).toBe(0);
  }
});

test("the same settings do nothing, another certificate is another address", () => {
  const bench = new Bench();
  const tls = { ca: "a" };
  const bridge = bench.add("w", { url: "https://w:1", tls, dpRanks: [1, 0] });
  bench.gateway.updateWorker({ name: "w", url: "https://w:1/", tls: { ca: "a" }, dpRanks: [0, 1] });
  expect(bridge.streams.map((stream) => stream.isOpen)).toEqual([true, true]);
  for (const more of [{ ca: "b" }, { ca: "b", cert: "c", key: "d" }, undefined]) {
    const before = bridge.streams.length;
    bench.gateway.updateWorker({ name: "w", url: "https://w:1", tls: more, dpRanks: [0, 1] });
    expect(bridge.streams.length).toBe(before + 2);
  }
});

test("ranks that stay keep their stream, ranks that go are forgotten, new ones begin", () => {
  const bench = new Bench();
  const bridge = bench.add("w", { dpRanks: [0, 1] });
  for (const rank of [0, 1]) bridge.send(liveWith([store(0, [4, 4, 8])], FULL_4, rank), rank);
  expect(bench.score(9)).toBe("w=8 w=8");
  bench.gateway.updateWorker({ name: "w", url: "http://w:1", dpRanks: [2, 1] });
  expect(bench.gateway.workers().map((rank) => rank.dpRank)).toEqual([1, 2]);
  expect(bench.score(9)).toBe("w=8 w=0");
  expect(bridge.streams.map((stream) => [stream.dpRank, stream.isOpen])).toEqual([
    [0, false],
    [1, true],
    [2, true],
  ]);
  expect(bridge.isClosed).toBe(false);
  bridge.send(liveWith([store(0, [4, 4, 4])], FULL_4, 2), 2);
  expect(bench.score(9)).toBe("w=8 w=4");
  bench.gateway.updateWorker({ name: "w", url: "http://other:1", dpRanks: [1] });
  expect(bench.score(9)).toBe("w=8");
  expect(bench.bridge("other").streams.map((stream) => stream.dpRank)).toEqual([1]);
  expect(bench.clock.pendingTimers).toBe(1);
});

test("an update that cannot be is refused and changes nothing", () => {
  const { bench, bridge } = following();
  const update = (settings: Partial<WorkerSettings>) =>
    codeOf(() => bench.gateway.updateWorker({ name: "w", url: "http://w:1", ...settings }));
  expect(update({ name: "x" })).toBe("worker_unknown");
  expect(update({ url: "tcp://w:1" })).toBe("config_invalid");
  expect(update({ dpRanks: [] })).toBe("config_invalid");
  const tooMany = Array.from({ length: MAX_RANKS + 1 }, (_, rank) => rank);
  expect(update({ dpRanks: tooMany })).toBe("worker_limit");
  expect(bridge.streams.map((stream) => stream.isOpen)).toEqual([true]);
  expect([bench.state(), bench.score(9)]).toEqual(["exact", "w=8"]);
});
