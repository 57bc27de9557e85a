/**
 * What it is: claims about a whole bridge: real publishers in, real Connect clients out.
 * Owns: the bridges, sockets and clients of each test, closed after it.
 * Refuses: nothing.
 * Does not do: sleep; what a slow joiner may miss is published again.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import {
  BridgeService,
  Projection,
  type SubscribeResponse,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { LIMITS, parseDpRank, parseEpoch } from "@kv-group-bridge/protocol";
import {
  createMetrics,
  type Log,
  silentLog,
  systemClock,
  systemTimers,
  type Timers,
} from "@kv-group-bridge/runtime";
import { Encoder } from "@msgpack/msgpack";
import { afterEach, expect, test } from "vitest";
import { Publisher } from "zeromq";
import { ARRIVAL_HINT_AFTER_MS } from "../../src/bridge/dist/arrival-watch.js";
import {
  type BridgeDeps,
  type BridgeSettings,
  runBridge,
} from "../../src/bridge/dist/bridge-process.js";
import { UNSTATED_ENGINE } from "../../src/bridge/dist/engine-config.js";
import { freeEndpoint } from "../support/free-endpoint.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function rank(value: number, endpoint: string) {
  const dpRank = parseDpRank(value);
  if (dpRank === undefined) throw new TypeError("a rank is a uint32");
  return { dpRank, endpoint };
}

async function run(settings: Partial<BridgeSettings>, deps: Partial<BridgeDeps> = {}) {
  let epochs = 0n;
  const fatal: unknown[] = [];
  const bridge = await runBridge(
    {
      ranks: [],
      mode: "connect",
      topic: undefined,
      engine: UNSTATED_ENGINE,
      keySeed: "seed",
      isEngineProjectionAllowed: false,
      subscriberQueueBytes: undefined,
      subscribersPerRank: undefined,
      heartbeatIntervalMs: undefined,
      listen: { host: "127.0.0.1", port: 0, tls: undefined },
      health: { host: "127.0.0.1", port: 0 },
      ...settings,
    },
    {
      clock: systemClock,
      timers: systemTimers,
      log: silentLog,
      metrics: createMetrics(),
      mintEpoch: () => {
        const epoch = parseEpoch(++epochs);
        if (epoch === undefined) throw new TypeError("an epoch is not 0");
        return epoch;
      },
      mintInstance: () => 77n,
      bridgeVersion: "0.0.0-test",
      onFatal: (error) => fatal.push(error),
      ...deps,
    },
  );
  closers.push(() => bridge.close());
  const client = createClient(
    BridgeService,
    createGrpcTransport({ baseUrl: `http://127.0.0.1:${bridge.address.port}` }),
  );
  return { bridge, client, fatal };
}

async function engine() {
  const socket = new Publisher({ linger: 0 });
  closers.push(() => socket.close());
  await socket.bind("tcp://127.0.0.1:*");
  return { socket, endpoint: socket.lastEndpoint ?? "" };
}

const encoder = new Encoder({ useBigInt64: true });

function storeFrames(sequence: number, hash: number): [string, Buffer, Uint8Array] {
  const frame = Buffer.alloc(8);
  frame.writeBigUInt64BE(BigInt(sequence));
  const event = ["BlockStored", [hash], null, [hash, 2, 3, 4], 4, null, "GPU"];
  return ["", frame, encoder.encode([1.5, [event]])];
}

/** A rank's stream as an array that grows; only the abort at the end of the test ends it. */
function record(
  client: Awaited<ReturnType<typeof run>>["client"],
  dpRank: number,
  projection = Projection.PREFIX_KEYS,
) {
  const abort = new AbortController();
  closers.push(() => abort.abort());
  const messages: SubscribeResponse["message"][] = [];
  const ends: ConnectError[] = [];
  const read = async (): Promise<void> => {
    try {
      const stream = client.subscribe({ dpRank, projection }, { signal: abort.signal });
      for await (const { message } of stream) messages.push(message);
    } catch (error) {
      ends.push(ConnectError.from(error));
    }
  };
  const done = read();
  return { messages, ends, done };
}

