/**
 * What it is: claims about the ZMQ adapter, with real publishers on loopback.
 * Owns: the sockets of each test, closed after it.
 * Refuses: nothing.
 * Does not do: sleep. What cannot be awaited (a slow joiner) is published again until it arrives.
 */
import { setImmediate as turn } from "node:timers/promises";
import { systemClock, systemTimers } from "@kv-group-bridge/runtime";
import { afterEach, expect, test } from "vitest";
import { Publisher } from "zeromq";
import { engineAddress } from "../../src/bridge/dist/engine-endpoint.js";
import { ZmqSource, type ZmqSourceOptions } from "../../src/bridge/dist/zmq-source.js";
import { freeEndpoint } from "../support/free-endpoint.ts";
import { until } from "../support/until.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function publish(address = "tcp://127.0.0.1:*") {
  const socket = new Publisher({ linger: 0, sendHighWaterMark: 0 });
  closers.push(() => socket.close());
  await socket.bind(address);
  return { socket, endpoint: socket.lastEndpoint ?? "" };
}

function follow(endpoint: string, options: Partial<ZmqSourceOptions> = {}) {
  const messages: Buffer[][] = [];
  const connections: boolean[] = [];
  const failures: unknown[] = [];
  const source = new ZmqSource({
    endpoint,
    mode: "connect",
    clock: systemClock,
    timers: systemTimers,
    onMessage: (frames) => messages.push(frames.map((frame) => Buffer.from(frame))),
    onConnection: (isConnected) => connections.push(isConnected),
    onFailure: (error) => failures.push(error),
    ...options,
  });
  closers.push(() => source.close());
  return { source, messages, connections, failures };
}

/** Publishes until something arrives: the first messages after a handshake may go nowhere. */
async function untilReceived(socket: Publisher, messages: readonly unknown[]): Promise<void> {
  const before = messages.length;
  while (messages.length === before) {
    await socket.send(["probe", Buffer.alloc(8), "again"]);
    await turn();
  }
}

test("messages arrive whole and in order, whatever their topic", async () => {
  const { socket, endpoint } = await publish();
  const { source, messages, connections } = follow(endpoint);
  await source.start();
  await untilReceived(socket, messages);
  await until(() => connections.length > 0);
  expect(connections).toEqual([true]);
  const sequence = (n: number): Buffer => {
    const frame = Buffer.alloc(8);
    frame.writeBigUInt64BE(BigInt(n));
    return frame;
  };
  for (let n = 1; n <= 2000; n++) {
    await socket.send([n % 2 === 0 ? "" : "kv", sequence(n), Buffer.alloc(n, n & 255)]);
  }
  const isNumbered = (frames: readonly Buffer[]): boolean => frames[0]?.toString() !== "probe";
  await until(() => messages.filter(isNumbered).length === 2000);
  messages.filter(isNumbered).forEach((frames, index) => {
    const n = index + 1;
    expect(frames.length).toBe(3);
    expect(frames[1]?.readBigUInt64BE()).toBe(BigInt(n));
    expect(frames[2]?.equals(Buffer.alloc(n, n & 255))).toBe(true);
  });
});

test("a publisher that goes and comes back is told, and is heard again", async () => {
  const first = await publish();
  const { source, messages, connections } = follow(first.endpoint);
  await source.start();
  await untilReceived(first.socket, messages);
  first.socket.close();
  await until(() => connections.length === 2);
  const second = await publish(first.endpoint.replace("[::ffff:127.0.0.1]", "127.0.0.1"));
  await untilReceived(second.socket, messages);
  await until(() => connections.length === 3);
  expect(connections).toEqual([true, false, true]);
});

test("a publisher that is not there yet is no failure", async () => {
  const endpoint = await freeEndpoint();
  const { source, messages, failures, connections } = follow(endpoint);
  await source.start();
  const late = await publish(endpoint);
  await untilReceived(late.socket, messages);
  expect(failures).toEqual([]);
  expect(connections).toEqual([true]);
});

// libzmq gives up a connection for ever after a frame over the limit.
test("an oversized frame costs the connection, which heals by itself", async () => {
  const { socket, endpoint } = await publish();
  const { source, messages, connections, failures } = follow(endpoint, { maxFrameBytes: 1000 });
  await source.start();
  await untilReceived(socket, messages);
  await socket.send(["", Buffer.alloc(8), Buffer.alloc(5000)]);
  await until(() => connections.length === 2);
  await untilReceived(socket, messages);
  await until(() => connections.length === 3);
  expect(connections).toEqual([true, false, true]);
  expect(failures).toEqual([]);
  expect(messages.every((frames) => (frames[2]?.length ?? 0) <= 1000)).toBe(true);
});

test("an engine that connects is heard when the bridge binds", async () => {
  const { source, messages, connections } = follow("tcp://127.0.0.1:*", { mode: "bind" });
  const address = await source.start();
  const socket = new Publisher({ linger: 0 });
  closers.push(() => socket.close());
  socket.connect(address);
  await untilReceived(socket, messages);
  socket.close();
  await until(() => connections.length === 2);
  expect(connections).toEqual([true, false]);
});

