/**
 * What it is: claims about gateways whose connections are cut, swallowed or led elsewhere.
 * Goal: answers heal and equal those of a gateway that was never cut, without a snapshot where the
 * bridge can go on.
 * Method: a real pipeline behind a real HTTP/2 listener, a gateway through a TCP proxy that can cut
 * and swallow, and another one that is connected directly.
 */
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  BridgeService,
  DescribeResponseSchema,
  HeartbeatSchema,
  type SubscribeRequest,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { afterEach, expect, test } from "vitest";
import { BridgeServer } from "../../src/bridge/dist/bridge-server.js";
import { FanOut, type RankPipeline } from "../../src/bridge/dist/index.js";
import { subscriberStream, Wakeup } from "../../src/bridge/dist/subscriber-stream.js";
import {
  createGateway,
  type Gateway,
  grpcTransport,
  type KeepaliveOptions,
  type RankAnswer,
  type RankStatus,
} from "../../src/gateway/dist/index.js";
import { type Epoch, parseEpoch } from "../../src/protocol/dist/index.js";
import { systemTimers } from "../../src/runtime/dist/index.js";
import {
  batchOf,
  every,
  framesOf,
  pipelineOf,
  q,
  R,
  rem,
  SMG_SEED,
} from "../support/smg-notation.ts";
import { until } from "../support/until.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A rank that a test feeds. */
class Rank {
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
  #next = 0;

  constructor(instance: bigint) {
    this.pipeline = pipelineOf({
      mintEpoch: () => epochOf(instance * 1000n),
      emit: (output) => this.fanOut.publish(output),
    });
    this.fanOut = new FanOut({ view: this.pipeline, instance });
    this.pipeline.setConnected(true);
  }

  publish(...events: readonly unknown[]): void {
    this.pipeline.receive(framesOf(this.#next++, batchOf(events)), 0);
  }

  /** The blocks of 4 tokens of the prompt 1 … `through`. */
  store(through: number): void {
    this.publish(R(0, "full", 0, 4, every(4, through), through));
  }

  heartbeat(): void {
    this.fanOut.heartbeat(this.pipeline.heartbeat(0));
  }
}

function epochOf(value: bigint): Epoch {
  const epoch = parseEpoch(value);
  if (epoch === undefined) throw new TypeError("an epoch is not 0");
  return epoch;
}

async function serve(rank: Rank, port = 0) {
  const { pipeline, fanOut } = rank;
  const server = new BridgeServer({
    host: "127.0.0.1",
    port,
    tls: undefined,
    timers: systemTimers,
    service: {
      ranks: new Map([[0, { fanOut, describe: () => pipeline.describe(0) }]]),
      keyScheme: pipeline.keyScheme(),
      isEngineProjectionAllowed: false,
      bridgeVersion: "test",
    },
    shutdownGraceMs: 100,
  });
  const address = await server.start();
  closers.push(() => server.close());
  return { port: address.port, close: () => server.close() };
}

/** Between a gateway and a bridge. */
class TcpProxy {
  port = 0;
  connections = 0;
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(target: number) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.port = (this.#server.address() as AddressInfo).port;
    closers.push(
      () => this.#server.close(),
      () => this.cut(),
    );
  }

  /** Every connection ends now. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  /** What is connected stays so, and nothing comes through any more: a half-open connection. */
  swallow(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.resume();
    }
  }

  #accept(socket: Socket): void {
    this.connections++;
    const upstream = connect(this.#target, "127.0.0.1");
    for (const end of [socket, upstream]) {
      this.#sockets.add(end);
      end.on("error", () => {});
    }
    socket.pipe(upstream);
    upstream.pipe(socket);
  }
}

class Follower {
  readonly gateway: Gateway;

  constructor(port: number, keepalive: KeepaliveOptions = {}) {
    this.gateway = createGateway({
      seed: SMG_SEED,
      // No pause: a test is not to wait for a dice.
      randomness: { uint32: () => 0, uint64: () => 0n, fraction: () => 0 },
      transportFactory: (address) => grpcTransport(address, keepalive),
    });
    this.gateway.addWorker({ name: "w", url: `http://127.0.0.1:${port}` });
    closers.push(() => this.gateway.close());
  }

  get status(): RankStatus {
    const [status] = this.gateway.workers();
    if (status === undefined) throw new TypeError("there is one worker");
    return status;
  }

  get answer(): RankAnswer | undefined {
    return this.gateway.score({ tokens: q(41) })[0];
  }