test("what each rank's engine publishes reaches the subscribers of that rank only", async () => {
  const zero = await engine();
  const five = await engine();
  const { bridge, client, fatal } = await run({
    ranks: [rank(5, five.endpoint), rank(0, zero.endpoint)],
  });
  const streams = [record(client, 0), record(client, 5)];
  const hasBatch = (index: number): boolean =>
    streams[index]?.messages.some((message) => message.case === "batch") ?? false;
  let sequence = 0;
  while (!hasBatch(0) || !hasBatch(1)) {
    await zero.socket.send(storeFrames(sequence, 1000 + sequence));
    await five.socket.send(storeFrames(sequence, 2000 + sequence));
    sequence += 1;
    await turn();
  }
  const { ranks } = await client.describe({});
  expect(ranks.map((each) => [each.dpRank, each.subscribers, each.isEngineConnected])).toEqual([
    [0, 1, true],
    [5, 1, true],
  ]);
  expect(ranks.every((each) => each.placedBlocks > 0n)).toBe(true);
  expect(streams[0]?.messages[0]?.case).toBe("start");
  const metrics = await fetch(`http://127.0.0.1:${bridge.healthAddress?.port}/metrics`);
  const text = await metrics.text();
  expect(text).toContain('kvgroup_bridge_subscribers{dp_rank="5"} 1');
  expect(text).toContain('kvgroup_bridge_engine_connected{dp_rank="0"} 1');
  expect(text).toMatch(/kvgroup_bridge_counter_total\{dp_rank="0",name="batches"\} \d+/);
  expect(fatal).toEqual([]);
});

test.each([
  [true, 1],
  [false, 0],
])(
  "a late ENGINE subscriber gets a snapshot where it is configured: %s",
  async (isAsked, pieces) => {
    const { socket, endpoint } = await engine();
    const { client } = await run({
      ranks: [rank(0, endpoint)],
      isEngineProjectionAllowed: true,
      hasEngineSnapshot: isAsked,
    });
    const early = record(client, 0);
    for (
      let sequence = 0;
      !early.messages.some((message) => message.case === "batch");
      sequence++
    ) {
      await socket.send(storeFrames(sequence, 1000));
      await turn();
    }
    const late = record(client, 0, Projection.ENGINE);
    await until(() => late.messages.length > pieces);
    const [start, piece] = late.messages;
    expect(start?.case === "start" && start.value.hasSnapshot).toBe(isAsked);
    const events = piece?.case === "snapshotChunk" ? piece.value.events : [];
    expect(events.map(({ tokenIds }) => tokenIds)).toEqual(isAsked ? [[1000, 2, 3, 4]] : []);
  },
);

test("a lost engine is told to subscribers at once, by a heartbeat", async () => {
  const { socket, endpoint } = await engine();
  const { client } = await run({ ranks: [rank(0, endpoint)] });
  const { messages } = record(client, 0);
  const states = (): boolean[] =>
    messages.flatMap((message) =>
      message.case === "heartbeat" || message.case === "start"
        ? [message.value.isEngineConnected]
        : [],
    );
  await until(() => states().at(-1) === true);
  socket.close();
  await until(() => states().at(-1) === false);
});

test("a bridge serves and is ready while no engine is there, and says so once", async () => {
  const lines: string[] = [];
  const log: Log = { ...silentLog, warn: (_, message) => lines.push(message), child: () => log };
  let nowMs = 0;
  const ticks: (() => void)[] = [];
  const timers: Timers = {
    after: (delayMs, action) => systemTimers.after(delayMs, action),
    every: (periodMs, action) => {
      if (periodMs === LIMITS.heartbeatIntervalMs.value) ticks.push(action);
      return () => {};
    },
  };
  const endpoint = await freeEndpoint();
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  const { bridge, client } = await run({ ranks: [rank(0, endpoint)] }, { log, timers, clock });
  const ready = await fetch(`http://127.0.0.1:${bridge.healthAddress?.port}/readyz`);
  expect(ready.status).toBe(200);
  const { messages } = record(client, 0);
  await until(() => messages.length === 2);
  for (; nowMs <= 5 * ARRIVAL_HINT_AFTER_MS; nowMs += 5000) for (const tick of ticks) tick();
  expect(lines.length).toBe(1);
  expect(lines[0]).toContain("not connected");
  await until(() => messages.some((message) => message.case === "heartbeat"));
});

test("the configured heartbeat interval is kept and told", async () => {
  const endpoint = await freeEndpoint();
  const { client } = await run({ ranks: [rank(0, endpoint)], heartbeatIntervalMs: 20 });
  const { messages } = record(client, 0);
  await until(() => messages.filter((message) => message.case === "heartbeat").length > 2);
  const [start] = messages;
  expect(start?.case === "start" && start.value.heartbeatIntervalMs).toBe(20);
});