test("IPv6 loopback works, bare and in brackets", async () => {
  const socket = new Publisher({ linger: 0, ipv6: true });
  closers.push(() => socket.close());
  await socket.bind("tcp://[::1]:*");
  const port = socket.lastEndpoint?.split(":").at(-1) ?? "";
  for (const host of ["::1", "[::1]", "[::]"]) {
    const { source, messages } = follow(`tcp://${host}:${port}`);
    await source.start();
    await untilReceived(socket, messages);
    await source.close();
  }
});

test("close ends a pending receive quietly, and nothing is told afterwards", async () => {
  const { socket, endpoint } = await publish();
  const { source, messages, connections, failures } = follow(endpoint);
  await source.start();
  await untilReceived(socket, messages);
  await source.close();
  await source.close();
  const heard = messages.length;
  await socket.send(["", Buffer.alloc(8), "late"]);
  socket.close();
  for (let i = 0; i < 20; i++) await turn();
  expect(messages.length).toBe(heard);
  expect(connections).toEqual([true]);
  expect(failures).toEqual([]);
});

test("a source that was never started closes", async () => {
  await follow("tcp://127.0.0.1:5557").source.close();
});

test("what a callback throws is reported as it is, and the source is closed", async () => {
  const { socket, endpoint } = await publish();
  const bug = new TypeError("ours");
  const { source, failures } = follow(endpoint, {
    onMessage: () => {
      throw bug;
    },
  });
  await source.start();
  while (failures.length === 0) {
    await socket.send(["", Buffer.alloc(8), "x"]);
    await turn();
  }
  expect(failures).toEqual([bug]);
  await source.close();
});

test("an address that is taken is a failure by code", async () => {
  const first = follow("tcp://127.0.0.1:*", { mode: "bind" });
  const address = await first.source.start();
  const second = follow(address, { mode: "bind" });
  await expect(second.source.start()).rejects.toMatchObject({ code: "engine_socket_failed" });
});

// Goal: timers and streams are served while a backlog is read. Method: the handler takes 1 ms of a
// clock that only it moves; in a backlog of 300 messages the event loop must have had a turn at
// least every few.
test("the reader gives way to the event loop by time", async () => {
  const { socket, endpoint } = await publish();
  let nowMs = 0;
  let turnsSeen = 0;
  let longestRun = 0;
  let run = 0;
  let isCounting = true;
  const { source, messages } = follow(endpoint, {
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    onMessage: (frames) => {
      messages.push(frames.map((frame) => Buffer.from(frame)));
      nowMs += 1;
      run += 1;
      longestRun = Math.max(longestRun, run);
    },
  });
  await source.start();
  await untilReceived(socket, messages);
  const countTurns = async (): Promise<void> => {
    while (isCounting) {
      run = 0;
      turnsSeen += 1;
      await turn();
    }
  };
  const counting = countTurns();
  const target = messages.length + 300;
  for (let i = 0; i < 300; i++) await socket.send(["", Buffer.alloc(8), "x"]);
  await until(() => messages.length >= target);
  isCounting = false;
  await counting;
  expect(longestRun).toBeLessThanOrEqual(4);
  expect(turnsSeen).toBeGreaterThan(10);
});

test("endpoints: wildcards become loopback, bare IPv6 gets brackets, nonsense is refused", () => {
  const good: [string, "connect" | "bind", string][] = [
    ["tcp://*:5557", "connect", "tcp://127.0.0.1:5557"],
    ["tcp://0.0.0.0:5557", "connect", "tcp://127.0.0.1:5557"],
    ["tcp://[::]:5557", "connect", "tcp://[::1]:5557"],
    ["tcp://:::5557", "connect", "tcp://[::1]:5557"],
    ["tcp://fd00::5:5557", "connect", "tcp://[fd00::5]:5557"],
    ["tcp://[fd00::5]:5557", "connect", "tcp://[fd00::5]:5557"],
    ["tcp://engine-0.pods:5557", "connect", "tcp://engine-0.pods:5557"],
    ["tcp://*:5557", "bind", "tcp://*:5557"],
    ["tcp://[::]:5557", "bind", "tcp://[::]:5557"],
    ["tcp://127.0.0.1:*", "bind", "tcp://127.0.0.1:*"],
    ["ipc:///run/kv.sock", "connect", "ipc:///run/kv.sock"],
  ];
  for (const [endpoint, mode, address] of good) {
    expect(engineAddress(endpoint, mode)).toBe(address);
  }
  const bad = [
    "",
    "127.0.0.1:5557",
    "inproc://kv",
    "tcp://",
    "tcp://host",
    "tcp://:5557",
    "tcp://host:",
    "tcp://host:0",
    "tcp://host:65536",
    "tcp://host:*",
    "tcp://host:55 57",
    "tcp://ho st:5557",
    "tcp://host/path:5557",
    "tcp://[fd00::5:5557",
    "tcp://[host]:5557",
    "ipc://",
    `ipc:///${"x".repeat(107)}`,
  ];
  for (const endpoint of bad) {
    expect(() => engineAddress(endpoint, "connect"), endpoint).toThrowError(
      expect.objectContaining({ code: "engine_endpoint_invalid" }),
    );
  }
});
