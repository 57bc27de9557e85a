import { createServer, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createRouterTransport,
  type ServiceImpl,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  BridgeService,
  Projection,
  type SubscribeRequest,
  type SubscribeResponse,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { afterEach, expect, test } from "vitest";
import {
  type BridgeTransport,
  ConnectSource,
  classify,
  grpcTransport,
  type StreamHandlers,
} from "../../../src/gateway/dist/connect-source.js";
import { createGateway, type Gateway } from "../../../src/gateway/dist/index.js";
import {
  parseDpRank,
  parseEpoch,
  parseSequenceNumber,
  type ResumePoint,
} from "../../../src/protocol/dist/index.js";
import { systemClock, systemRandomness, systemTimers } from "../../../src/runtime/dist/index.js";
import { turns } from "../../support/until.ts";
import { chunk, heartbeat, KEY_SCHEME, liveWith, SEED, store, tokensTo } from "./messages.ts";

type Subscribe = ServiceImpl<typeof BridgeService>["subscribe"];

const routes =
  (subscribe: Subscribe) =>
  (router: ConnectRouter): void => {
    router.service(BridgeService, { subscribe });
  };

function inProcess(subscribe: Subscribe): BridgeTransport {
  return { transport: createRouterTransport(routes(subscribe)), close() {} };
}

const RANK = parseDpRank(3);
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** What a stream of rank 3 tells, until it ends or was closed. */
class Heard {
  readonly messages: SubscribeResponse[] = [];
  opened = 0;
  readonly ended: Promise<string>;
  readonly close: () => void;

  constructor(
    bridge: BridgeTransport,
    onMessage: (heard: Heard) => void = () => {},
    resume?: ResumePoint,
  ) {
    const keyScheme = { $typeName: "kvgroup.v1.KeyScheme", ...KEY_SCHEME } as const;
    const source = new ConnectSource(bridge, { keyScheme, clock: systemClock });
    if (RANK === undefined) throw new TypeError("3 is a rank");
    let resolve = (_error: string): void => {};
    this.ended = new Promise((done) => {
      resolve = done;
    });
    let isOpening = true;
    const handlers: StreamHandlers = {
      onOpened: () => {
        expect(isOpening).toBe(false);
        this.opened++;
      },
      onMessage: (message) => {
        this.messages.push(message);
        onMessage(this);
      },
      onEnded: (error) => {
        expect(isOpening).toBe(false);
        resolve(error);
      },
    };
    this.close = source.open(RANK, handlers, resume);
    isOpening = false;
  }
}

test("a stream asks for its rank, in keys, with its scheme, and not to resume", async () => {
  let asked: SubscribeRequest | undefined;
  const heard = new Heard(
    inProcess(async function* (request) {
      asked = request;
      yield* liveWith([]);
    }),
  );
  expect(await heard.ended).toBe("stream_ended");
  expect(heard.messages.map((message) => message.message.case)).toEqual(["start", "snapshotChunk"]);
  expect(heard.opened).toBe(1);
  expect(asked).toMatchObject({
    dpRank: 3,
    projection: Projection.PREFIX_KEYS,
    keyScheme: { id: KEY_SCHEME.id },
  });
  expect(asked?.resume).toBeUndefined();
  expect(asked?.resumeInstance).toBe(0n);
});

test("a stream that goes on asks with its cursor and the instance that led there", async () => {
  const epoch = parseEpoch(7n);
  if (epoch === undefined) throw new TypeError("7 is an epoch");
  const instance = 2n ** 64n - 1n;
  for (const sequence of [undefined, parseSequenceNumber(0n), parseSequenceNumber(9n)]) {
    let asked: SubscribeRequest | undefined;
    const bridge = inProcess(async function* (request) {
      asked = request;
      yield* liveWith([]);
    });
    const heard = new Heard(bridge, () => {}, { cursor: { epoch, sequence }, instance });
    expect(await heard.ended).toBe("stream_ended");
    expect([asked?.resume?.epoch, asked?.resume?.sequenceNumber]).toEqual([7n, sequence]);
    expect(asked?.resumeInstance).toBe(instance);
  }
});

for (const [code, error] of [
  [Code.Unavailable, "bridge_unreachable"],
  [Code.Canceled, "bridge_unreachable"],
  [Code.Aborted, "bridge_unreachable"],
  [Code.DeadlineExceeded, "bridge_unreachable"],
  [Code.FailedPrecondition, "key_scheme_mismatch"],
  [Code.NotFound, "rank_unknown"],
  [Code.PermissionDenied, "permission_denied"],
  [Code.Unauthenticated, "unauthenticated"],
  [Code.Unimplemented, "unimplemented"],
  [Code.ResourceExhausted, "resource_exhausted"],
  [Code.InvalidArgument, "bridge_protocol"],
  [Code.DataLoss, "resume_refused"],
  [Code.OutOfRange, "resume_refused"],
  [Code.Internal, "bridge_failed"],
  [Code.Unknown, "bridge_failed"],
] as const) {
  test(`a bridge's ${Code[code]} is ${error}`, async () => {
    expect(classify(new ConnectError("", code))).toBe(error);
    const fails: Subscribe = async function* () {
      yield* liveWith([]);
      throw new ConnectError("", code);
    };
    const heard = new Heard(inProcess(fails));
    expect(await heard.ended).toBe(error);
    expect(heard.messages.length).toBe(2);
  });
}

/** A bridge on a real socket. */
async function serve(subscribe: Subscribe): Promise<{ server: Http2Server; url: string }> {
  const handler = connectNodeAdapter({ routes: routes(subscribe) });
  const server = createServer(handler);
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => {
    for (const session of sessions) session.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  const address = server.address() as AddressInfo;
  return { server, url: `http://127.0.0.1:${address.port}` };
}

test("after a close nothing is heard, and the bridge's side is cancelled", async () => {
  let cancelled = (): void => {};
  const isCancelled = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  let messages = 0;
  const { url } = await serve(async function* (_request, context) {
    try {
      yield* liveWith([]);
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      yield heartbeat();
    } finally {
      cancelled();
    }
  });
  const bridge = grpcTransport({ url, tls: undefined });
  cleanups.push(() => bridge.close());
  const heard = new Heard(bridge, (here) => {
    messages++;
    here.close();
  });
  await isCancelled;
  expect(messages).toBe(1);
  expect(await Promise.race([heard.ended, Promise.resolve("silence")])).toBe("silence");
});

test("a stream that is closed in the turn in which it was opened makes no call and no noise", async () => {
  // Method: a rejection that nobody handles would fail this test.
  let calls = 0;
  const { url } = await serve(async function* () {
    calls++;
    yield* liveWith([]);
  });
  for (const address of [url, "http://127.0.0.1:9"]) {
    const gateway = createGateway({ seed: SEED });
    gateway.addWorker({ name: "w", url: address });
    gateway.close();
  }
  const bridge = grpcTransport({ url, tls: undefined });
  const heard = new Heard(bridge);
  heard.close();
  await turns(200);
  bridge.close();
  expect(calls).toBe(0);
});

for (const count of [1, 2, 3, 5, 8, 20]) {
  test(`a stream that is closed ${count} turns after its opening makes no noise`, async () => {
    const { url } = await serve(async function* () {
      yield* liveWith([]);
    });
    for (const address of [url, "http://127.0.0.1:9"]) {
      const bridge = grpcTransport({ url: address, tls: undefined });
      const heard = new Heard(bridge);
      await turns(count);
      heard.close();
      bridge.close();
    }
    await turns(200);
  });
}

test("over HTTP/2 with cleartext, a snapshot wider than the default windows arrives whole", async () => {
  const big = liveWith([store(0, [4, 4, 400_000])]);
  const { url } = await serve(async function* () {
    for (let i = 0; i < 8; i++) yield* big;
  });
  const bridge = grpcTransport({ url, tls: undefined });
  cleanups.push(() => bridge.close());
  const heard = new Heard(bridge);
  expect(await heard.ended).toBe("stream_ended");
  expect(heard.messages.length).toBe(16);
});

test("nobody there is bridge_unreachable", async () => {
  const { server, url } = await serve(async function* () {});
  await new Promise((resolve) => server.close(resolve));
  cleanups.pop();
  const bridge = grpcTransport({ url, tls: undefined });
  expect(await new Heard(bridge).ended).toBe("bridge_unreachable");
  bridge.close();
});

/** Resolves with the first status that satisfies the claim. */
function becomes(gateway: Gateway, claim: (state: string) => boolean): Promise<string> {
  return new Promise((resolve) => {
    const end = gateway.on("state", ({ subscriptionState }) => {
      if (!claim(subscriptionState)) return;
      end();
      resolve(subscriptionState);
    });
  });
}

test("a gateway follows two ranks over one transport, loses them, and follows them again", async () => {
  let streams = 0;
  const release: (() => void)[] = [];
  const { url } = await serve(async function* (request) {
    streams++;
    const last = request.dpRank === 0 ? 8 : 4;
    yield* liveWith([store(0, [4, 4, last])], undefined, request.dpRank);
    await new Promise<void>((resolve) => release.push(resolve));
    throw new ConnectError("draining", Code.Unavailable);
  });
  const gateway = createGateway({
    seed: SEED,
    clock: systemClock,
    timers: systemTimers,
    randomness: systemRandomness,
  });
  cleanups.push(() => gateway.close());
  const lives = (): Promise<unknown> => {
    let count = 0;
    return becomes(gateway, (state) => state === "live" && ++count === 2);
  };
  const first = lives();
  gateway.addWorker({ name: "w", url, dpRanks: [0, 1] });
  await first;
  const numbers = () =>
    gateway.score({ tokens: tokensTo(9) }).map((answer) => [answer.reusableTokens, answer.state]);
  expect(numbers()).toEqual([
    [8, "exact"],
    [4, "exact"],
  ]);
  const again = lives();
  for (const end of release.splice(0)) end();
  await again;
  expect(streams).toBe(4);
  expect(numbers()).toEqual([
    [8, "exact"],
    [4, "exact"],
  ]);
  for (const end of release) end();
});

test("hundreds of subscriptions leave no listener and no stream behind", async () => {
  // Method: warnings of leaked listeners would arrive as process warnings.
  const warnings: string[] = [];
  const note = (warning: Error): void => {
    warnings.push(warning.message);
  };
  process.on("warning", note);
  let open = 0;
  const { url } = await serve(async function* (_request, context) {
    open++;
    try {
      yield* liveWith([]);
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      yield chunk(0, true);
    } finally {
      open--;
    }
  });
  const bridge = grpcTransport({ url, tls: undefined });
  cleanups.push(() => bridge.close());
  for (let i = 0; i < 300; i++) {
    await new Promise<void>((resolve) => {
      new Heard(bridge, (heard) => {
        heard.close();
        resolve();
      });
    });
  }
  await expect.poll(() => open, { timeout: 10_000 }).toBe(0);
  process.off("warning", note);
  expect(warnings).toEqual([]);
});
