// Goal: a rank that may keep the engine's words gives ENGINE subscribers a snapshot and says whether it is whole; one
// that may not keeps no token at all; and tokens never show in what an operator sees.
// Method: a real pipeline and fan-out. Tokens are numbers that stand nowhere else, so that whatever holds or tells one is
// found by looking through everything that the rank can reach.
import { toJsonString } from "@bufbuild/protobuf";
import {
  Completeness,
  Projection,
  RankDescriptionSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import { readCheckpoint } from "../../../src/bridge/dist/checkpoint-reader.js";
import { CheckpointWriter } from "../../../src/bridge/dist/checkpoint-writer.js";
import { WORDS_OVERHEAD_BYTES } from "../../../src/bridge/dist/engine-words.js";
import { FanOut } from "../../../src/bridge/dist/fan-out.js";
import type { RankPipeline, RankPipelineOptions } from "../../../src/bridge/dist/rank-pipeline.js";
import type { ReplayHandlers } from "../../../src/bridge/dist/replay-port.js";
import { parseSequenceFrame, type SequenceNumber } from "../../../src/protocol/dist/index.js";
import { EngineConsumer } from "../../support/engine-consumer.ts";
import {
  batchOf,
  C,
  CLEAR,
  framesOf,
  key,
  pipelineOf,
  R,
  rankOf,
  rem,
  span,
} from "../../support/smg-notation.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";
import type { WireFields } from "../../support/wire-builder.ts";

const ALLOWED = { isEngineProjectionAllowed: true, hasEngineSnapshot: true };
const BLOCK_BYTES = WORDS_OVERHEAD_BYTES + 8 + 4 * 4;
/** Beyond every number that a test makes by other means. */
const SECRET = 3_141_592_653;

/** A root store of blocks of four tokens, in group 7. */
const full = (ends: readonly number[], through: number, more: WireFields = {}): WireFields =>
  R(7, "full", 0, 4, ends, through, more);

class Rank {
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
  readonly lines: string[] = [];
  private next = 0n;

  constructor(options: Partial<RankPipelineOptions> = ALLOWED, first = 0n) {
    this.next = first;
    this.pipeline = pipelineOf({
      emit: (output) => this.fanOut.publish(output),
      report: (message, fields) => this.lines.push(`${message} ${JSON.stringify(fields)}`),
      ...options,
    });
    this.fanOut = new FanOut({ view: this.pipeline, instance: 1n, snapshotChunkBlocks: 2 });
  }

  send(...events: readonly unknown[]): void {
    this.pipeline.receive(framesOf(this.next++, batchOf(events)), 0);
    this.pipeline.audit();
  }

  /** One that joins now and reads everything. */
  join(): EngineConsumer {
    const consumer = new EngineConsumer();
    const subscriber = this.fanOut.subscribe({ projection: Projection.ENGINE, onWake: () => {} });
    for (let item = subscriber?.next(); item !== undefined; item = subscriber?.next()) {
      consumer.apply(item);
    }
    subscriber?.close();
    return consumer;
  }

  counter(name: string): number | undefined {
    return this.pipeline.counters().get(name);
  }
}

/** What a consumer was told of completeness, and how many blocks it holds. */
function summary(consumer: EngineConsumer): readonly unknown[] {
  const { start, isWhole } = consumer;
  const blocks = [...consumer.groups.values()].reduce((sum, held) => sum + held.size, 0);
  const isComplete = start?.completeness === Completeness.COMPLETE;
  return [start?.hasSnapshot, isComplete, isWhole, blocks];
}

describe("start, pieces, live", () => {
  test("a snapshot of nothing is one empty last piece", () => {
    const consumer = new Rank().join();
    expect(consumer.chunks).toBe(1);
    expect(consumer.start?.hasSnapshot).toBe(true);
  });

  test("a late subscriber gets what is held, and is told that it is everything", () => {
    const rank = new Rank();
    rank.send(full([4, 8, 12], 12), R(1, "mamba", 0, 4, [12], 12), rem(7, [8]));
    const consumer = rank.join();
    expect(summary(consumer)).toEqual([true, true, true, 3]);
    expect(consumer.chunks).toBeGreaterThan(2);
  });

  test("other media and other owners are neither told nor missed", () => {
    const rank = new Rank();
    rank.send(full([4], 4), full([4, 8], 8, { medium: "CPU" }), full([4], 4, { ownership: "x" }));
    expect(summary(rank.join())).toEqual([true, true, true, 1]);
    expect(rank.counter("engine_words_missing")).toBe(0);
  });

  test("a new epoch empties the words, and what follows is another view", () => {
    const rank = new Rank();
    rank.send(full([4, 8], 8));
    rank.pipeline.receive(framesOf(9, batchOf([full([20], 4, { token_ids: span(1, 4) })])), 0);
    rank.pipeline.audit();
    expect(rank.counter("epochs")).toBe(1);
    expect(summary(rank.join())).toEqual([true, false, true, 1]);
  });

  test("an unreadable removal empties its group, a clear everything", () => {
    const rank = new Rank();
    rank.send(full([4, 8], 8), R(1, "mamba", 0, 4, [8], 8));
    rank.send(rem(7, [], { block_hashes: [true] }));
    expect(summary(rank.join())).toEqual([true, false, true, 1]);
    rank.send(CLEAR);
    expect(summary(rank.join())).toEqual([true, true, true, 0]);
    expect([...rank.join().kinds.keys()].sort()).toEqual([1, 7]);
  });

  test("a hash that took another's key is held, the other one is missing until it is removed", () => {
    const rank = new Rank();
    rank.send(full([4], 4), full([], 4, { block_hashes: [key(104)] }));
    expect(summary(rank.join())).toEqual([true, false, true, 1]);
    rank.send(rem(7, [4]));
    expect(summary(rank.join())).toEqual([true, true, true, 1]);
  });

  test("without the configuration there is none, and whoever comes late is told that it misses something", () => {
    for (const options of [{ isEngineProjectionAllowed: true }, { hasEngineSnapshot: true }]) {
      const rank = new Rank(options);
      expect(rank.pipeline.openSnapshot(Projection.ENGINE)).toBeUndefined();
      rank.send(full([4], 4));
      expect(rank.pipeline.start(Projection.ENGINE).completeness).toBe(Completeness.INCOMPLETE);
      expect(rank.pipeline.start(Projection.PREFIX_KEYS).completeness).toBe(Completeness.COMPLETE);
      expect(rank.counter("engine_words_bytes")).toBeUndefined();
      rank.send(CLEAR);
      expect(rank.pipeline.start(Projection.ENGINE).completeness).toBe(Completeness.COMPLETE);
    }
  });
});

describe("the bound", () => {
  test("words beyond it are not kept, counted as missing, and the start says so until they are gone", () => {
    const rank = new Rank({ ...ALLOWED, engineWordsBytes: 2 * BLOCK_BYTES });
    rank.send(full([4, 8], 8));
    expect(summary(rank.join())).toEqual([true, true, true, 2]);
    rank.send(C(7, "full", 0, 8, 12), C(7, "full", 0, 12, 16));
    expect(summary(rank.join())).toEqual([true, false, true, 2]);
    expect(rank.counter("engine_words_bytes")).toBe(2 * BLOCK_BYTES);
    expect(rank.counter("engine_words_blocks")).toBe(2);
    expect(rank.counter("engine_words_missing")).toBe(2);
    rank.send(rem(7, [16, 12]));
    expect(summary(rank.join())).toEqual([true, true, true, 2]);
    rank.send(rem(7, [8]), C(7, "full", 0, 4, 20, { block_size: 4, token_ids: span(5, 8) }));
    expect(summary(rank.join())).toEqual([true, true, true, 2]);
  });
});

describe("a bridge that began from a checkpoint", () => {
  test("has no words: its snapshot is incomplete until the blocks are stored anew", () => {
    const known = batchOf([full([4, 8], 8), R(1, "mamba", 0, 4, [8], 8)]);
    const before = new Rank();
    before.pipeline.receive(framesOf(0, known), 0);
    const head = before.pipeline.checkpointHead({ instance: 1n, writtenAtMs: 0 });
    if (head === undefined) expect.fail("something was applied");
    const bytes = new CheckpointWriter(before.pipeline.mirror).finish(head);
    const read = readCheckpoint(bytes, { fingerprint: head.fingerprint, dpRank: rankOf(0) });
    if (!read.ok) expect.fail(read.error.reason);
    const engine = new ProvingEngine();
    const rank = new Rank({ ...ALLOWED, checkpoint: read.value, repair: engine.repair }, 1n);
    rank.pipeline.setConnected(true);
    engine.prove(framesOf(0, known));
    // The live socket shows that it leads to the same engine.
    rank.pipeline.receive(framesOf(0, known), 0);
    expect(rank.pipeline.start(Projection.PREFIX_KEYS).completeness).toBe(Completeness.COMPLETE);
    expect(summary(rank.join())).toEqual([true, false, true, 0]);
    expect(rank.counter("engine_words_missing")).toBe(3);
    rank.send(full([4, 8], 8));
    expect(summary(rank.join())).toEqual([true, false, true, 2]);
    rank.send(rem(1, [8]));
    expect(summary(rank.join())).toEqual([true, true, true, 2]);
    expect(rank.counter("epochs")).toBeUndefined();
    rank.pipeline.close();
  });
});

/** A replay socket that answers when it is told to. */
class ProvingEngine {
  private handlers: ReplayHandlers | undefined;
  private readonly clock = new VirtualClock();

  get repair(): NonNullable<RankPipelineOptions["repair"]> {
    const request = (_from: SequenceNumber, handlers: ReplayHandlers) => {
      this.handlers = handlers;
      return () => {};
    };
    return { replay: { request }, timers: this.clock, clock: this.clock, reopenLive: () => {} };
  }

  prove([, sequence, payload]: readonly Uint8Array[]): void {
    const number = parseSequenceFrame(sequence ?? new Uint8Array());
    if (number === undefined || payload === undefined) throw new RangeError("no batch");
    expect(this.handlers, "the engine was asked").toBeDefined();
    this.handlers?.onBatch(number, payload);
    this.handlers?.onEnd();
  }
}

/** Whether a number stands anywhere in what a value reaches, in lists, maps, bytes or texts. */
function reaches(root: unknown, wanted: number): boolean {
  const seen = new Set<unknown>();
  const open: unknown[] = [root];
  for (let value = open.pop(); value !== undefined || open.length > 0; value = open.pop()) {
    if (value === wanted || value === BigInt(wanted)) return true;
    if (typeof value === "string" && value.includes(String(wanted))) return true;
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    if (ArrayBuffer.isView(value)) {
      const { buffer, byteOffset, byteLength } = value;
      if (holdsNumber(new DataView(buffer, byteOffset, byteLength), wanted)) return true;
    } else if (value instanceof Map) {
      open.push(...value.keys(), ...value.values());
    } else if (value instanceof Set) open.push(...value);
    else open.push(...Reflect.ownKeys(value).map((name) => Reflect.get(value, name) as unknown));
  }
  return false;
}

function holdsNumber(view: DataView, wanted: number): boolean {
  for (let at = 0; at + 4 <= view.byteLength; at++) {
    if (view.getUint32(at, true) === wanted || view.getUint32(at) === wanted) return true;
  }
  return false;
}

describe("prompts", () => {
  const secret = { token_ids: Array.from({ length: 8 }, () => SECRET) };

  test.each([
    [false, { isEngineProjectionAllowed: true }],
    [false, {}],
    [true, ALLOWED],
  ])("a rank keeps tokens: %s, configured as %j", (isKept, options) => {
    const outputs: unknown[] = [];
    const pipeline = pipelineOf({ ...options, emit: (output) => outputs.push(output.type) });
    pipeline.receive(framesOf(0, batchOf([full([4, 8], 8, secret)])), 0);
    pipeline.receive(framesOf(1, batchOf([R(1, "mamba", 0, 4, [8], 8, secret)])), 0);
    expect(outputs).toContain("batch");
    expect(Number(pipeline.describe(0).placedBlocks)).toBe(3);
    expect(reaches(pipeline, SECRET)).toBe(isKept);
  });

  test("are gone with the blocks", () => {
    const pipeline = pipelineOf(ALLOWED);
    pipeline.receive(framesOf(0, batchOf([full([4, 8], 8, secret)])), 0);
    pipeline.receive(framesOf(1, batchOf([rem(7, [4, 8])])), 0);
    expect(reaches(pipeline, SECRET)).toBe(false);
  });

  test("never stand in what an operator sees, also at the bound and when something is refused", () => {
    const rank = new Rank({ ...ALLOWED, engineWordsBytes: BLOCK_BYTES });
    rank.send(full([4, 8], 8, secret));
    rank.send(full([4, 8], 8, { ...secret, token_ids: [SECRET] }), C(7, "swa", 8, 8, 12, secret));
    rank.send(rem(7, [], { block_hashes: [SECRET, true] }));
    rank.pipeline.receive([new Uint8Array(0), new Uint8Array(3)], 0);
    const described = toJsonString(RankDescriptionSchema, rank.pipeline.describe(0));
    const seen = [described, JSON.stringify([...rank.pipeline.counters()]), ...rank.lines];
    expect(rank.lines.length).toBeGreaterThan(2);
    for (const text of seen) expect(text).not.toContain(String(SECRET));
  });
});
