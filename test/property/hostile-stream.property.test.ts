/**
 * What it is: laws of the gateway under a stream of damaged or shuffled messages.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: single claims (test/e2e/hostile-bridge.test.ts does).
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { expect, test } from "vitest";
import { FanOut, toResponse } from "../../src/bridge/dist/index.js";
import type { StreamHandlers } from "../../src/gateway/dist/connect-source.js";
import { ANSWER_REASONS, createGateway } from "../../src/gateway/dist/index.js";
import { SeededRandomness } from "../support/seeded-randomness.ts";
import {
  batchOf,
  C,
  CLEAR,
  every,
  framesOf,
  pipelineOf,
  q,
  R,
  rem,
  SMG_SEED,
} from "../support/smg-notation.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/** The messages of a sound stream that has one of everything, as bytes. */
function recorded(): readonly Uint8Array[] {
  const pipeline = pipelineOf({ emit: (output) => fanOut.publish(output) });
  const fanOut: FanOut = new FanOut({ view: pipeline, instance: 1n, snapshotChunkBlocks: 4 });
  pipeline.setConnected(true);
  const batches = [
    [R(0, "full", 0, 4, every(4, 32), 32)],
    [R(1, "mamba", 0, 4, [8, 24], 32), rem(0, [28])],
    [C(0, "full", 0, 32, 36, { medium: "CPU" }), C(0, "full", 0, 32, 36)],
    [rem(0, [], { block_hashes: [true] }), R(0, "full", 0, 4, [4, 8], 8)],
    [CLEAR, R(2, "swa", 5, 4, [4], 4)],
  ];
  const taken: Uint8Array[] = [];
  const subscriber = fanOut.subscribe({ projection: Projection.PREFIX_KEYS, onWake: () => {} });
  const drain = (limit: number): void => {
    for (let turn = 0; turn < limit; turn++) {
      const item = subscriber?.next();
      if (item === undefined) return;
      taken.push(toBinary(SubscribeResponseSchema, toResponse(item, false)));
    }
  };
  for (const [index, events] of batches.entries()) {
    pipeline.receive(framesOf(index, batchOf(events)), 0);
    drain(index === 0 ? 2 : 100);
    fanOut.heartbeat(pipeline.heartbeat(0));
  }
  pipeline.receive(framesOf(90, batchOf([R(0, "full", 0, 4, [4], 4)])), 0);
  drain(100);
  return taken;
}

function damaged(bytes: Uint8Array, random: SeededRandomness): Uint8Array {
  const copy = Uint8Array.from(bytes);
  switch (random.below(4)) {
    case 0:
      copy[random.below(copy.length)] = random.below(256);
      return copy;
    case 1:
      return copy.subarray(0, random.below(copy.length));
    case 2:
      return Buffer.concat([copy, copy]);
    default: {
      const at = random.below(copy.length);
      const piece = Uint8Array.of(random.below(256), random.below(256));
      return Buffer.concat([copy.subarray(0, at), piece, copy.subarray(at)]);
    }
  }
}

// Goal: no message breaks the gateway. Method: messages of a sound stream in any order, one in three
// damaged; what protobuf refuses ends the stream, as the transport would end it. Seeds are fixed and
// stand in the message of a failure.
test("whatever messages come, nothing throws, accounts hold, and every answer has its state", () => {
  const sound = recorded();
  let delivered = 0;
  for (let seed = 1; seed <= 250; seed++) {
    const random = new SeededRandomness(seed);
    const clock = new VirtualClock();
    let handlers: StreamHandlers | undefined;
    const gateway = createGateway({
      seed: SMG_SEED,
      clock,
      timers: clock,
      randomness: random,
      indexLimits: { maxNodes: 40, maxEntriesPerRank: 30 },
      sourceFactory: () => ({
        open: (_dpRank, opened) => {
          handlers = opened;
          return () => {
            handlers = undefined;
          };
        },
        close: () => {},
      }),
    });
    gateway.addWorker({ name: "hostile", url: "http://hostile", dpRanks: [0] });
    let next = 0;
    for (let turn = 0; turn < 60; turn++) {
      clock.advance(random.below(8) === 0 ? random.below(40_000) : 1);
      if (random.below(6) === 0) next = random.below(sound.length);
      if (handlers === undefined) {
        next = 0;
        clock.advance(20_000);
      }
      const message = sound[next % sound.length] ?? new Uint8Array();
      next += 1;
      const bytes = random.below(3) === 0 ? damaged(message, random) : message;
      let response: ReturnType<typeof fromBinary<typeof SubscribeResponseSchema>> | undefined;
      try {
        response = fromBinary(SubscribeResponseSchema, bytes);
      } catch {
        const ended = handlers;
        handlers = undefined;
        ended?.onEnded("bridge_failed");
      }
      if (response !== undefined && handlers !== undefined) {
        handlers.onMessage(response);
        delivered += 1;
      }
      gateway.audit();
      const answer = gateway.score({ tokens: q(37) })[0];
      expect(answer?.reusableTokens, `seed ${seed}`).toBeLessThan(37);
      expect(answer?.state === "exact", `seed ${seed}`).toBe(answer?.reasons.length === 0);
      for (const reason of answer?.reasons ?? []) expect(ANSWER_REASONS).toContain(reason);
      gateway.explain({ tokens: q(37) }, "hostile", 0);
    }
    expect(clock.pendingTimers, `seed ${seed}`).toBe(1);
    gateway.close();
    expect(clock.pendingTimers, `seed ${seed}`).toBe(0);
  }
  expect(delivered).toBeGreaterThan(4000);
});
