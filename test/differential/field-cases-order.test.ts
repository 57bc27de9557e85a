// Goal: what operators reported about numbers, gaps and restarts (field cases C) must not happen
// here.
// Method: each case's batches go through the shipped path without a replay socket, so the cases
// that need it are held to what must be true without: an explicit reset, an incomplete view, and
// never an answer above the engine.
import { describe, expect, test } from "vitest";
import {
  CLEAR,
  FieldRank,
  FieldTrial,
  gatewayOf,
  rm,
  st,
  statedEngine,
  statedGroup,
  tokenList,
} from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const STATED = statedEngine([statedGroup(0)]);

describe("C1: the engine restarts in place", () => {
  test("C1: a number that goes back ends the old credit with one reset, without replay", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1, 2], t: "1..8" }));
    for (const sequence of [1, 2, 3]) trial.batch(sequence);
    expect(trial.q("1..9")).toBe(8);
    trial.batch(0, st({ ...FULL, h: [50], t: "101..104" }));
    expect([trial.q("1..9"), trial.q("101..105")]).toEqual([0, 4]);
    expect(trial.counter("epochs")).toBe(1);
    expect(trial.counter("withdrawn.engine_restarted")).toBe(1);
  });

  test("C1: every gateway is reset; what was known of groups is learnt again", () => {
    const rank = new FieldRank("a", 0);
    const gateways = [gatewayOf([rank]), gatewayOf([rank])];
    rank.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    rank.send(st({ g: 1, k: "mamba", bs: 8, h: [2], t: "5..8", p: 1 }));
    rank.payload(0, [77.5, [st({ g: 0, k: "mla", bs: 2, h: [50], t: "101..102" })], 0]);
    for (const gateway of gateways) {
      expect(gateway.score({ tokens: tokenList("1..9") })[0]?.reusableTokens).toBe(0);
      expect(gateway.score({ tokens: tokenList("101..103") })[0]?.reusableTokens).toBe(2);
    }
    const groups = rank.pipeline.describe(0).engine?.groups ?? [];
    expect(groups.map((group) => [group.groupId, group.kind, group.blockSize])).toEqual([
      [0, "mla_attention", 2],
    ]);
  });

  test("C1: hashes of the old process name nothing in the new one", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(0, st({ ...FULL, p: 1, h: [2], t: "5..8" }));
    expect(trial.q("1..9")).toBe(0);
    expect(trial.unplaced).toBe(1);
  });

  test("C1: a restart seen only at its fifth batch is a restart too", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 10; i++)
      trial.batch(i, st({ ...FULL, h: [i + 1], t: `${i * 10}..${i * 10 + 3}` }));
    trial.batch(4, st({ ...FULL, h: [90], t: "901..904" }));
    expect([trial.q("0..4"), trial.q("901..905")]).toEqual([0, 4]);
    expect(trial.answer("901..905").reasons).toContain("incomplete");
  });
});

describe("C2, C7, C13: gaps, without replay", () => {
  test("C2 without replay: a lost batch is a reset; nothing before it keeps credit", () => {
    const trial = new FieldTrial(STATED);
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    expect(trial.answer("1..5")).toMatchObject({ state: "exact", reusableTokens: 4 });
    trial.batch(2, st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    expect([trial.q("1..5"), trial.q("1..13")]).toEqual([0, 0]);
    expect(trial.counter("batches_lost")).toBe(1);
    expect(trial.counter("withdrawn.sequence_gap")).toBe(1);
    expect(trial.answer("1..13").state).toBe("lower_bound");
    expect(trial.answer("1..13").reasons).toContain("incomplete");
  });

  test("C7 without replay: one gap, one reset; the batches after it are in order", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(2, st({ ...FULL, h: [1], t: "1..4" }));
    for (let i = 3; i <= 50; i++) trial.batch(i, st({ ...FULL, p: i - 2, h: [i - 1], t: "5..8" }));
    expect(trial.counter("epochs")).toBe(1);
    expect(trial.counter("batches_lost")).toBe(1);
    expect(trial.q("1..5")).toBe(4);
  });

  test("C13 without replay: 76 lost batches reset once; only a clear makes it whole", () => {
    const trial = new FieldTrial(STATED);
    for (let i = 0; i <= 3; i++) trial.batch(i, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(80, st({ ...FULL, h: [8], t: "81..84" }));
    expect(trial.counter("batches_lost")).toBe(76);
    expect(trial.answer("81..85")).toMatchObject({ state: "lower_bound", reusableTokens: 4 });
    trial.send(CLEAR, st({ ...FULL, h: [9], t: "91..94" }));
    expect(trial.answer("91..95")).toMatchObject({ state: "exact", reusableTokens: 4 });
    expect(trial.q("81..85")).toBe(0);
  });

  test("C2: the same batch again costs and gives nothing", () => {
    const trial = new FieldTrial();
    const value = [1.5, [st({ ...FULL, h: [1], t: "1..4" })], 0];
    for (let i = 0; i < 3; i++) trial.payload(0, value);
    trial.send(rm({ g: 0, h: [1] }));
    expect(trial.counter("duplicates")).toBe(2);
    expect(trial.q("1..5")).toBe(0);
  });

  test("C2: batches that arrive exchanged are never above the engine", () => {
    const trial = new FieldTrial();
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(2, rm({ g: 0, h: [1] }));
    trial.batch(1, st({ ...FULL, p: 1, h: [2], t: "5..8" }));
    expect([trial.q("1..5"), trial.q("1..9")]).toEqual([0, 0]);
  });
});

describe("C10: batches dropped before they are numbered", () => {
  test("C10: orphans earn nothing, are counted, and are told as a lower bound", () => {
    const trial = new FieldTrial(STATED);
    trial.batch(0, st({ ...FULL, h: [1], t: "1..4" }));
    trial.batch(1, st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    trial.batch(2, st({ ...FULL, p: 3, h: [4], t: "13..16" }));
    expect(trial.q("1..17")).toBe(4);
    expect(trial.q("9..17")).toBe(0);
    expect(trial.unplaced).toBe(2);
    const { state, reasons } = trial.answer("1..17");
    expect([state, reasons]).toEqual(["lower_bound", ["unplaced_blocks"]]);
  });

  test("C10: when the missing block is told later, nothing is guessed about its children", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1], t: "1..4" }), st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    trial.send(st({ ...FULL, p: 1, h: [2], t: "5..8" }));
    expect([8, 12]).toContain(trial.q("1..13"));
    trial.send(st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    expect(trial.q("1..13")).toBe(12);
    expect(trial.unplaced).toBe(0);
    trial.send(rm({ g: 0, h: [3] }), rm({ g: 0, h: [3] }));
    expect(trial.q("1..13")).toBe(8);
  });

  test("C10: an orphan is one entry however often it comes", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 500; i++) trial.send(st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    expect(trial.unplaced).toBe(1);
  });
});

