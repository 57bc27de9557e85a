/**
 * What it is: claims about peers of the bridge's port that mean it harm or are broken.
 * Goal: the bridge stays up, serves others, holds bounded memory, keeps no handle of who is gone.
 * Method: a real HTTP/2 listener on loopback over a real pipeline; peers are Connect clients, raw
 * HTTP/2 sessions and raw sockets. After each attack a sound client is served.
 */
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { BridgeService, Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { afterEach, describe, expect, test } from "vitest";
import { BridgeServer } from "../../src/bridge/dist/bridge-server.js";
import { FanOut } from "../../src/bridge/dist/index.js";
import { LIMITS } from "../../src/protocol/dist/index.js";
import { systemTimers, type Timers } from "../../src/runtime/dist/index.js";
import { SeededRandomness } from "../support/seeded-randomness.ts";
import { batchOf, CLEAR, every, framesOf, pipelineOf, R, rem } from "../support/smg-notation.ts";
import { turns, until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const PATH = "/kvgroup.v1.BridgeService/Subscribe";
const MEBIBYTE = 2 ** 20;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function serve(
  options: { readonly queueBytes?: number; readonly resumeRingBytes?: number } = {},
  timers: Timers = systemTimers,
) {
  const pipeline = pipelineOf({ emit: (output) => fanOut.publish(output) });
  const fanOut: FanOut = new FanOut({ view: pipeline, instance: 1n, ...options });
  pipeline.setConnected(true);
  const server = new BridgeServer({
    host: "127.0.0.1",
    port: 0,
    tls: undefined,
    timers,
    service: {
      ranks: new Map([[0, { fanOut, describe: () => pipeline.describe(0) }]]),
      keyScheme: pipeline.keyScheme(),
      isEngineProjectionAllowed: false,
      bridgeVersion: "test",
    },
    shutdownGraceMs: 200,
  });
  const { port } = await server.start();
  closers.push(() => server.close());
  const url = `http://127.0.0.1:${port}`;
  const client = createClient(BridgeService, createGrpcTransport({ baseUrl: url }));
  let next = 0;
  const publish = (...events: readonly unknown[]): void => {
    pipeline.receive(framesOf(next++, batchOf(events)), 0);
  };
  return { server, fanOut, port, url, client, publish };
}

function follow(client: Client<typeof BridgeService>, request: Record<string, unknown> = {}) {
  const abort = new AbortController();
  closers.push(() => abort.abort());
  const stream = client.subscribe(request, { signal: abort.signal })[Symbol.asyncIterator]();
  const next = async () => (await stream.next()).value?.message.case;
  return { next, abort };
}

async function codeOf(promise: Promise<unknown>): Promise<Code | undefined> {
  return promise.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

/** A client that behaves gets what it came for. */
async function expectServed(client: Client<typeof BridgeService>): Promise<void> {
  const { next, abort } = follow(client);
  expect(await next()).toBe("start");
  abort.abort();
  expect((await client.describe({})).ranks).toHaveLength(1);
}

function session(port: number): ClientHttp2Session {
  const opened = connectHttp2(`http://127.0.0.1:${port}`);
  opened.on("error", () => {});
  closers.push(() => opened.destroy());
  return opened;
}

/** One gRPC call with a body of these bytes. */
function call(opened: ClientHttp2Session, body: Uint8Array | undefined, path = PATH) {
  const request = opened.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  request.on("error", () => {});
  if (body !== undefined) request.end(grpcFrame(body));
  return request;
}

function grpcFrame(body: Uint8Array): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

function heldMebibytes(): number {
  collectGarbage();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return (heapUsed + external + arrayBuffers) / MEBIBYTE;
}

describe("subscriptions", () => {
  test("a rank that does not exist is NOT_FOUND, and leaves nothing", async () => {
    const { client, fanOut } = await serve();
    for (const dpRank of [1, 2 ** 32 - 1]) {
      expect(await codeOf(follow(client, { dpRank }).next())).toBe(Code.NotFound);
    }
    expect(fanOut.subscriberCount).toBe(0);
  });

  test("a projection that nobody knows, and ENGINE, are refused and leave nothing", async () => {
    const { client, fanOut } = await serve();
    const refused = [Projection.ENGINE, 99];
    const codes = await Promise.all(
      refused.map((projection) => codeOf(follow(client, { projection }).next())),
    );
    expect(codes).toEqual([Code.PermissionDenied, Code.InvalidArgument]);
    expect(fanOut.subscriberCount).toBe(0);
  });

  test("the 65th subscription is refused, the 64 before live on, and a place is free again", async () => {
    const { client, fanOut, publish } = await serve();
    publish();
    const limit = LIMITS.subscribersPerRank.value;
    const streams = Array.from({ length: limit }, () => follow(client));
    for (const { next } of streams) expect([await next(), await next()]).toHaveLength(2);
    expect(await codeOf(follow(client).next())).toBe(Code.ResourceExhausted);
    publish();
    const cases = await Promise.all(streams.map(({ next }) => next()));
    expect(new Set(cases)).toEqual(new Set(["batch"]));
    streams[0]?.abort.abort();
    await until(() => fanOut.subscriberCount === limit - 1);
    await expectServed(client);
  });

  test("500 come and go: no subscriber, no handle and no listener is left", async () => {
    const warnings: string[] = [];
    const warn = (warning: Error): number => warnings.push(warning.message);
    process.on("warning", warn);
    closers.push(() => process.off("warning", warn));
    const { client, fanOut, port } = await serve();
    await expectServed(client);
    await until(() => fanOut.subscriberCount === 0);
    const handles = process.getActiveResourcesInfo().length;
    for (let turn = 0; turn < 500; turn++) {
      const opened = session(port);
      const request = call(opened, new Uint8Array());
      await once(request, "response");
      if (turn % 2 === 0) request.close(constants.NGHTTP2_CANCEL);
      opened.destroy();
    }
    await until(() => fanOut.subscriberCount === 0);
    await until(() => process.getActiveResourcesInfo().length <= handles + 2);
    expect(warnings).toEqual([]);
    await expectServed(client);
  });

  test("a thousand streams that are reset at once leave no subscriber", async () => {
    const { client, fanOut, port } = await serve();
    const opened = session(port);
    for (let turn = 0; turn < 1000; turn++) {
      call(opened, new Uint8Array()).close(constants.NGHTTP2_CANCEL);
    }
    await until(() => fanOut.subscriberCount === 0);
    opened.destroy();
    await expectServed(client);
    await until(() => fanOut.subscriberCount === 0);
  });

  test("who stops reading while the engine publishes holds no more than its queue", async () => {
    const queueBytes = MEBIBYTE;
    // The ring is the rank's, not the subscriber's.
    const { client, fanOut, port, publish } = await serve({ queueBytes, resumeRingBytes: 0 });
    const request = call(session(port), new Uint8Array());
    await once(request, "response");
    request.pause();
    const { next } = follow(client);
    await next();
    await next();
    const before = heldMebibytes();
    const hashes = every(1, 8000);
    const store = R(0, "full", 0, 1, [], 0, { block_hashes: hashes, token_ids: hashes });
    for (let turn = 0; turn < 300; turn++) {
      publish(CLEAR, store, rem(0, [], { block_hashes: hashes }));
      if (turn % 10 === 0) expect(await next()).toBeDefined();
    }
    fanOut.audit();
    expect(fanOut.counters().overflows).toBeGreaterThan(1);
    expect(heldMebibytes() - before).toBeLessThan(40);
  });
});

describe("requests", () => {
  test("a request beyond the limit is refused, and the next client is served", async () => {
    const { client, port } = await serve();
    const request = call(session(port), new Uint8Array(LIMITS.requestBytes.value + 1));
    let status: unknown;
    request.on("trailers", (trailers) => (status = trailers["grpc-status"]));
    request.on("response", (headers) => (status ??= headers["grpc-status"]));
    request.resume();
    await once(request, "close");
    expect(Number(status)).toBe(Code.ResourceExhausted);
    await expectServed(client);
  });

  test("a request stuffed with unknown fields keeps none of them, a larger one is refused", async () => {
    const { client, fanOut, port } = await serve();
    await expectServed(client);
    await until(() => fanOut.subscriberCount === 0);
    // Field 15 as a varint of 0, again and again; a call's body has five bytes before it.
    const body = new Uint8Array(LIMITS.subscribeRequestBytes.value - 64);
    for (let at = 0; at < body.length; at += 2) body[at] = 0x78;
    const before = heldMebibytes();
    const streams = Array.from({ length: 20 }, () => call(session(port), body));
    for (const stream of streams) stream.resume();
    await until(() => fanOut.subscriberCount === streams.length);
    expect(heldMebibytes() - before).toBeLessThan(32);
    const larger = call(session(port), new Uint8Array(LIMITS.subscribeRequestBytes.value + 64));
    larger.resume();
    await once(larger, "close");
    expect(fanOut.subscriberCount).toBe(streams.length);
  });

  const bodies: readonly (readonly [string, Uint8Array])[] = [
    ["a field that is cut short", Uint8Array.of(0x12)],
    ["a group that never ends", Uint8Array.of(0x7b)],
    ["a varint of 11 bytes", new Uint8Array(11).fill(0xff)],
    ["a length beyond the end", Uint8Array.of(0x22, 0xff, 0xff, 0xff, 0x07)],
    ["a thousand groups in each other", new Uint8Array(1000).fill(0x7b)],
  ];
  for (const [name, body] of bodies) {
    test(`${name} ends its own call only`, async () => {
      const { client, fanOut, port } = await serve();
      const request = call(session(port), body);
      request.resume();
      await once(request, "close");
      expect(fanOut.subscriberCount).toBe(0);
      await expectServed(client);
    });
  }

  test("calls that never send their body take no place among the subscribers", async () => {
    const { client, fanOut, port } = await serve();
    const opened = session(port);
    for (let turn = 0; turn < 200; turn++) call(opened, undefined);
    await expectServed(client);
    await until(() => fanOut.subscriberCount === 0);
  });

  test("a JSON client gets every message as JSON, and no resumption without an instance", async () => {
    const { url, fanOut, publish } = await serve();
    publish(R(0, "full", 0, 4, [4, 8], 8));
    const transport = createConnectTransport({
      baseUrl: url,
      httpVersion: "2",
      useBinaryFormat: false,
    });
    const client = createClient(BridgeService, transport);
    const abort = new AbortController();
    closers.push(() => abort.abort());
    const request = { resume: { epoch: 1n, sequenceNumber: 0n } };
    const stream = client.subscribe(request, { signal: abort.signal });
    const cases: (string | undefined)[] = [];
    for await (const { message } of stream) {
      cases.push(message.case);
      if (message.case === "start") expect(message.value.isResumed).toBe(false);
      if (cases.length === 3) publish(rem(0, [], { block_hashes: [true] }), CLEAR);
      if (message.case === "batch") break;
    }
    expect(cases).toEqual(["start", "snapshotChunk", "snapshotChunk", "withdraw", "batch"]);
    fanOut.audit();
  });
});

describe("bytes that are no call", () => {
  const random = new SeededRandomness(23);
  const noise = Uint8Array.from({ length: 65_536 }, () => random.below(256));
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const attacks: readonly (readonly [string, Uint8Array])[] = [
    ["64 KiB of noise", noise],
    ["a plain HTTP/1.1 request", Buffer.from(`POST ${PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)],
    ["a TLS hello", Buffer.from("16030100a5010000a10303", "hex")],
    ["the preface, then noise", Buffer.concat([preface, noise])],
    ["half a preface", preface.subarray(0, 10)],
    [
      "the preface, settings, and a frame of 16 MiB",
      Buffer.concat([
        preface,
        Buffer.from("000000040000000000", "hex"),
        Buffer.from("ffffff0000", "hex"),
      ]),
    ],
  ];
  for (const [name, bytes] of attacks) {
    test(`${name}: others are served, and nothing is left once it is gone`, async () => {
      const { client, fanOut, port } = await serve();
      const sockets: Socket[] = [];
      for (let turn = 0; turn < 20; turn++) {
        const socket = connectTcp(port, "127.0.0.1");
        socket.on("error", () => {});
        socket.write(bytes);
        sockets.push(socket);
      }
      await expectServed(client);
      for (const socket of sockets) socket.destroy();
      await until(() => fanOut.subscriberCount === 0);
      await expectServed(client);
    });
  }
});

describe("shutdown", () => {
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const settings = Buffer.from("000000040000000000", "hex");
  for (const [name, bytes] of [
    ["says nothing", new Uint8Array()],
    ["spoke HTTP/2", Buffer.concat([preface, settings])],
  ] as const) {
    test(`a peer that ${name} and keeps its half of the connection does not hold it`, async () => {
      const clock = new VirtualClock();
      const { server, port } = await serve({}, clock);
      const peer = connectTcp({ port, host: "127.0.0.1", allowHalfOpen: true });
      closers.push(() => peer.destroy());
      peer.on("error", () => {});
      peer.resume();
      peer.write(bytes);
      await once(peer, "connect");
      await turns(200);
      let isClosed = false;
      void server.close().then(() => {
        isClosed = true;
      });
      await turns(200);
      clock.advance(LIMITS.shutdownGraceMs.value);
      await turns(2000);
      expect(isClosed).toBe(true);
    });
  }

  test("a client that holds a stream without reading it does not hold it", async () => {
    const clock = new VirtualClock();
    const { server, client } = await serve({}, clock);
    const { next } = follow(client);
    expect(await next()).toBe("start");
    let isClosed = false;
    void server.close().then(() => {
      isClosed = true;
    });
    await turns(200);
    clock.advance(LIMITS.shutdownGraceMs.value);
    await turns(2000);
    expect(isClosed).toBe(true);
  });
});
