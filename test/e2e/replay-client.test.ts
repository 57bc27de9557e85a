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
import { EnginePlayer } from "../../src/cli/dist/engine-player.js";
import { freeEndpoint } from "../support/free-endpoint.ts";
import { RECORDED_VERSIONS, replayRecording } from "../support/replay-recording.ts";
import {
  batch,
  clientOf,
  closeAll,
  closers,
  END,
  engine,
  from,
  Told,
} from "../support/replay-requests.ts";
import { ReplayRouter, type Reply } from "../support/replay-router.ts";
import { turns, until } from "../support/until.ts";
import type { VirtualClock } from "../support/virtual-clock.ts";
import { sequenceFrame } from "../support/wire-builder.ts";

const SILENCE_MS = LIMITS.replaySilenceMs.value;
const REQUEST_MS = LIMITS.replayRequestMs.value;

afterEach(closeAll);

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