describe("C11, C6: late joiners, without replay", () => {
  test("C11: joining at #7 is a lower bound, and orphans earn nothing", () => {
    const trial = new FieldTrial(STATED);
    trial.batch(7, st({ ...FULL, p: 2, h: [3], t: "9..12" }), st({ ...FULL, h: [9], t: "91..94" }));
    expect([trial.q("1..13"), trial.q("9..13"), trial.q("91..95")]).toEqual([0, 0, 4]);
    const { state, reasons } = trial.answer("91..95");
    expect([state, reasons]).toEqual(["lower_bound", ["incomplete", "unplaced_blocks"]]);
  });

  test("C11: a second gateway, started later, answers as the first without any traffic", () => {
    const rank = new FieldRank("a", 0);
    const first = gatewayOf([rank]);
    for (let i = 0; i < 40; i++) {
      rank.send(
        st({ ...FULL, ...(i > 0 ? { p: i } : {}), h: [i + 1], t: `${i * 4}..${i * 4 + 3}` }),
      );
    }
    rank.send(
      st({ g: 1, k: "swa", w: 9, bs: 4, p: 19, h: [20, 21], t: "76..83" }),
      rm({ g: 0, h: [33] }),
    );
    const second = gatewayOf([rank]);
    for (let end = 1; end < 165; end += 7) {
      const query = { tokens: tokenList(`0..${end}`) };
      expect(second.score(query)).toEqual(first.score(query));
    }
    expect(first.score({ tokens: tokenList("0..160") })[0]?.reusableTokens).toBe(84);
  });

  test("C6 without a checkpoint: a new bridge holds only what it can prove", () => {
    const old = new FieldTrial(STATED);
    const before = Array.from({ length: 40 }, (_, i) =>
      st({ ...FULL, ...(i > 0 ? { p: i } : {}), h: [i + 1], t: `${i * 4}..${i * 4 + 3}` }),
    );
    old.batch(100, ...before);
    expect(old.q("0..160")).toBe(160);
    const fresh = new FieldTrial(STATED);
    expect(fresh.answer("0..160")).toMatchObject({ state: "assumed", reusableTokens: 0 });
    fresh.batch(101, st({ ...FULL, p: 40, h: [41], t: "160..163" }), rm({ g: 0, h: [40] }));
    expect(fresh.q("0..164")).toBe(0);
    expect(fresh.answer("0..164").state).toBe("lower_bound");
    expect(fresh.counter("removals_unknown")).toBe(1);
  });
});

describe("C8: subscriptions", () => {
  test("C8 without resume: a gateway that fell behind gets a new start and is right", () => {
    const rank = new FieldRank("a", 0, STATED, { queueBytes: 2000 });
    const gateway = gatewayOf([rank]);
    rank.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    rank.isHeldBack = true;
    rank.send(rm({ g: 0, h: [1] }));
    for (let i = 0; i < 200; i++)
      rank.send(st({ ...FULL, p: 2, h: [10 + i], t: `${10 * i}..${10 * i + 3}` }));
    rank.isHeldBack = false;
    rank.drain();
    expect(rank.fanOut.counters().overflows).toBeGreaterThan(0);
    const [gone, kept] = [tokenList("1..9"), [...tokenList("1..8"), ...tokenList("10..13"), 0]];
    expect(gateway.score({ tokens: gone })[0]).toMatchObject({ state: "exact", reusableTokens: 0 });
    rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    expect(gateway.score({ tokens: kept })[0]).toMatchObject({
      state: "exact",
      reusableTokens: 12,
    });
  });

  test("C8 without resume: a new epoch clears the view at once, without a reconnect", () => {
    const rank = new FieldRank("a", 0);
    const gateway = gatewayOf([rank]);
    rank.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    rank.pipeline.publisherReplaced();
    rank.drain();
    expect(gateway.score({ tokens: tokenList("1..9") })[0]?.reusableTokens).toBe(0);
    expect(gateway.workers()[0]).toMatchObject({ entries: 0, lastError: undefined });
    rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    expect(gateway.score({ tokens: tokenList("1..9") })[0]?.reusableTokens).toBe(4);
  });
});