test("a process that stood still does not say that its engine is there before its sockets had their time", async () => {
  let nowMs = 0;
  const turnMs = LIMITS.stallMs.value / 4;
  const takeTurns: (() => void)[] = [];
  const timers: Timers = {
    after: (delayMs, action) => systemTimers.after(delayMs, action),
    every: (periodMs, action) => {
      if (periodMs === turnMs) takeTurns.push(action);
      return () => {};
    },
  };
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  const { endpoint } = await engine();
  const lines: unknown[] = [];
  const log: Log = {
    ...silentLog,
    warn: (fields, message) => lines.push({ ...fields, message }),
    child: () => silentLog,
  };
  const { client } = await run({ ranks: [rank(0, endpoint)] }, { timers, clock, log });
  const isConnected = async (): Promise<boolean | undefined> =>
    (await client.describe({})).ranks[0]?.isEngineConnected;
  while ((await isConnected()) !== true);
  const { messages } = record(client, 0);
  await until(() => messages.length >= 2);
  const told = (): readonly boolean[] =>
    messages.flatMap((message) =>
      message.case === "heartbeat" ? [message.value.isEngineConnected] : [],
    );
  const before = told().length;
  const turnAfter = (delayMs: number): void => {
    nowMs += delayMs;
    for (const turn of takeTurns) turn();
  };
  nowMs += LIMITS.stallMs.value + 1;
  expect(await isConnected(), "who asks before the first turn").toBe(false);
  turnAfter(0);
  await until(() => told().slice(before).includes(false));
  turnAfter(LIMITS.wakeGraceMs.value);
  await until(() => told().at(-1) === true);
  expect(await isConnected()).toBe(true);
  const message = expect.stringContaining("stood still");
  expect(lines).toEqual([{ stalledMs: LIMITS.stallMs.value + 1, message }]);
  turnAfter(LIMITS.stallMs.value + 1);
  expect(lines.length, "once a minute").toBe(1);
});

test("a start that takes long, as with a large checkpoint, is no standstill", async () => {
  const lines: string[] = [];
  const log: Log = { ...silentLog, warn: (_, message) => lines.push(message), child: () => log };
  const beginsMs = [0];
  const startedMs = LIMITS.stallMs.value * 10;
  const monotonicMs = (): number => beginsMs.shift() ?? startedMs;
  const turns: (() => void)[] = [];
  const timers: Timers = {
    after: (delayMs, action) => systemTimers.after(delayMs, action),
    every: (periodMs, action) => {
      if (periodMs === LIMITS.stallMs.value / 4) turns.push(action);
      return () => {};
    },
  };
  const clock = { nowMs: () => startedMs, monotonicMs };
  await run({ ranks: [rank(0, await freeEndpoint())] }, { timers, clock, log });
  expect(beginsMs).toEqual([]);
  for (const turn of turns) turn();
  expect(turns.length).toBe(1);
  expect(lines).toEqual([]);
});

test("close ends streams with UNAVAILABLE, frees all ports, and may be called twice", async () => {
  const { endpoint } = await engine();
  const { bridge, client } = await run({ ranks: [rank(0, endpoint)] });
  const stream = record(client, 0);
  await until(() => stream.messages.length >= 2);
  await Promise.all([bridge.close(), bridge.close()]);
  await stream.done;
  expect(stream.ends.map((error) => error.code)).toEqual([Code.Unavailable]);
  const { address } = bridge;
  const again = await run({
    ranks: [rank(0, endpoint)],
    listen: { ...address, tls: undefined },
    health: bridge.healthAddress,
  });
  expect(again.bridge.address.port).toBe(address.port);
});

test("a bridge that cannot open leaves nothing open", async () => {
  const { endpoint } = await engine();
  const first = await run({ ranks: [rank(0, endpoint)] });
  const { port } = first.bridge.address;
  const taken = run({
    ranks: [rank(0, endpoint)],
    listen: { host: "127.0.0.1", port, tls: undefined },
  });
  const message = expect.stringContaining("EADDRINUSE");
  await expect(taken).rejects.toMatchObject({ code: "listen_failed", message });
  const twice = run({ ranks: [rank(0, endpoint), rank(0, endpoint)] });
  await expect(twice).rejects.toMatchObject({ code: "config_invalid" });
  await expect(run({})).rejects.toMatchObject({ code: "config_invalid" });
  const nonsense = run({ ranks: [rank(0, "udp://x")] });
  await expect(nonsense).rejects.toMatchObject({ code: "engine_endpoint_invalid" });
});

