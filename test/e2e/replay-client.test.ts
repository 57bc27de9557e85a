/**
 * What it is: claims about the adapter to the replay socket, with real ROUTER sockets on loopback and a clock that
 * moves only when a test says so.
 * Owns: the sockets of each test, closed after it.
 * Refuses: nothing.
 * Does not do: sleep.
 */
import { createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { LIMITS, type SequenceNumber } from "@kv-group-bridge/protocol";
import { InvariantViolation } from "@kv-group-bridge/runtime";
import { afterEach, describe, expect, test } from "vitest";
import { ReplayClient, type ReplayClientOptions } from "../../src/bridge/dist/replay-client.js";
import type { ReplayHandlers } from "../../src/bridge/dist/replay-port.js";
import { EnginePlayer } from "../../src/cli/dist/engine-player.js";
import { freeEndpoint } from "../support/free-endpoint.ts";
import { RECORDED_VERSIONS, replayRecording } from "../support/replay-recording.ts";
import { ReplayRouter, type Reply, type SeenRequest } from "../support/replay-router.ts";
import { turns, until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";
import { sequenceFrame } from "../support/wire-builder.ts";

const SILENCE_MS = LIMITS.replaySilenceMs.value;
const REQUEST_MS = LIMITS.replayRequestMs.value;
const END: Reply = ["", "", sequenceFrame(-1n), ""];
const batch = (n: number, topic = "kv"): Reply => ["", topic, sequenceFrame(BigInt(n)), `#${n}`];

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function engine(
  answer?: (request: SeenRequest) => Promise<void> | void,
  sendHighWaterMark?: number,
) {
  const router = new ReplayRouter(sendHighWaterMark);
  closers.push(() => router.close());
  const endpoint = await router.open(answer);
  return { router, endpoint };
}

function clientOf(endpoint: string, options: Partial<ReplayClientOptions> = {}) {
  const clock = new VirtualClock();
  const bugs: unknown[] = [];
  const client = new ReplayClient({
    endpoint,
    topic: undefined,
    clock,
    timers: clock,
    onBug: (error) => bugs.push(error),
    ...options,
  });
  closers.push(() => client.close());
  return { client, clock, bugs };
}

/** What a request was told, in order. */
class Told implements ReplayHandlers {
  readonly lines: string[] = [];
  readonly sequences: bigint[] = [];
  get isOver(): boolean {
    return this.lines.some((line) => !line.startsWith("batch"));
  }
  onBatch(sequence: SequenceNumber, payload: Uint8Array): void {
    this.sequences.push(sequence);
    this.lines.push(`batch ${sequence} ${Buffer.from(payload).toString()}`);
  }
  onEnd(): void {
    this.lines.push("end");
  }
  onFailed(reason: string): void {
    this.lines.push(`failed ${reason}`);
  }
}

const from = (n: number): SequenceNumber => BigInt(n) as SequenceNumber;

describe("a request", () => {
  test.each(RECORDED_VERSIONS)("brings what vLLM %s answers", async (version) => {
    const recording = replayRecording(version);
    const { endpoint, router } = await engine(async ({ frames, send }) => {
      const asked = frames[1]?.readBigUInt64BE();
      const reply = recording.replies.find((one) => one.from === asked);
      for (const message of reply?.messages ?? []) await send(message);
    });
    const { client } = clientOf(endpoint, { topic: recording.topic });
    for (const { from: start, messages } of recording.replies) {
      const payloads: Buffer[] = [];
      const told = new Told();
      client.request(start as SequenceNumber, {
        onBatch: (sequence, payload) => {
          payloads.push(Buffer.from(payload));
          told.onBatch(sequence, new Uint8Array(0));
        },
        onEnd: () => told.onEnd(),
        onFailed: (reason) => told.onFailed(reason),
      });
      await until(() => told.isOver);
      expect(told.lines.at(-1)).toBe("end");
      expect(told.sequences).toEqual(
        messages.slice(0, -1).map((frames) => frames.at(-2)?.readBigUInt64BE()),
      );
      expect(payloads).toEqual(messages.slice(0, -1).map((frames) => frames.at(-1)));
    }
    expect(router.seen.map(({ frames }) => frames.map((frame) => frame.length))).toEqual(
      recording.replies.map(() => [0, 8]),
    );
  });

  test("is answered by the played engine, and its last handler may ask again at once", async () => {
    const player = new EnginePlayer(3);
    closers.push(() => player.close());
    const { replay } = await player.open();
    for (let n = 0; n < 5; n++) {
      await player.publish([Buffer.from("kv"), sequenceFrame(BigInt(n)), Buffer.from(`#${n}`)]);
    }
    const { client } = clientOf(replay, { topic: "kv" });
    const first = new Told();
    const second = new Told();
    client.request(from(0), {
      onBatch: (sequence, payload) => first.onBatch(sequence, payload),
      onEnd: () => {
        first.onEnd();
        client.request(from(4), second);
      },
      onFailed: (reason) => first.onFailed(reason),
    });
    await until(() => second.isOver);
    expect(first.lines).toEqual(["batch 2 #2", "batch 3 #3", "batch 4 #4", "end"]);
    expect(second.lines).toEqual(["batch 4 #4", "end"]);
  });

  test("waits for an engine that comes up within the time of silence", async () => {
    const endpoint = await freeEndpoint();
    const { client } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    await turns(20);
    const late = new ReplayRouter();
    closers.push(() => late.close());
    await late.open(({ send }) => send(END), endpoint);
    await until(() => told.isOver);
    expect(told.lines).toEqual(["end"]);
  });

  test("leaves no timer behind, however it ends", async () => {
    const { endpoint } = await engine(({ send }) => send(END));
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    await until(() => told.isOver);
    expect(clock.pendingTimers).toBe(0);
    client.request(from(0), told)();
    expect(clock.pendingTimers).toBe(0);
  });

  test("beside another one is our bug", async () => {
    const { endpoint } = await engine();
    const { client } = clientOf(endpoint);
    const cancel = client.request(from(0), new Told());
    expect(() => client.request(from(0), new Told())).toThrow(InvariantViolation);
    cancel();
    client.request(from(0), new Told());
  });
});

describe("a failure is told, and within its limit:", () => {
  /** Runs the clock to one millisecond before the limit, then over it. */
  async function expectTimeout(told: Told, clock: VirtualClock, afterMs: number): Promise<void> {
    const before = told.lines.length;
    clock.advance(afterMs - 1);
    await turns(20);
    expect(told.isOver).toBe(false);
    clock.advance(1);
    expect(told.lines.slice(before)).toEqual(["failed timeout"]);
  }

  test("nobody listens", async () => {
    const { client, clock } = clientOf(await freeEndpoint());
    const told = new Told();
    client.request(from(0), told);
    await turns(20);
    await expectTimeout(told, clock, SILENCE_MS);
  });

  test("the peer takes the connection and says nothing", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    const connected = new Promise<void>((resolve) => {
      server.once("connection", (socket) => {
        closers.push(() => socket.destroy());
        resolve();
      });
    });
    closers.push(() => server.close());
    await new Promise<void>((resolve) => server.once("listening", () => resolve()));
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    const { client, clock } = clientOf(`tcp://127.0.0.1:${String(port)}`);
    const told = new Told();
    client.request(from(0), told);
    await connected;
    await expectTimeout(told, clock, SILENCE_MS);
  });

  test("the engine takes the request and never answers", async () => {
    const { endpoint, router } = await engine();
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    await until(() => router.seen.length === 1);
    await expectTimeout(told, clock, SILENCE_MS);
  });

  test("the end marker is lost: silence counts from the last batch", async () => {
    const { endpoint, router } = await engine();
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    await until(() => router.seen.length === 1);
    clock.advance(SILENCE_MS - 1);
    await router.seen[0]?.send(batch(0));
    await until(() => told.sequences.length === 1);
    await expectTimeout(told, clock, SILENCE_MS);
    expect(told.lines).toEqual(["batch 0 #0", "failed timeout"]);
  });

  test("the engine answers for ever", async () => {
    let isAsked = true;
    const { endpoint } = await engine(async ({ send }) => {
      for (let n = 0; isAsked; n++) {
        await send(batch(n));
        if (n % 50 === 0) await turn();
      }
    });
    closers.push(() => {
      isAsked = false;
    });
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    for (let elapsedMs = 0; elapsedMs < REQUEST_MS; elapsedMs += SILENCE_MS / 5) {
      const heard = told.sequences.length;
      await until(() => told.sequences.length > heard);
      expect(told.isOver).toBe(false);
      clock.advance(SILENCE_MS / 5);
    }
    expect(told.lines.at(-1)).toBe("failed timeout");
    const lines = told.lines.length;
    await turns(50);
    expect(told.lines.length).toBe(lines);
  });

  test("a frame over the limit: libzmq drops the connection, which is silence", async () => {
    const { endpoint } = await engine(async ({ send }) => {
      await send(["", "kv", sequenceFrame(0n), Buffer.alloc(1000)]);
      await send(["", "kv", sequenceFrame(1n), Buffer.alloc(1001)]);
      await send(END);
    });
    const { client, clock } = clientOf(endpoint, { maxFrameBytes: 1000 });
    const told = new Told();
    client.request(from(0), told);
    await until(() => told.sequences.length === 1);
    await turns(200);
    await expectTimeout(told, clock, SILENCE_MS);
    expect(told.sequences).toEqual([0n]);
  });

  test.each<[string, Reply]>([
    ["garbage", ["garbage"]],
    ["a live message", ["kv", sequenceFrame(1n), "payload"]],
    ["five frames", ["", "kv", sequenceFrame(1n), "payload", "more"]],
    ["a short sequence", ["", "kv", "seq", "payload"]],
    ["a marker with a payload", ["", "", sequenceFrame(-1n), "payload"]],
    ["a foreign topic", batch(1, "kv2")],
    ["a topic that is not UTF-8", ["", Buffer.of(0xff, 0xfe), sequenceFrame(1n), "payload"]],
  ])("%s is malformed, and ends the request", async (_name, reply) => {
    const { endpoint } = await engine(async ({ send }) => {
      await send(batch(0));
      await send(reply);
      await send(batch(1));
      await send(END);
    });
    const { client, bugs } = clientOf(endpoint, { topic: "kv" });
    const told = new Told();
    client.request(from(0), told);
    await until(() => told.isOver);
    await turns(50);
    expect(told.lines).toEqual(["batch 0 #0", "failed malformed"]);
    expect(bugs).toEqual([]);
  });

  test("no socket can be opened: told later, not inside the call", async () => {
    // A name that engineAddress lets pass and libzmq does not.
    const { client, bugs } = clientOf("tcp://-:1");
    const told = new Told();
    client.request(from(0), told);
    expect(told.lines).toEqual([]);
    await until(() => told.isOver);
    expect(told.lines).toEqual(["failed socket_failed"]);
    expect(bugs).toEqual([]);
  });
});

describe("a request that is cancelled", () => {
  test("before it begins asks nothing", async () => {
    const { endpoint, router } = await engine(({ send }) => send(END));
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(1), told)();
    const after = new Told();
    client.request(from(2), after);
    await until(() => after.isOver);
    clock.advance(REQUEST_MS);
    expect(told.lines).toEqual([]);
    expect(router.seen.map(({ frames }) => frames[1]?.readBigUInt64BE())).toEqual([2n]);
  });

  test("hears nothing more, nor does the next one hear its late answers", async () => {
    const { endpoint, router } = await engine();
    const { client, clock, bugs } = clientOf(endpoint);
    const first = new Told();
    const cancel = client.request(from(0), first);
    await until(() => router.seen.length === 1);
    await router.seen[0]?.send(batch(0));
    await until(() => first.sequences.length === 1);
    cancel();
    cancel();
    const second = new Told();
    client.request(from(1), second);
    await until(() => router.seen.length === 2);
    cancel();
    await router.seen[0]?.send(batch(1));
    await router.seen[0]?.send(END);
    await router.seen[1]?.send(batch(2));
    await router.seen[1]?.send(END);
    await until(() => second.isOver);
    clock.advance(REQUEST_MS);
    await turns(50);
    expect(first.lines).toEqual(["batch 0 #0"]);
    expect(second.lines).toEqual(["batch 2 #2", "end"]);
    expect(bugs).toEqual([]);
  });

  test("by its own handler hears nothing more, though batches wait to be read", async () => {
    const { endpoint, router } = await engine(async ({ send }) => {
      for (let n = 0; n < 500; n++) await send(batch(n));
      await send(END);
    });
    const { client } = clientOf(endpoint);
    const told = new Told();
    const cancel = client.request(from(0), {
      onBatch: (sequence, payload) => {
        told.onBatch(sequence, payload);
        if (sequence === 100n) cancel();
      },
      onEnd: () => told.onEnd(),
      onFailed: (reason) => told.onFailed(reason),
    });
    await until(() => told.sequences.length === 101);
    await turns(100);
    expect(told.lines.length).toBe(101);
    expect(router.seen.length).toBe(1);
  });

  test("by the client's close is over when that resolves; a closed client closes again", async () => {
    const { endpoint, router } = await engine();
    const { client, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), told);
    await until(() => router.seen.length === 1);
    await client.close();
    await client.close();
    expect(clock.pendingTimers).toBe(0);
    await router.seen[0]?.send(END);
    await turns(50);
    expect(told.lines).toEqual([]);
  });
});

