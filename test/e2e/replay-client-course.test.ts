/**
 * What it is: claims about a replay request that is cancelled, meets a bug of ours, is long or has holes; real ROUTER
 * sockets on loopback, and a clock that moves only when a test says so.
 * Owns: the sockets of each test, closed after it.
 * Refuses: nothing.
 * Does not do: sleep.
 */
import { setImmediate as turn } from "node:timers/promises";
import { LIMITS } from "@kv-group-bridge/protocol";
import { afterEach, describe, expect, test } from "vitest";
import type { ReplayHandlers } from "../../src/bridge/dist/replay-port.js";
import { batch, clientOf, closeAll, END, engine, from, Told } from "../support/replay-requests.ts";
import { turns, until } from "../support/until.ts";
import { sequenceFrame } from "../support/wire-builder.ts";

const SILENCE_MS = LIMITS.replaySilenceMs.value;
const REQUEST_MS = LIMITS.replayRequestMs.value;

afterEach(closeAll);

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
