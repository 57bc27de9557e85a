// Goal: what operators reported about gaps, restarts and late joiners (field cases C) must not happen here where the
// engine has a replay socket.
// Method: an engine of the case's batches, the shipped path from frames to answers, and a replay socket that speaks
// vLLM's forms. A gateway that joins late must say the same.
import { describe, expect, test } from "vitest";
import {
  type Checkpoint,
  CheckpointWriter,
  rankFingerprint,
  readCheckpoint,
} from "../../src/bridge/dist/index.js";
import type { RankAnswer } from "../../src/gateway/dist/index.js";
import { KeyedHasher, LIMITS, parseDpRank } from "../../src/protocol/dist/index.js";
import { FieldEngine, type ReplyForm } from "../support/field-engine.ts";
import {
  CLEAR,
  FIELD_SEED,
  FieldRank,
  gatewayOf,
  rm,
  st,
  statedEngine,
  statedGroup,
  tokenList,
} from "../support/field-notation.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const STATED = statedEngine([statedGroup(0)]);
const BLOCKS = 40;

/** The n-th block of one prompt of fours. */
function block(n: number): unknown {
  const parent = n > 0 ? { p: n } : {};
  return st({ ...FULL, ...parent, h: [n + 1], t: `${n * 4}..${n * 4 + 3}` });
}

/** A bridge of `engine` and a gateway, both at rest. */
class Scene {
  readonly clock = new VirtualClock();
  readonly engine: FieldEngine;
  readonly rank: FieldRank;
  private readonly gateways;

  constructor(engine: FieldEngine, checkpoint?: Checkpoint) {
    const { clock } = this;
    this.engine = engine;
    const reopenLive = (): void => {
      this.rank.pipeline.setConnected(false);
      this.rank.pipeline.setConnected(true);
    };
    const repair = { replay: engine, timers: clock, clock, reopenLive };
    this.rank = new FieldRank("a", 0, STATED, { repair, checkpoint });
    this.gateways = [gatewayOf([this.rank])];
  }

  /** The engine answers. */
  settle(): void {
    this.engine.answer();
    this.rank.drain();
    this.rank.pipeline.audit();
  }

  /** Another gateway begins. */
  join(): void {
    this.gateways.push(gatewayOf([this.rank]));
  }

  /** What all gateways answer. */
  answer(prompt: string): RankAnswer {
    const heartbeat = this.rank.pipeline.heartbeat(this.clock.monotonicMs());
    this.rank.fanOut.heartbeat(heartbeat);
    this.rank.drain();
    const answers = this.gateways.map((one) => one.score({ tokens: tokenList(prompt) })[0]);
    const [first] = answers;
    if (first === undefined) throw new RangeError("one worker, one answer");
    for (const other of answers) expect(other).toEqual(first);
    return first;
  }

  q(prompt: string): number {
    return this.answer(prompt).reusableTokens;
  }

  counter(name: string): number {
    return this.rank.pipeline.counters().get(name) ?? 0;
  }

  /** What the next process of the bridge finds. */
  checkpoint(): Checkpoint {
    const { pipeline } = this.rank;
    const head = pipeline.checkpointHead({ instance: 1n, writtenAtMs: 0 });
    const dpRank = parseDpRank(0);
    if (head === undefined || dpRank === undefined) throw new RangeError("nothing was applied");
    const cut = new CheckpointWriter(pipeline.mirror);
    const pieces: Uint8Array[] = [];
    for (let piece = cut.piece(10); piece !== undefined; piece = cut.piece(10)) pieces.push(piece);
    pieces.push(cut.finish(head));
    cut.abandon();
    const hasher = new KeyedHasher(FIELD_SEED);
    const fingerprint = rankFingerprint({ engine: STATED, hasher, dpRank, topic: undefined });
    const read = readCheckpoint(Buffer.concat(pieces), { fingerprint, dpRank });
    if (!read.ok) throw new RangeError(read.error.reason);
    return read.value;
  }
}

describe("C2, C3, C7: a gap is filled", () => {
  test.each<ReplyForm>(["old", "new", "eight"])("C2, C3: replies of the %s form", (form) => {
    const engine = new FieldEngine({ form });
    const scene = new Scene(engine);
    scene.settle();
    const [first, , third] = [0, 1, 2].map((n) => engine.publish(block(n)));
    for (const batch of [first, third]) if (batch !== undefined) scene.rank.live(batch);
    expect(scene.answer("0..12").state, "while it is asked").toBe("stale");
    scene.settle();
    expect(scene.answer("0..12")).toMatchObject({ state: "exact", reusableTokens: 12 });
    expect(engine.asked, "late joiner, gap").toEqual([0n, 0n]);
    expect(scene.counter("batches")).toBe(3);
    expect(scene.counter("epochs")).toBe(0);
  });

  test("C7: after a filled gap nothing is asked, nor after one that is lost", () => {
    const engine = new FieldEngine({ bufferBatches: 5 });
    const scene = new Scene(engine);
    scene.settle();
    scene.rank.live(engine.publish(block(0)));
    engine.publish(block(1));
    for (let n = 2; n <= 50; n += 1) {
      scene.rank.live(engine.publish(block(n)));
      scene.settle();
    }
    expect(engine.asked).toHaveLength(2);
    expect(scene.q("0..204")).toBe(204);
    for (let n = 51; n <= 60; n += 1) engine.publish(block(n));
    for (let n = 61; n <= 99; n += 1) {
      scene.rank.live(engine.publish(block(n)));
      scene.settle();
    }
    expect(engine.asked).toHaveLength(3);
    expect(scene.counter("epochs")).toBe(1);
  });
});