describe("what a handler throws is reported as it is, and the request is over:", () => {
  const bug = new TypeError("ours");
  const fail = (): never => {
    throw bug;
  };

  test.each<[string, Partial<ReplayHandlers>]>([
    ["a batch", { onBatch: fail }],
    ["the end", { onEnd: fail }],
  ])("%s", async (_name, handlers) => {
    const { endpoint } = await engine(async ({ send }) => {
      await send(batch(0));
      await send(END);
    });
    const { client, bugs, clock } = clientOf(endpoint);
    const told = new Told();
    client.request(from(0), {
      onBatch: (sequence, payload) => told.onBatch(sequence, payload),
      onEnd: () => told.onEnd(),
      onFailed: (reason) => told.onFailed(reason),
      ...handlers,
    });
    await until(() => bugs.length > 0);
    await client.close();
    expect(bugs).toEqual([bug]);
    expect(told.isOver).toBe(false);
    expect(clock.pendingTimers).toBe(0);
  });

  test("a failure, told by a timer", async () => {
    const { endpoint } = await engine();
    const { client, bugs, clock } = clientOf(endpoint);
    client.request(from(0), { onBatch: fail, onEnd: fail, onFailed: fail });
    clock.advance(SILENCE_MS);
    expect(bugs).toEqual([bug]);
  });
});

