// Goal: what operators reported about tiers and places that are not local (field cases G) must
// not happen here.
// Method: each case's events go through the shipped path. Only the GPU is scored so far, so GPU
// answers are judged: no event of another tier may raise, lower or keep them.
import { describe, expect, test } from "vitest";
import { FieldTrial, rm, st, statedEngine, statedGroup } from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const BARE = { g: 0, p: null, t: [], bs: 0 } as const;

describe("G1: placeholders of the CPU tier", () => {
  test("G1: a CPU store without tokens and size changes neither answer nor block size", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    expect(trial.q("1..9")).toBe(8);
    trial.send(st({ ...BARE, h: [1, 2], m: "CPU" }));
    expect(trial.q("1..9")).toBe(8);
    expect(trial.path.pipeline.describe(0).engine?.groups[0]?.blockSize).toBe(4);
    trial.send(rm({ g: 0, h: [1, 2] }));
    expect(trial.q("1..9")).toBe(0);
    expect(
      [...trial.path.pipeline.counters().keys()].filter((name) => name.startsWith("refused")),
    ).toEqual([]);
    expect(trial.placed).toBe(2);
  });

  test("G1: placeholders before the GPU store take their place from it and earn nothing", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...BARE, h: [1, 2], m: "CPU" }));
    expect(trial.q("1..9")).toBe(0);
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }), rm({ g: 0, h: [2] }));
    expect(trial.q("1..9")).toBe(4);
    expect([trial.placed, trial.unplaced]).toEqual([3, 0]);
  });

  test("G1: a GPU placeholder of size 0 leaves the group's size alone", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }), st({ ...BARE, h: [9] }));
    expect(trial.q("1..9")).toBe(8);
  });

  test("G1: a CPU store with a chunk of another size leaves the group's size alone", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    trial.send(st({ ...FULL, bs: 256, h: [9], t: "1..256", m: "CPU" }));
    expect(trial.q("1..9")).toBe(8);
    expect(trial.path.pipeline.describe(0).engine?.groups[0]?.blockSize).toBe(4);
  });

  test("G1: a CPU placeholder of a partial block, larger than its end, breaks no stream", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, bs: 8, h: [8], t: "1..8" }));
    trial.send(st({ ...FULL, bs: 2, p: 8, h: [10], t: "9..10" }));
    trial.send(st({ ...BARE, bs: 1024, h: [10, 8], m: "CPU" }));
    expect(trial.q("1..9")).toBe(8);
    trial.send(st({ ...FULL, bs: 8, p: 8, h: [16], t: "9..16" }));
    expect(trial.q("1..17")).toBe(16);
    expect(trial.path.gateway.workers()[0]?.lastError).toBeUndefined();
  });
});

describe("G2: removals in one tier", () => {
  const gpu = st({ ...FULL, h: [1], t: "1..4" });

  test.each([
    ["with tokens", st({ ...FULL, h: [1], t: "1..4", m: "CPU" })],
    ["without", st({ ...BARE, h: [1], m: "CPU" })],
  ])("G2: GPU, CPU (%s), then both removed: 4, 4, 0, 0", (_name, cpu) => {
    for (const engine of [undefined, statedEngine([statedGroup(0)])]) {
      const trial = new FieldTrial(engine);
      const events = [gpu, cpu, rm({ g: 0, h: [1] }), rm({ g: 0, h: [1], m: "CPU" })];
      const answers = events.map((event) => {
        trial.send(event);
        return trial.q("1..5");
      });
      expect(answers).toEqual([4, 4, 0, 0]);
      expect(trial.placed).toBe(0);
    }
  });

  test("G2: a CPU removal never lowers the GPU, with a group or without", () => {
    const trial = new FieldTrial();
    trial.send(gpu, st({ ...BARE, h: [1], m: "CPU" }));
    trial.send(rm({ h: [1], m: "CPU" }), rm({ g: 0, h: [1], m: "CPU" }));
    expect(trial.q("1..5")).toBe(4);
    trial.send({ type: "AllBlocksCleared", medium: "CPU" });
    expect(trial.q("1..5")).toBe(4);
  });

  test("G2: a clear that names the CPU, again and again, never lowers the GPU", () => {
    const trial = new FieldTrial();
    trial.send(gpu, st({ ...BARE, h: [1], m: "CPU" }));
    for (let i = 0; i < 3; i++) trial.send({ type: "AllBlocksCleared", medium: "cpu" });
    expect([trial.q("1..5"), trial.placed]).toEqual([4, 1]);
  });

  test("G2: a CPU removal that cannot be read never lowers the GPU, and the reverse", () => {
    const trial = new FieldTrial();
    trial.send(gpu, st({ ...BARE, h: [1], m: "CPU" }));
    trial.send(rm({ g: 0, h: [], m: "CPU", more: { block_hashes: "x" } }));
    expect(trial.q("1..5")).toBe(4);
    expect(trial.placed).toBe(1);
  });
});

