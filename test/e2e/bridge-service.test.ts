/**
 * What it is: claims about the served stream, with a real HTTP/2 server and real clients on
 * loopback.
 * Owns: the servers and clients of each test, closed after it.
 * Refuses: nothing.
 * Does not do: the order of items (test/unit/bridge/fan-out.test.ts does), or engines.
 */
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { setImmediate as turn } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import {
  BridgeService,
  CursorSchema,
  HeartbeatSchema,
  KeySchemeSchema,
  Projection,
  RankDescriptionSchema,
  type SubscribeRequest,
  SubscribeRequestSchema,
  type SubscribeResponse,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { systemTimers } from "@kv-group-bridge/runtime";
import { afterEach, expect, test } from "vitest";
import { BridgeServer, type BridgeServerOptions } from "../../src/bridge/dist/bridge-server.js";
import { FanOut, type FanOutOptions } from "../../src/bridge/dist/fan-out.js";
import { REFUSAL_HEADER } from "../../src/bridge/dist/service.js";
import { FakeRank } from "../support/fake-rank.ts";
import { until } from "../support/until.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const SCHEME = create(KeySchemeSchema, { id: "test/1", checkValue: Uint8Array.of(1, 2, 3) });

function makeRank(options: Partial<FanOutOptions> = {}) {
  const rank: FakeRank = new FakeRank((output) => fanOut.publish(output));
  const fanOut = new FanOut({ view: rank, instance: 1n, ...options });
  return { rank, fanOut };
}

async function serve(
  options: Partial<FanOutOptions> & { readonly isEngineProjectionAllowed?: boolean } = {},
  server: Partial<BridgeServerOptions> = {},
) {
  const zero = makeRank(options);
  const four = makeRank(options);
  const served = (dpRank: number, { fanOut }: { readonly fanOut: FanOut }) => ({
    fanOut,
    describe: () => create(RankDescriptionSchema, { dpRank, counters: { batches: 7n } }),
  });
  const bridge = new BridgeServer({
    host: "127.0.0.1",
    port: 0,
    tls: undefined,
    timers: systemTimers,
    service: {
      ranks: new Map([
        [4, served(4, four)],
        [0, served(0, zero)],
      ]),
      keyScheme: SCHEME,
      isEngineProjectionAllowed: options.isEngineProjectionAllowed ?? false,
      bridgeVersion: "0.0.0-test",
    },
    shutdownGraceMs: 200,
    ...server,
  });
  const address = await bridge.start();
  closers.push(() => bridge.close());
  const url = `http://127.0.0.1:${address.port}`;
  const client = createClient(
    BridgeService,
    createGrpcTransport({ baseUrl: url, acceptCompression: [] }),
  );
  return { ...zero, four, bridge, url, port: address.port, client };
}

type Message = SubscribeResponse["message"];

function follow(client: Client<typeof BridgeService>, request: Partial<SubscribeRequest> = {}) {
  const abort = new AbortController();
  closers.push(() => abort.abort());
  const message = Object.assign(create(SubscribeRequestSchema), request);
  const stream = client.subscribe(message, { signal: abort.signal })[Symbol.asyncIterator]();
  const next = async (): Promise<Message> => {
    const step = await stream.next();
    if (step.done === true) throw new TypeError("the stream ended");
    return step.value.message;
  };
  return { next, abort };
}

async function failure(promise: Promise<unknown>): Promise<ConnectError> {
  try {
    await promise;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new TypeError("it did not fail");
}

/** Subscribes to rank 0 by hand, and reads nothing after the response's head. */
async function openUnreadStream(port: number): Promise<ClientHttp2Session> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  closers.push(() => session.destroy());
  const request = session.request({
    ":method": "POST",
    ":path": "/kvgroup.v1.BridgeService/Subscribe",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  request.on("error", () => {});
  // One gRPC frame: not compressed, 0 bytes: a request with every field at its default.
  request.end(Buffer.alloc(5));
  await once(request, "response");
  request.pause();
  return session;
}

test("a stream begins with start, then the snapshot, then typed batches", async () => {
  const { client, rank } = await serve();
  rank.store(1);
  const { next } = follow(client);
  expect((await next()).case).toBe("start");
  const chunk = await next();
  expect(chunk.case === "snapshotChunk" && chunk.value.events[0]?.endTokens).toBe(1);
  const last = await next();
  expect(last.case === "snapshotChunk" && last.value.isLast).toBe(true);
  rank.store(2);
  const batch = await next();
  expect(batch.case === "batch" && batch.value.batch?.events[0]?.endTokens).toBe(2);
  rank.tellEngine("0.33.0");
  const engine = await next();
  expect(engine.case === "engine" && engine.value.vllmVersion).toBe("0.33.0");
  rank.newEpoch();
  expect((await next()).case).toBe("withdraw");
  expect((await next()).case).toBe("start");
});

test("a heartbeat reaches an idle stream", async () => {
  const { client, fanOut } = await serve();
  const { next } = follow(client);
  await next();
  await next();
  fanOut.heartbeat(create(HeartbeatSchema, { lastBatchAgeMs: 5n }));
  const heartbeat = await next();
  expect(heartbeat.case === "heartbeat" && heartbeat.value.lastBatchAgeMs).toBe(5n);
});

test("a JSON client sees typed batches, withdrawals, heartbeats and engine facts", async () => {
  const { url, rank, fanOut } = await serve();
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "2",
    useBinaryFormat: false,
  });
  const { next } = follow(createClient(BridgeService, transport));
  await next();
  await next();
  rank.store(9);
  const batch = await next();
  expect(batch.case === "batch" && batch.value.batch?.events[0]?.endTokens).toBe(9);
  rank.withdrawAll();
  expect((await next()).case).toBe("withdraw");
  rank.tellEngine("0.33.0");
  expect((await next()).case).toBe("engine");
  fanOut.heartbeat(create(HeartbeatSchema));
  expect((await next()).case).toBe("heartbeat");
});

test("an aborted stream leaves no subscriber behind", async () => {
  const { client, fanOut } = await serve();
  const { next, abort } = follow(client);
  await next();
  expect(fanOut.subscriberCount).toBe(1);
  abort.abort();
  await until(() => fanOut.subscriberCount === 0);
});

test("a hundred subscriptions in a row leave neither subscribers nor warnings", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning);
  process.on("warning", onWarning);
  closers.push(() => process.off("warning", onWarning));
  const { client, fanOut } = await serve();
  for (let i = 0; i < 100; i++) {
    const { next, abort } = follow(client);
    await next();
    await next();
    abort.abort();
    await until(() => fanOut.subscriberCount === 0);
  }
  expect(fanOut.counters().starts).toBe(100);
  expect(warnings).toEqual([]);
});

