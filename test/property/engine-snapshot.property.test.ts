// Goal: a consumer of the ENGINE projection that joined at any moment, at any speed, through any number of overflows and
// reconnects, holds what one holds that was there from the start.
// Method: real recordings are played; dull consumers join at seeded random positions with snapshot pieces of one to a
// few blocks, queues that overflow and connections that are cut. Whenever one has read everything, all that it believes
// is compared with what the first one believes, which hears the rank itself. With a bound that is too small for what
// the engine holds, a consumer may believe less, never more, and what is called complete is.
import { join } from "node:path";
import { Completeness, Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import { FanOut } from "../../src/bridge/dist/fan-out.js";
import type { RankOutput } from "../../src/bridge/dist/rank-output.js";
import { RankPipeline, type RankPipelineOptions } from "../../src/bridge/dist/rank-pipeline.js";
import type { Subscriber } from "../../src/bridge/dist/subscriber.js";
import { engineConfigOfTrace } from "../../src/cli/dist/trace-engine.js";
import { openTrace } from "../../src/cli/dist/trace-file.js";
import { KeyedHasher, parseDpRank } from "../../src/protocol/dist/index.js";
import { EngineConsumer } from "../support/engine-consumer.ts";
import { Dice } from "../support/random-caches.ts";
import { epochMint } from "../support/smg-notation.ts";

const traces = join(import.meta.dirname, "../fixtures/traces");
const cases = [
  ["full-swa.jsonl.gz", 1],
  ["gemma.jsonl.gz", 2],
  ["eagle-lookahead.jsonl.gz", 3],
  ["lora-salt.jsonl.gz", 4],
  ["restarts.jsonl.gz", 5],
  ["array-full-mamba.jsonl.gz", 6],
  ["offload-mamba.jsonl.gz", 7],
  ["array-bytes-mixed.jsonl.gz", 8],
] as const;

class Late {
  readonly consumer = new EngineConsumer();
  subscriber: Subscriber;
  private readonly world: World;

  constructor(world: World) {
    this.world = world;
    this.subscriber = this.subscribe();
  }

  cut(): void {
    this.subscriber.close();
    this.subscriber = this.subscribe();
  }

  take(limit: number): void {
    for (let taken = 0; taken < limit; taken++) {
      const item = this.subscriber.next();
      if (item === undefined) return;
      if (item.type === "snapshot_chunk") {
        for (const event of item.chunk.events) {
          // What stands on a block that is held comes after it, be it by a piece or by a batch.
          const { groupId, parentBlockHash: parent } = event;
          const isTold = event.tokenIds.length > 0 && !this.world.isBounded;
          if (isTold && this.world.truth.holds(groupId, parent)) {
            expect(this.consumer.holds(groupId, parent), "its parent came first").toBe(true);
          }
          this.consumer.applyEvents([event]);
        }
      }
      this.consumer.apply(item);
    }
  }

  private subscribe(): Subscriber {
    const { fanOut } = this.world;
    const projection = Projection.ENGINE;
    const resume = this.consumer.resumePoint;
    const subscriber = fanOut.subscribe({ projection, onWake: () => {}, resume });
    if (subscriber === undefined) throw new TypeError("there is room");
    return subscriber;
  }
}

/** One rank that keeps the engine's words, what it says, and who listens. */
class World {
  readonly truth = new EngineConsumer();
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
  readonly dice: Dice;
  readonly late: Late[] = [];
  readonly isBounded: boolean;
  compared = 0;
  complete = 0;

  constructor(
    options: Pick<RankPipelineOptions, "dpRank" | "engine" | "engineWordsBytes">,
    dice: Dice,
  ) {
    this.dice = dice;
    this.isBounded = options.engineWordsBytes !== undefined;
    this.pipeline = new RankPipeline({
      ...options,
      hasher: new KeyedHasher("sixteen characters"),
      topic: undefined,
      isEngineProjectionAllowed: true,
      hasEngineSnapshot: true,
      mintEpoch: epochMint(),
      emit: (output) => this.publish(output),
    });
    this.fanOut = new FanOut({
      view: this.pipeline,
      instance: 1n,
      snapshotChunkBlocks: dice.int(1, 9),
      queueBytes: 6_000,
      resumeRingBytes: 40_000,
    });
  }

  receive(frames: readonly Uint8Array[]): void {
    const { dice, late } = this;
    this.pipeline.receive(frames, 0);
    if (late.length < 6 && dice.chance(0.02)) late.push(new Late(this));
    for (const one of late) {
      if (dice.chance(0.15)) one.take(dice.int(1, 30));
      if (dice.chance(0.03)) one.cut();
    }
  }

  /** Some read everything, and what they believe is compared. */
  compare(): void {
    this.pipeline.audit();
    const truth = this.truth.belief();
    for (const one of this.late) {
      if (this.dice.chance(0.5)) continue;
      one.take(Number.POSITIVE_INFINITY);
      const { start, isWhole } = one.consumer;
      expect(isWhole).toBe(true);
      this.compared += 1;
      if (this.isBounded && start?.completeness !== Completeness.COMPLETE) {
        expectPart(one.consumer, this.truth);
        continue;
      }
      this.complete += 1;
      expect(one.consumer.belief()).toEqual(truth);
    }
  }

  private publish(output: RankOutput): void {
    this.truth.hear(output);
    this.fanOut.publish(output);
  }
}

/** Nothing that the other one does not believe too. */
function expectPart(part: EngineConsumer, whole: EngineConsumer): void {
  const odd: string[] = [];
  for (const [groupId, blocks] of part.groups) {
    const all = whole.groups.get(groupId);
    for (const [hash, told] of blocks) {
      const isSame = told === "" ? all?.has(hash) === true : all?.get(hash) === told;
      if (!isSame) odd.push(`${groupId}/${hash}`);
    }
  }
  expect(odd).toEqual([]);
}

async function play(file: string, seed: number, engineWordsBytes?: number): Promise<World> {
  const trace = await openTrace(join(traces, file));
  const dpRank = parseDpRank(trace.engine.dp_rank);
  if (dpRank === undefined) throw new RangeError("the trace names no rank");
  const engine = engineConfigOfTrace(trace.engine);
  const world = new World({ dpRank, engine, engineWordsBytes }, new Dice(seed));
  for await (const entry of trace.entries) {
    if (entry.type === "frame") world.receive(entry.frames);
    else if (entry.type === "restart") world.pipeline.publisherReplaced();
    else if (world.dice.chance(0.15)) world.compare();
  }
  world.compare();
  world.fanOut.audit();
  expect(world.late.length).toBeGreaterThan(0);
  expect(world.compared).toBeGreaterThan(20);
  return world;
}

describe("late consumers of ENGINE", () => {
  test.each(cases)("of %s hold what the first one holds (seed %i)", async (file, seed) => {
    const { fanOut, compared, complete, pipeline } = await play(file, seed);
    expect(complete).toBe(compared);
    const { overflows, resumed, starts, snapshotChunks } = fanOut.counters();
    expect(overflows, "queues overflowed on the way").toBeGreaterThan(0);
    expect(resumed, "some went on from their cursors").toBeGreaterThan(0);
    expect(starts - resumed, "some did not").toBeGreaterThan(0);
    expect(snapshotChunks).toBeGreaterThan(starts);
    expect(pipeline.counters().get("engine_words_bytes")).toBeGreaterThan(0);
  });

  test.each(cases)(
    "of %s never hold more, with a bound too small (seed %i)",
    async (file, seed) => {
      const { compared, complete } = await play(file, seed + 100, 12_000);
      expect(complete, "some starts said that words are missing").toBeLessThan(compared);
    },
  );
});