/**
 * A CA and what it signed for localhost; made anew for each run, so that no key lies in the
 * repository.
 */
function makeCertificates() {
  const folder = mkdtempSync(join(tmpdir(), "kvgroup-tls-"));
  closers.push(() => rmSync(folder, { recursive: true }));
  const openssl = (...words: string[]): void => {
    execFileSync("openssl", words, { cwd: folder, stdio: "ignore" });
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const made = (name: string, ...more: string[]): void =>
    openssl("req", "-x509", ...key, "-keyout", `${name}.key`, "-out", `${name}.crt`, ...more);
  made("ca", "-subj", "/CN=test-ca");
  const signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext"];
  made("own", "-subj", "/CN=localhost", ...signed, "subjectAltName=DNS:localhost,IP:127.0.0.1");
  const read = (name: string): string => readFileSync(join(folder, name), "utf8");
  return { ca: read("ca.crt"), cert: read("own.crt"), key: read("own.key") };
}

// Certificates are made with the openssl command: where there is none the test fails, it is never skipped.
test("TLS serves, with a client CA only who has a certificate", async () => {
  const { ca, cert, key } = makeCertificates();
  const { endpoint } = await engine();
  const code = async (port: number, nodeOptions: object): Promise<Code | undefined> => {
    const baseUrl = `https://127.0.0.1:${port}`;
    const client = createClient(BridgeService, createGrpcTransport({ baseUrl, nodeOptions }));
    try {
      await client.describe({});
      return undefined;
    } catch (error) {
      return ConnectError.from(error).code;
    }
  };
  const open = await run({
    ranks: [rank(0, endpoint)],
    listen: { host: "127.0.0.1", port: 0, tls: { cert, key, clientCa: undefined } },
  });
  expect(await code(open.bridge.address.port, { ca })).toBeUndefined();
  expect(await code(open.bridge.address.port, {})).toBeDefined();
  expect(await code(open.bridge.address.port, { ca, maxVersion: "TLSv1.2" })).toBeDefined();
  const mutual = await run({
    ranks: [rank(0, endpoint)],
    listen: { host: "127.0.0.1", port: 0, tls: { cert, key, clientCa: ca } },
  });
  expect(await code(mutual.bridge.address.port, { ca, cert, key })).toBeUndefined();
  expect(await code(mutual.bridge.address.port, { ca })).toBeDefined();
});

test("adapters' paths are read from the engine's API, again and again; a failing API ends nothing", async () => {
  let isFailing = false;
  const api = createServer((_request, response) => {
    if (isFailing) response.writeHead(503).end();
    else response.end('{"data":[{"id":"a","root":"/adapters/a","parent":"base"}]}');
  });
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  closers.push(
    () => api.close(),
    () => api.closeAllConnections(),
  );
  const address = api.address();
  if (address === null || typeof address === "string") expect.fail("it has a port");
  const origin = `http://127.0.0.1:${address.port}`;
  const clock = new VirtualClock();
  const metrics = createMetrics();
  const { endpoint } = await engine();
  const { bridge, fatal } = await run(
    { ranks: [rank(0, endpoint)], engineHttp: { origin, apiKey: undefined } },
    { clock, timers: clock, metrics },
  );
  const shows = async (line: string): Promise<void> => {
    while (!(await metrics.metricsText()).includes(`\n${line}\n`)) await turn();
  };
  clock.advance(0);
  await shows("kvgroup_bridge_lora_paths 1");
  isFailing = true;
  clock.advance(LIMITS.loraPathsIntervalMs.value);
  await shows('kvgroup_bridge_lora_path_reads_total{result="bad_status"} 1');
  await shows("kvgroup_bridge_lora_paths 1");
  isFailing = false;
  clock.advance(LIMITS.loraPathsMinPauseMs.value);
  await shows('kvgroup_bridge_lora_path_reads_total{result="ok"} 2');
  await bridge.close();
  expect([clock.pendingTimers, fatal]).toEqual([0, []]);
});