// A client that never reads holds the generator inside a yield that the transport will not resume.
// Its queue must stay bounded, the others must not feel it, and its end must free it all the same.
test("a client that stops reading costs a bounded queue, and nothing once gone", async () => {
  const queueBytes = 300_000;
  const { port, client, rank, fanOut } = await serve({ queueBytes });
  const session = await openUnreadStream(port);
  const { next } = follow(client);
  await next();
  await next();
  for (let block = 1; block <= 100; block++) {
    rank.store(block, 20_000);
    expect((await next()).case).toBe("batch");
  }
  expect(fanOut.counters().overflows).toBe(1);
  expect(fanOut.subscriberCount).toBe(2);
  fanOut.audit();
  session.destroy();
  await until(() => fanOut.subscriberCount === 1);
  rank.store(101);
  expect((await next()).case).toBe("batch");
});

test("refusals carry their code and their reason", async () => {
  const { client } = await serve({ maxSubscribers: 1 });
  const wrongSeed = create(KeySchemeSchema, { id: "test/1", checkValue: Uint8Array.of(9) });
  const wrongScheme = create(KeySchemeSchema, { id: "", checkValue: SCHEME.checkValue });
  const cases: [Partial<SubscribeRequest>, Code, string][] = [
    [{ dpRank: 1 }, Code.NotFound, "rank_unknown"],
    [{ projection: Projection.ENGINE }, Code.PermissionDenied, "projection_not_allowed"],
    [{ projection: 77 as Projection }, Code.InvalidArgument, "projection_unknown"],
    [{ resume: create(CursorSchema) }, Code.InvalidArgument, "cursor_invalid"],
    [{ keyScheme: wrongScheme }, Code.FailedPrecondition, "key_scheme_differs"],
    [{ keyScheme: wrongSeed }, Code.FailedPrecondition, "key_seed_differs"],
  ];
  for (const [request, code, reason] of cases) {
    const error = await failure(follow(client, request).next());
    expect([error.code, error.metadata.get(REFUSAL_HEADER)]).toEqual([code, reason]);
    expect(error.rawMessage.startsWith(`${reason}: `)).toBe(true);
  }
  await follow(client, { keyScheme: SCHEME }).next();
  const error = await failure(follow(client).next());
  expect(error.code).toBe(Code.ResourceExhausted);
  expect(error.metadata.get(REFUSAL_HEADER)).toBe("subscriber_limit");
});