  /** Has everything that the rank has said. */
  async caughtUp(rank: Rank): Promise<void> {
    const sequence = rank.pipeline.heartbeat(0).cursor?.sequenceNumber;
    await until(() => {
      const { subscriptionState, sequenceNumber } = this.status;
      return subscriptionState === "live" && sequenceNumber === sequence;
    });
    this.gateway.audit();
  }
}

async function setUp(keepalive: KeepaliveOptions = {}) {
  const rank = new Rank(1n);
  rank.store(8);
  const bridge = await serve(rank);
  const proxy = new TcpProxy(bridge.port);
  await proxy.listen();
  const steady = new Follower(bridge.port);
  const follower = new Follower(proxy.port, keepalive);
  await steady.caughtUp(rank);
  await follower.caughtUp(rank);
  return { rank, bridge, proxy, steady, follower };
}

test("a connection that is cut goes on from the cursor: no snapshot, equal answers", async () => {
  const { rank, proxy, steady, follower } = await setUp();
  const { snapshotChunks } = rank.fanOut.counters();
  rank.store(40);
  for (let round = 0; round < 5; round++) {
    await follower.caughtUp(rank);
    proxy.cut();
    rank.publish(rem(0, [40 - 4 * round]));
    await until(() => follower.status.subscriptionState !== "live");
    expect(follower.answer?.state).toBe("stale");
    await follower.caughtUp(rank);
    await steady.caughtUp(rank);
    expect(follower.answer).toEqual(steady.answer);
    expect(follower.answer?.reusableTokens).toBe(36 - 4 * round);
  }
  const counters = rank.fanOut.counters();
  expect(counters.snapshotChunks).toBe(snapshotChunks);
  expect(counters).toMatchObject({ starts: 7, resumed: 5 });
  rank.fanOut.audit();
});

test("a bridge that restarted without a checkpoint begins anew", async () => {
  const { rank, bridge, proxy, follower } = await setUp();
  rank.store(40);
  await follower.caughtUp(rank);
  await bridge.close();
  await until(() => follower.status.subscriptionState !== "live");
  const next = new Rank(2n);
  next.store(4);
  await serve(next, bridge.port);
  await until(() => follower.status.subscriptionState === "live");
  await follower.caughtUp(next);
  expect(next.fanOut.counters()).toMatchObject({ resumed: 0 });
  expect(next.fanOut.counters().snapshotChunks).toBeGreaterThan(0);
  expect(follower.answer?.reusableTokens).toBe(4);
  expect(proxy.connections).toBeGreaterThan(1);
});

test("a half-open connection is noticed by its keepalive, and the stream goes on", async () => {
  const keepalive = { keepaliveIntervalMs: 20, keepaliveTimeoutMs: 200 };
  const { rank, proxy, steady, follower } = await setUp(keepalive);
  proxy.swallow();
  rank.store(40);
  await until(() => follower.status.lastError !== undefined);
  expect(follower.status.lastError).toBe("bridge_unreachable");
  await follower.caughtUp(rank);
  await steady.caughtUp(rank);
  expect(follower.answer).toEqual(steady.answer);
  expect(proxy.connections).toBe(2);
  expect(rank.fanOut.counters().resumed).toBe(1);
});

test("a worker that moves to another address of the same bridge goes on there", async () => {
  const { rank, bridge, steady, follower } = await setUp();
  const { snapshotChunks } = rank.fanOut.counters();
  follower.gateway.updateWorker({ name: "w", url: `http://localhost:${bridge.port}` });
  rank.store(40);
  await follower.caughtUp(rank);
  await steady.caughtUp(rank);
  expect(follower.answer).toEqual(steady.answer);
  expect(follower.status.bridgeUrl).toContain("localhost");
  expect(rank.fanOut.counters()).toMatchObject({ snapshotChunks, resumed: 1 });
});

for (const code of [Code.OutOfRange, Code.DataLoss]) {
  test(`a bridge that answers a cursor with ${Code[code]} is asked at once for a snapshot`, async () => {
    const rank = new Rank(1n);
    rank.store(8);
    const requests: SubscribeRequest[] = [];
    const ended = new AbortController();
    const handler = connectNodeAdapter({
      routes: (router) =>
        router.service(BridgeService, {
          async *subscribe(request, context) {
            requests.push(request);
            if (request.resume !== undefined) throw new ConnectError("too old", code);
            const wakeup = new Wakeup();
            const subscriber = rank.fanOut.subscribe({
              projection: 1,
              onWake: () => wakeup.notify(),
            });
            if (subscriber === undefined) throw new ConnectError("full", Code.ResourceExhausted);
            yield* subscriberStream({
              subscriber,
              wakeup,
              signal: context.signal,
              shutdown: ended.signal,
              isJson: false,
            });
          },
          describe: () => create(DescribeResponseSchema),
        }),
    });
    const server = createHttp2Server(handler);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    const proxy = new TcpProxy((server.address() as AddressInfo).port);
    await proxy.listen();
    const follower = new Follower(proxy.port);
    await follower.caughtUp(rank);
    rank.store(40);
    proxy.cut();
    await until(() => requests.length === 3);
    await follower.caughtUp(rank);
    const asked = requests.map((request) => request.resume?.sequenceNumber);
    expect(asked).toEqual([undefined, 0n, undefined]);
    expect(follower.answer?.reusableTokens).toBe(40);
  });
}

test("heartbeats of a bridge that is catching up reach the answers", async () => {
  const { rank, follower } = await setUp();
  const { cursor } = rank.pipeline.heartbeat(0);
  const heartbeat = { cursor, isEngineConnected: true, isCatchingUp: true };
  rank.fanOut.heartbeat(create(HeartbeatSchema, heartbeat));
  await until(() => follower.answer?.reasons.includes("catching_up") === true);
  expect(follower.answer?.state).toBe("stale");
  rank.heartbeat();
  await until(() => follower.answer?.reasons.includes("catching_up") === false);
});