test("an endpoint that no socket takes is refused at once", () => {
  expect(() => clientOf("http://engine:5558")).toThrowError(
    expect.objectContaining({ code: "engine_endpoint_invalid" }),
  );
});

// Goal: timers, streams and live reading are served during a replay. Method: the handler takes 1 ms of a clock that
// only it moves; in a reply of 300 batches the event loop must have had a turn at least every few.
test("the reader gives way to the event loop by time", async () => {
  let isSent = false;
  const { endpoint } = await engine(async ({ send }) => {
    for (let n = 0; n < 300; n++) await send(batch(n));
    await send(END);
    isSent = true;
  });
  const { client, clock } = clientOf(endpoint);
  let run = 0;
  let longestRun = 0;
  let isOver = false;
  client.request(from(0), {
    onBatch: () => {
      clock.advance(1);
      run += 1;
      longestRun = Math.max(longestRun, run);
    },
    onEnd: () => {
      isOver = true;
    },
    onFailed: () => {},
  });
  while (!isOver) {
    run = 0;
    await turn();
  }
  expect(isSent).toBe(true);
  expect(longestRun).toBeGreaterThan(0);
  expect(longestRun).toBeLessThanOrEqual(4);
});

// Goal: an engine that drops at its high-water mark (vLLM before 0.33) gives holes and an end all the same; nothing
// comes twice or out of order, and asking again from the first hole fills it, at least a high-water mark's worth each
// time. Method: a mark of 10 and batches of 256 KiB, which are queued without a copy but not written as fast. The
// marker may be dropped too, so it is sent until the request is over.
test("holes of a ROUTER at its high-water mark are filled by asking again", async () => {
  const count = 200;
  const mark = 10;
  const payload = Buffer.alloc(256 * 1024);
  let over = 0;
  const { endpoint, router } = await engine(async ({ frames, send }) => {
    const begin = Number(frames[1]?.readBigUInt64BE());
    const request = router.seen.length;
    for (let n = begin; n < count; n++) await send(["", "kv", sequenceFrame(BigInt(n)), payload]);
    while (over < request) {
      await send(END);
      await turn();
    }
  }, mark);
  const { client } = clientOf(endpoint);
  const arrived = new Set<bigint>();
  const progress: number[] = [];
  const perRound: number[] = [];
  let next = 0;
  while (next < count) {
    const told = new Told();
    client.request(from(next), {
      onBatch: (sequence, bytes) => {
        expect(bytes.length).toBe(payload.length);
        told.onBatch(sequence, new Uint8Array(0));
      },
      onEnd: () => told.onEnd(),
      onFailed: (reason) => told.onFailed(reason),
    });
    await until(() => told.isOver);
    over += 1;
    expect(told.lines.at(-1)).toBe("end");
    expect(told.sequences).toEqual([...new Set(told.sequences)].sort((a, b) => (a < b ? -1 : 1)));
    for (const sequence of told.sequences) arrived.add(sequence);
    perRound.push(told.sequences.length);
    const before = next;
    while (arrived.has(BigInt(next))) next += 1;
    progress.push(next - before);
  }
  expect(perRound[0]).toBeLessThan(count);
  expect(Math.min(...progress.slice(0, -1))).toBeGreaterThanOrEqual(mark);
  expect(arrived.size).toBe(count);
});