test("ENGINE is served when it is allowed, and does not ask for the key scheme", async () => {
  const { client, rank } = await serve({ isEngineProjectionAllowed: true });
  const other = create(KeySchemeSchema, { id: "other/1" });
  const { next } = follow(client, { projection: Projection.ENGINE, keyScheme: other });
  expect((await next()).case).toBe("start");
  rank.store(3);
  expect((await next()).case).toBe("batch");
});

test("describe tells ranks in order with their subscribers and counters", async () => {
  const { client } = await serve();
  await follow(client, { dpRank: 4 }).next();
  const description = await client.describe({});
  expect(description.bridgeVersion).toBe("0.0.0-test");
  expect(description.keyScheme?.id).toBe("test/1");
  expect(description.ranks.map((rank) => [rank.dpRank, rank.subscribers])).toEqual([
    [0, 0],
    [4, 1],
  ]);
  expect(description.ranks[1]?.instance).toBe(1n);
  expect(description.ranks[1]?.counters).toMatchObject({ batches: 7n, "subscriber.starts": 1n });
});

test("a subscriber goes on from its cursor, and describe counts it", async () => {
  const { client, rank } = await serve();
  rank.store(1);
  rank.store(2);
  const resume = create(CursorSchema, { epoch: rank.epoch, sequenceNumber: 1n });
  const { next } = follow(client, { resume, resumeInstance: 1n });
  const start = await next();
  if (start.case !== "start") throw new TypeError("a stream begins with its start");
  expect(start.value).toMatchObject({ isResumed: true, instance: 1n, cursor: resume });
  const batch = await next();
  expect(batch.case === "batch" && batch.value.batch?.sequenceNumber).toBe(2n);
  const { ranks } = await client.describe({});
  expect(ranks[0]?.counters).toMatchObject({
    "subscriber.starts": 1n,
    "subscriber.resumed": 1n,
    "subscriber.snapshot_chunks": 0n,
    "ring.batches": 2n,
  });
  expect(ranks[0]?.counters["ring.bytes"]).toBeGreaterThan(0n);
});

test("shutdown ends every stream with UNAVAILABLE, and nothing stays open", async () => {
  const { client, fanOut, bridge } = await serve();
  const streams = [follow(client), follow(client), follow(client)];
  for (const { next } of streams) {
    await next();
    await next();
  }
  const ends = streams.map(({ next }) => failure(next()));
  await bridge.close();
  for (const error of await Promise.all(ends)) {
    expect([error.code, error.rawMessage]).toEqual([Code.Unavailable, "draining"]);
  }
  expect(fanOut.subscriberCount).toBe(0);
  expect(bridge.isServing).toBe(false);
});

test("shutdown does not wait for a client that never reads", async () => {
  const { port, rank, fanOut, bridge } = await serve();
  await openUnreadStream(port);
  for (let block = 1; block <= 20; block++) {
    rank.store(block, 20_000);
    await turn();
  }
  await bridge.close();
  expect(fanOut.subscriberCount).toBe(0);
});

test("a key that is none is a failure by code", async () => {
  const tls = { key: "no key", cert: "no cert", clientCa: undefined };
  await expect(serve({}, { tls })).rejects.toMatchObject({ code: "tls_invalid" });
});
