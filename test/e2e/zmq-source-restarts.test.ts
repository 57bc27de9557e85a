/**
 * What it is: claims about the ZMQ adapter when its publisher, a process of its own, dies, stands still or is left.
 * Owns: the sockets and processes of each test, ended after it.
 * Refuses: nothing.
 * Does not do: sleep.
 */
import { setImmediate as turn } from "node:timers/promises";
import { systemClock, systemTimers } from "@kv-group-bridge/runtime";
import { afterEach, describe, expect, test } from "vitest";
import { Publisher } from "zeromq";
import { ZmqSource, type ZmqSourceOptions } from "../../src/bridge/dist/zmq-source.js";
import { freeEndpoint } from "../support/free-endpoint.ts";
import { PublisherProcess } from "../support/publisher-process.ts";
import { turns, until } from "../support/until.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** What was told, in order: "true", "false" and the last frame of each message, equal neighbours once. */
function follow(endpoint: string, options: Partial<ZmqSourceOptions> = {}) {
  const told: string[] = [];
  const failures: unknown[] = [];
  const tell = (line: string): void => {
    if (told.at(-1) !== line) told.push(line);
  };
  const source = new ZmqSource({
    endpoint,
    mode: "connect",
    clock: systemClock,
    timers: systemTimers,
    onMessage: (frames) => tell(Buffer.from(frames.at(-1) ?? []).toString()),
    onConnection: (isConnected) => tell(String(isConnected)),
    onFailure: (error) => failures.push(error),
    ...options,
  });
  closers.push(() => source.close());
  return { source, told, failures };
}

async function processAt(endpoint: string, name: string): Promise<PublisherProcess> {
  const publisher = new PublisherProcess(endpoint);
  closers.push(() => publisher.kill());
  await publisher.start(name);
  return publisher;
}

/** What was told without the order between a handshake and the first message, which are two queues. */
const connectionsIn = (told: readonly string[]): readonly string[] =>
  told.filter((line) => line === "true" || line === "false");

// libzmq renews the subscription on the new connection because the reader is always inside `receive`.
test("a publisher that is killed and started again on its port is heard again, each time", async () => {
  const endpoint = await freeEndpoint();
  const publisher = await processAt(endpoint, "life 0");
  const { source, told, failures } = follow(endpoint);
  await source.start();
  await until(() => told.includes("life 0"));
  for (let life = 1; life <= 5; life++) {
    await publisher.kill();
    await publisher.start(`life ${life}`);
    await until(() => told.includes(`life ${life}`));
  }
  await until(() => connectionsIn(told).length === 11);
  expect(connectionsIn(told)).toEqual(["true", ...Array(5).fill(["false", "true"]).flat()]);
  const lives = new Set(told.filter((line) => line.startsWith("life")));
  expect([...lives]).toEqual([0, 1, 2, 3, 4, 5].map((life) => `life ${life}`));
  expect(failures).toEqual([]);
});

// Its connection stays open, so nothing but the ping tells. The times are the shortest that a busy machine keeps.
test("a publisher that stands still is told by the heartbeat, and heard again when it goes on", async () => {
  const endpoint = await freeEndpoint();
  const publisher = await processAt(endpoint, "life");
  const { source, told, failures } = follow(endpoint, {
    heartbeat: { intervalMs: 100, timeoutMs: 1_000 },
  });
  await source.start();
  await until(() => told.includes("life") && told.includes("true"));
  publisher.stop();
  await until(() => told.at(-1) === "false");
  const before = told.length;
  publisher.resume();
  await until(() => told.slice(before).includes("life") && told.slice(before).includes("true"));
  expect(failures).toEqual([]);
});