describe("C13: a gap older than the engine's buffer", () => {
  test("C13: is one reset; the view is partial until a clear", () => {
    const engine = new FieldEngine({ bufferBatches: 31 });
    const scene = new Scene(engine);
    scene.settle();
    for (let n = 0; n <= 3; n += 1) scene.rank.live(engine.publish(block(n)));
    expect(scene.answer("0..16")).toMatchObject({ state: "exact", reusableTokens: 16 });
    for (let n = 4; n <= 79; n += 1) engine.publish(rm({ g: 0, h: [1] }));
    scene.rank.live(engine.publish(st({ ...FULL, h: [90], t: "901..904" })));
    scene.settle();
    expect(scene.counter("batches_lost")).toBe(46);
    expect(scene.counter("withdrawn.sequence_gap")).toBe(1);
    expect([scene.q("0..16"), scene.q("901..905")]).toEqual([0, 4]);
    expect(scene.answer("901..905")).toMatchObject({ state: "lower_bound" });
    scene.rank.live(engine.publish(CLEAR, block(0)));
    expect(scene.answer("0..4")).toMatchObject({ state: "exact", reusableTokens: 4 });
  });
});

describe("C11: a late joiner, and a gateway that starts later", () => {
  test("C11: what was published before is fetched; #7 counts once; a second gateway needs no traffic", () => {
    const engine = new FieldEngine();
    for (let n = 0; n <= 6; n += 1) engine.publish(block(n));
    const scene = new Scene(engine);
    scene.rank.live(engine.publish(block(7)));
    scene.settle();
    expect(scene.answer("0..32")).toMatchObject({ state: "exact", reusableTokens: 32 });
    expect(scene.counter("batches")).toBe(8);
    scene.clock.advance(LIMITS.replayPauseMs.value);
    scene.join();
    expect(scene.q("0..32")).toBe(32);
    scene.rank.live(engine.publish(rm({ g: 0, h: [8] })));
    expect(scene.q("0..32")).toBe(28);
  });
});

describe("C6: the bridge restarts, the engine does not", () => {
  /** The engine at #99 with forty blocks held, and what its bridge has written at #`until`. */
  function warm(bufferBatches: number, until: number): [FieldEngine, Checkpoint] {
    const engine = new FieldEngine({ bufferBatches });
    const old = new Scene(engine);
    old.settle();
    let found: Checkpoint | undefined;
    for (let n = 0; n < 100; n += 1) {
      const batch = n < BLOCKS ? engine.publish(block(n)) : engine.publish(rm({ g: 0, h: [999] }));
      old.rank.live(batch);
      if (n === until) found = old.checkpoint();
    }
    old.rank.pipeline.close();
    if (found === undefined) throw new RangeError("no checkpoint");
    return [engine, found];
  }

  test.each([
    ["a replay buffer that reaches back, no checkpoint", 1_000, false, 160],
    ["a checkpoint, and a buffer from #60 on", 40, true, 160],
    ["no checkpoint, and a buffer from #60 on", 40, false, 0],
  ] as const)("C6: %s", (_, bufferBatches, hasCheckpoint, reusableTokens) => {
    const [engine, found] = warm(bufferBatches, 70);
    const scene = new Scene(engine, hasCheckpoint ? found : undefined);
    scene.settle();
    const answer = scene.answer("0..160");
    expect(answer.reusableTokens).toBe(reusableTokens);
    expect(answer.reasons).toEqual(reusableTokens > 0 ? [] : ["group_unseen", "incomplete"]);
    scene.rank.live(engine.publish(st({ ...FULL, p: 40, h: [41], t: "160..163" })));
    scene.settle();
    expect(scene.q("0..164")).toBe(reusableTokens === 0 ? 0 : 164);
    scene.join();
    expect(scene.q("0..164")).toBe(reusableTokens === 0 ? 0 : 164);
    expect(scene.counter("epochs")).toBe(0);
  });

  test("C6: a checkpoint that the buffer does not reach is void, and nothing of it counts", () => {
    const [engine, found] = warm(20, 50);
    const scene = new Scene(engine, found);
    expect(scene.answer("0..160").state, "not proved yet").toBe("stale");
    scene.settle();
    const { reusableTokens, reasons } = scene.answer("0..160");
    expect([reusableTokens, reasons]).toEqual([0, ["group_unseen", "incomplete"]]);
    expect(scene.counter("withdrawn.engine_unproven")).toBe(1);
  });

  test("C6: a checkpoint of an engine that was replaced meanwhile is void", () => {
    const [, found] = warm(1_000, 90);
    const other = new FieldEngine();
    for (let n = 0; n < 120; n += 1) other.publish(n === 0 ? block(0) : rm({ g: 0, h: [999] }));
    const scene = new Scene(other, found);
    scene.settle();
    expect(scene.answer("0..160")).toMatchObject({ state: "exact", reusableTokens: 4 });
    expect(scene.counter("withdrawn.engine_restarted")).toBe(1);
  });
});

describe("C1: the engine restarts in place", () => {
  test("C1: with a replay socket, unseen, so that its numbers run past ours", () => {
    const engine = new FieldEngine();
    const scene = new Scene(engine);
    scene.settle();
    for (let n = 0; n < 4; n += 1) scene.rank.live(engine.publish(block(n)));
    expect(scene.q("0..16")).toBe(16);
    const next = new FieldEngine();
    for (let n = 0; n < 6; n += 1)
      next.publish(st({ ...FULL, h: [70 + n], t: `${n * 100}..${n * 100 + 3}` }));
    engine.become(next);
    scene.rank.pipeline.setConnected(false);
    scene.rank.pipeline.setConnected(true);
    scene.settle();
    expect([scene.q("0..16"), scene.q("100..104")]).toEqual([4, 4]);
    expect(scene.counter("withdrawn.engine_restarted")).toBe(1);
    expect(scene.answer("100..104").state).toBe("exact");
  });
});