test("G4: CPU chunks never touch the GPU; the shared hash stays until both are gone", () => {
  const trial = new FieldTrial();
  trial.send(st({ ...FULL, h: [1, 2, 3], t: "1..12" }));
  const cpu = { g: 0, m: "CPU" } as const;
  const held: number[] = [];
  for (const event of [
    st({ ...BARE, ...cpu, h: [1, 2] }),
    st({ ...BARE, ...cpu, h: [2, 3] }),
    rm({ ...cpu, h: [1, 2] }),
    rm({ ...cpu, h: [2, 3] }),
  ]) {
    trial.send(event);
    expect(trial.q("1..13")).toBe(12);
    held.push(trial.placed - 3);
  }
  expect(held).toEqual([2, 3, 2, 0]);
});

describe("G5: names of media", () => {
  test("G5: GPU in any case, absent and null are the GPU; other names earn no credit", () => {
    const trial = new FieldTrial();
    const media = ["GPU", undefined, null, "gpu", "CPU_PINNED", "NVME9", "", "GPU "];
    for (const [index, m] of media.entries()) {
      const first = 100 * index + 1;
      const store = st({ ...FULL, h: [index + 1], t: `${first}..${first + 3}` });
      const { medium: _, ...absent } = store;
      trial.send(m === undefined ? absent : { ...store, medium: m });
    }
    const answers = media.map((_, index) => trial.q(`${100 * index + 1}..${100 * index + 5}`));
    expect(answers).toEqual([4, 4, 4, 4, 0, 0, 0, 0]);
  });

  test("G5: a thousand unknown names cost themselves only, and are counted under one name", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    for (let i = 0; i < 1000; i++) trial.send(st({ ...BARE, h: [1], m: `TIER${i}` }));
    expect(trial.refused("too_many_media")).toBe(984);
    expect(trial.q("1..9")).toBe(8);
    trial.send(rm({ g: 0, h: [1], m: "TIER999" }), rm({ g: 0, h: [1], m: "TIER0" }));
    expect(trial.q("1..9")).toBe(8);
    trial.send(rm({ g: 0, h: [1] }));
    expect(trial.q("1..9")).toBe(0);
    expect(trial.path.pipeline.counters().size).toBeLessThan(30);
  });

  test("G5: sixteen foreign names first do not keep the GPU out", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 20; i++) trial.send(st({ ...BARE, h: [1], m: `TIER${i}` }));
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    expect(trial.q("1..9")).toBe(8);
    trial.send(rm({ g: 0, h: [2] }));
    expect(trial.q("1..9")).toBe(4);
  });

  test.each([7, true, ["GPU"], { a: 1 }])("G5: medium %j costs the store itself only", (medium) => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1], t: "1..4" }));
    trial.send(st({ ...FULL, h: [2], t: "11..14", more: { medium } }));
    expect([trial.q("1..5"), trial.q("11..15")]).toEqual([4, 0]);
    expect(trial.refused("medium_invalid")).toBe(1);
  });
});

describe("G7: blocks that are not local", () => {
  const at = (hash: number, more: Record<string, unknown>): unknown =>
    st({ ...FULL, h: [hash], t: `${100 * hash + 1}..${100 * hash + 4}`, more });
  const ask = (trial: FieldTrial, hash: number): number =>
    trial.q(`${100 * hash + 1}..${100 * hash + 5}`);

  test.each([
    [4, { locality: "LOCAL" }],
    [0, { locality: "REMOTE" }],
    [4, {}],
    [4, { locality: null }],
    [0, { ownership: "x" }],
    [4, { ownership: null }],
    [0, { locality: "LOCAL", ownership: "x" }],
    [0, { locality: "SOMEWHERE" }],
  ])("G7: credit %s for %j", (right, more) => {
    const trial = new FieldTrial();
    trial.send(at(1, more));
    expect(ask(trial, 1)).toBe(right);
  });

  test("G7: a removal or clear of remote blocks never removes a local block", () => {
    const trial = new FieldTrial();
    trial.send(at(1, {}), at(1, { locality: "REMOTE" }), at(1, { ownership: "x" }));
    trial.send(rm({ g: 0, h: [1], more: { locality: "REMOTE" } }));
    trial.send(rm({ g: 0, h: [1], more: { locality: "REMOTE" } }));
    trial.send(rm({ h: [1], more: { ownership: "x" } }));
    expect(ask(trial, 1)).toBe(4);
    expect(trial.placed).toBe(1);
    trial.send(rm({ g: 0, h: [1], more: { locality: "LOCAL" } }));
    expect(ask(trial, 1)).toBe(0);
  });

  test("G7: a remote store does not define the group's block size", () => {
    const trial = new FieldTrial();
    trial.send(at(1, {}));
    trial.send(st({ ...FULL, bs: 64, h: [9], t: "1..64", more: { locality: "REMOTE" } }));
    expect(ask(trial, 1)).toBe(4);
  });

  test("G7: a locality that is no text costs the store; in a removal it costs the hash", () => {
    const trial = new FieldTrial();
    trial.send(at(1, {}), at(2, { locality: 7 }));
    expect([ask(trial, 1), ask(trial, 2)]).toEqual([4, 0]);
    trial.send(rm({ g: 0, h: [1], more: { locality: 7 } }));
    expect(ask(trial, 1)).toBe(0);
    expect(trial.refused("locality_invalid")).toBe(2);
  });
});