describe("reopen", () => {
  test("leaves the connection for a new one: told false, then true, and heard again", async () => {
    const endpoint = await freeEndpoint();
    await processAt(endpoint, "life");
    const { source, told, failures } = follow(endpoint);
    await source.start();
    for (let round = 1; round <= 3; round++) {
      await until(() => told.at(-1) === "life" && connectionsIn(told).at(-1) === "true");
      const before = told.length;
      source.reopen();
      source.reopen();
      expect(told.length).toBe(before);
      await until(() => told.length > before);
      expect(told[before]).toBe("false");
    }
    await until(() => told.at(-1) === "life" && connectionsIn(told).at(-1) === "true");
    expect(connectionsIn(told)).toEqual([
      "true",
      "false",
      "true",
      "false",
      "true",
      "false",
      "true",
    ]);
    expect(failures).toEqual([]);
  });

  // Goal: nothing of the old socket arrives. Method: the callback itself reopens while hundreds of messages wait.
  test("by a callback: the messages that wait in the old socket never arrive", async () => {
    const publisher = new Publisher({ linger: 0 });
    closers.push(() => publisher.close());
    await publisher.bind("tcp://127.0.0.1:*");
    const sequences: number[] = [];
    const connections: boolean[] = [];
    const { source, failures } = follow(publisher.lastEndpoint ?? "", {
      onMessage: ([, sequence]) => {
        sequences.push(Number(Buffer.from(sequence ?? []).toString()));
        if (sequences.at(-1) === 10) source.reopen();
      },
      onConnection: (isConnected) => connections.push(isConnected),
    });
    await source.start();
    while (sequences.length === 0) {
      await publisher.send(["", "0", ""]);
      await turn();
    }
    for (let n = 1; n <= 500; n++) await publisher.send(["", String(n), ""]);
    await until(() => sequences.includes(10));
    await until(() => connections.length === 3);
    const left = sequences.length;
    while (sequences.length === left) {
      await publisher.send(["", "1000", ""]);
      await turn();
    }
    expect(sequences.filter((n) => n > 0 && n < 1000)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(connections).toEqual([true, false, true]);
    expect(failures).toEqual([]);
  });

  test("by the callback of the connection begins anew as well", async () => {
    const endpoint = await freeEndpoint();
    await processAt(endpoint, "life");
    const connections: boolean[] = [];
    const { source, told, failures } = follow(endpoint, {
      onConnection: (isConnected) => {
        connections.push(isConnected);
        if (connections.length === 1) source.reopen();
      },
    });
    await source.start();
    await until(() => connections.length === 3 && told.includes("life"));
    expect(connections).toEqual([true, false, true]);
    expect(failures).toEqual([]);
  });

  test("without a connection tells no loss, and finds a publisher that comes later", async () => {
    const endpoint = await freeEndpoint();
    const { source, told } = follow(endpoint);
    await source.start();
    source.reopen();
    await turns(20);
    await processAt(endpoint, "life");
    await until(() => told.includes("life") && told.includes("true"));
    expect(connectionsIn(told)).toEqual(["true"]);
  });

  test("before the start, where the bridge binds and after the close does nothing", async () => {
    const { source, told, failures } = follow("tcp://127.0.0.1:*", { mode: "bind" });
    source.reopen();
    const address = await source.start();
    const publisher = new Publisher({ linger: 0 });
    closers.push(() => publisher.close());
    publisher.connect(address);
    const heard = async (): Promise<void> => {
      const before = told.filter((line) => line.startsWith("n")).length;
      for (let n = 0; told.filter((line) => line.startsWith("n")).length === before; n++) {
        await publisher.send(["", "", `n${n}`]);
        await turn();
      }
    };
    await heard();
    source.reopen();
    await heard();
    expect(connectionsIn(told)).not.toContain("false");
    await source.close();
    const before = told.length;
    source.reopen();
    await turns(50);
    expect(told.length).toBe(before);
    expect(failures).toEqual([]);
  });

  test("that the close overtakes opens nothing", async () => {
    const endpoint = await freeEndpoint();
    await processAt(endpoint, "life");
    const { source, told, failures } = follow(endpoint);
    await source.start();
    await until(() => told.includes("life") && told.includes("true"));
    source.reopen();
    await source.close();
    const before = told.length;
    await turns(200);
    expect(told.length).toBe(before);
    expect(failures).toEqual([]);
  });
});
