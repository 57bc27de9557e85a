// Goal: what operators reported about group metadata (field cases B) must not happen here.
// Method: each case's events go through the shipped path; the case says the right answer.
import { describe, expect, test } from "vitest";
import {
  FieldRank,
  FieldTrial,
  rm,
  st,
  statedEngine,
  statedGroup,
} from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;

describe("B1: hashes omitted for skipped blocks", () => {
  const dense = st({ ...FULL, h: [1, 2], t: "1..8" });
  const sparse = st({ g: 1, k: "mamba", bs: 4, h: [2], t: "1..8" });

  test.each([
    ["after", [dense, sparse]],
    ["before", [sparse, dense]],
  ])("B1: a sparse mamba store %s the dense one is placed by its hash at 8", (_name, events) => {
    const trial = new FieldTrial();
    for (const event of events) {
      trial.send(event);
      expect([0, 8]).toContain(trial.q("1..9"));
    }
    expect(trial.q("1..9")).toBe(8);
    expect(trial.q("1..8")).toBe(0);
    trial.send(rm({ g: 1, h: [2] }));
    expect(trial.q("1..9")).toBe(0);
    expect(trial.placed).toBe(2);
  });

  test("B1: alone it earns nothing, and the answer says why", () => {
    const trial = new FieldTrial();
    trial.send(sparse);
    expect(trial.q("1..9")).toBe(0);
    expect(trial.answer("1..9").reasons).toContain("unplaced_blocks");
    expect(trial.unplaced).toBe(1);
  });

  test("B1: sparse in the middle: three of five hashes are never put by ordinal", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 1, k: "swa", w: 5, bs: 4, h: [11, 13, 15], t: "1..20" }));
    for (const end of [5, 9, 13, 17, 21]) expect(trial.q(`1..${end}`)).toBe(0);
    trial.send(st({ ...FULL, h: [11, 12, 13, 14, 15], t: "1..20" }));
    expect([5, 9, 13, 17, 21].map((end) => trial.q(`1..${end}`))).toEqual([4, 4, 12, 12, 20]);
  });
});

describe("B4: two block sizes under one group", () => {
  const real = st({ g: 0, k: "mla", bs: 8, h: [1, 2], t: "1..16" });
  const small = st({ g: 0, k: "mla", bs: 2, p: 99, h: [50], t: "7..8" });

  test("B4: after the real size is known, ten small orphans change no answer and are seen", () => {
    const trial = new FieldTrial();
    trial.send(real);
    for (let i = 0; i < 10; i++) {
      trial.send(small);
      expect(trial.q("1..17")).toBe(16);
    }
    expect(trial.unplaced).toBe(1);
    expect(trial.answer("1..17").reasons).toContain("unplaced_blocks");
  });

  test("B4: small ones first: no credit, and the real size takes over", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 10; i++) {
      trial.send(small);
      expect([trial.q("1..17"), trial.q("7..9")]).toEqual([0, 0]);
    }
    trial.send(real);
    expect(trial.q("1..17")).toBe(16);
  });

  const chain = st({ g: 0, k: "mla", bs: 2, h: [51, 52, 53, 54, 55, 56, 57, 58], t: "1..16" });

  test("B4: small blocks from the root never count as the real group's blocks of 8", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "mla", bs: 8, h: [3], t: "101..108" }));
    trial.send(chain);
    expect(trial.q("1..17")).toBe(0);
  });

  test("B4: small blocks from the root, told first, lose their credit with the real size", () => {
    const trial = new FieldTrial();
    trial.send(chain);
    trial.send(st({ g: 0, k: "mla", bs: 8, h: [3], t: "101..108" }));
    expect(trial.q("1..17")).toBe(0);
  });

  test("B4: a small block gone in the middle is not made up for by one on the grid", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "mla", bs: 8, h: [3], t: "101..108" }));
    trial.send(chain, rm({ g: 0, h: [51, 52, 53] }));
    expect(trial.q("1..9")).toBe(0);
  });

  test("B4: small blocks from the root do not cost the real blocks their place", () => {
    const trial = new FieldTrial();
    trial.send(real, chain);
    trial.send(rm({ g: 0, h: [51, 52, 53, 54, 55, 56, 57, 58] }));
    expect(trial.q("1..17")).toBe(16);
  });

  test("B4: a small block that gets its place later is no whole block of the group either", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "mla", bs: 8, h: [3], t: "101..108" }));
    trial.send(st({ g: 0, k: "mla", bs: 2, p: 49, h: [50], t: "7..8" }));
    trial.send(st({ g: 1, k: "full", bs: 2, h: [47, 48, 49, 50], t: "1..8" }));
    expect(trial.q("1..9")).toBe(0);
  });

  test("B4: small blocks from the root, one in each store, never count as a block of 8", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "mla", bs: 8, h: [3], t: "101..108" }));
    for (let i = 1; i <= 4; i++) {
      const p = i === 1 ? null : 49 + i;
      trial.send(st({ g: 0, k: "mla", bs: 2, p, h: [50 + i], t: `${2 * i - 1}..${2 * i}` }));
    }
    expect([trial.q("1..9"), trial.q("1..7")]).toEqual([0, 0]);
  });

  test("B4: one larger dense store takes the group over: answers fall, and it shows", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    trial.send(st({ ...FULL, bs: 1024, h: [9], t: "2001..3024" }));
    expect(trial.q("1..9")).toBe(0);
    expect(trial.q("2001..3025")).toBe(1024);
    expect(trial.path.pipeline.describe(0).engine?.groups[0]?.blockSize).toBe(1024);
    expect(trial.answer("1..9").reasons).toContain("layout_assumed");
  });
});

describe("B6: kinds without a rule", () => {
  test.each([
    ["unknown", "kind_unsupported"],
    ["cross_attention", "kind_unsupported"],
    ["encoder_only_attention", "kind_unsupported"],
    ["foo", "kind_unsupported"],
    ["chunked_local_attention", "chunk_unknown"],
  ])("B6: kind %s is unknown, not nothing, and names itself; reason %s", (kind, reason) => {
    const trial = new FieldTrial();
    const nothing = trial.answer("1..9");
    trial.send(st({ g: 0, k: kind, bs: 4, h: [1, 2], t: "1..8" }));
    const answer = trial.answer("1..9");
    expect(answer).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(answer.reasons).toContain(reason);
    expect(answer.reasons).not.toEqual(nothing.reasons);
    expect(trial.path.pipeline.describe(0).engine?.groups[0]?.kind).toBe(kind);
    trial.send(st({ g: 1, k: "full", bs: 4, h: [1, 2], t: "1..8" }));
    expect(trial.answer("1..9")).toMatchObject({ state: "unknown", reusableTokens: 0 });
  });

  test("B6: a stated kind is what unknown means", () => {
    const engine = statedEngine([statedGroup(0)]);
    const trial = new FieldTrial(engine);
    trial.send(st({ g: 0, k: "unknown", bs: 4, h: [1, 2], t: "1..8" }));
    expect(trial.answer("1..9")).toMatchObject({ state: "exact", reusableTokens: 8 });
  });

  test("B6: kinds that cannot be read make the answer unknown, never full attention", () => {
    for (const kind of ["", 7, ["full_attention"]]) {
      const trial = new FieldTrial();
      const more = { kv_cache_spec_kind: kind };
      trial.send(st({ g: 0, bs: 4, h: [1, 2], t: "1..8", more }));
      expect(trial.refused("kind_invalid")).toBe(1);
      expect(trial.answer("1..9")).toMatchObject({ state: "unknown", reusableTokens: 0 });
    }
  });
});

describe("B7: block sizes are learnt", () => {
  test.each([16, 32, 2096])("B7: blocks of %s tokens score with no setting", (bs) => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "full", bs, h: [1, 2], t: `1..${2 * bs}` }));
    expect(trial.q(`1..${2 * bs + 1}`)).toBe(2 * bs);
    expect(trial.q(`1..${2 * bs}`)).toBe(bs);
  });

  test("B7: 16 before a restart, 32 after it, and back", () => {
    const trial = new FieldTrial();
    for (const bs of [16, 32, 16]) {
      trial.batch(0, st({ g: 0, k: "full", bs, h: [bs], t: `1..${bs}` }));
      expect(trial.q(`1..${bs + 1}`)).toBe(bs);
      expect(trial.path.pipeline.describe(0).engine?.groups[0]?.blockSize).toBe(bs);
    }
  });

  test("B7: a stated size of 16 and stores of 32: no credit, and counted", () => {
    const engine = statedEngine([statedGroup(0, { blockSizeTokens: 16 })]);
    const trial = new FieldTrial({
      ...engine,
      schedulerBlockSizeTokens: 16,
      hashBlockSizeTokens: 16,
    });
    trial.send(st({ g: 0, k: "full", bs: 32, h: [1], t: "1..32" }));
    expect(trial.q("1..33")).toBe(0);
    expect(trial.refused("block_size_contradicts")).toBe(1);
  });

  test("B7: a stated size of 32 and stores of 16: nothing above what blocks of 16 allow", () => {
    const group = statedGroup(0, { blockSizeTokens: 32 });
    const trial = new FieldTrial({
      ...statedEngine([group]),
      schedulerBlockSizeTokens: undefined,
      hashBlockSizeTokens: undefined,
    });
    trial.send(st({ g: 0, k: "full", bs: 16, h: [1, 2, 3, 4], t: "1..64" }));
    expect(trial.q("1..65")).toBeLessThanOrEqual(64);
    trial.send(rm({ g: 0, h: [1] }));
    expect(trial.q("1..65")).toBe(0);
  });

  test("B7: a disagreement is reported with both numbers", () => {
    const group = statedGroup(0, { blockSizeTokens: 16 });
    const rank = new FieldRank("a", 0, {
      ...statedEngine([group]),
      schedulerBlockSizeTokens: 16,
      hashBlockSizeTokens: 16,
    });
    rank.send(st({ g: 0, k: "full", bs: 32, h: [1], t: "1..32" }));
    const text = JSON.stringify(rank.reports);
    expect(text).toContain("block_size_contradicts");
    expect(text).toContain("16");
    expect(text).toContain("32");
  });
});

describe("B9: one token too many", () => {
  test("B9: the long ones are refused, not trimmed; the small one is an orphan", () => {
    const trial = new FieldTrial();
    trial.send(st({ bs: 4, h: [1], t: "1..5" }), st({ bs: 4, p: 1, h: [2], t: "5..9" }));
    trial.send(st({ bs: 2, p: 2, h: [3], t: "9..10" }));
    expect(trial.refused("tokens_misaligned")).toBe(2);
    expect(trial.unplaced).toBe(1);
    expect(trial.placed).toBe(0);
    for (const prompt of ["1..11", "1..6", "5..10", "9..11"]) expect(trial.q(prompt)).toBe(0);
  });
});

describe("B11: with groups and without", () => {
  const grouped = st({ ...FULL, h: [1, 2], t: "1..8" });
  const sliding = st({ g: 1, k: "swa", w: 5, bs: 4, h: [1, 2], t: "1..8" });
  const stray = (hash: number): unknown => st({ h: [hash], t: `${hash}..${hash + 3}` });

  test("B11: a thousand ungrouped stores are counted, end nothing, and the groups go on", () => {
    const trial = new FieldTrial();
    for (let i = 0; i < 10; i++) trial.send(grouped, sliding);
    for (let i = 0; i < 1000; i++) trial.send(stray(1000 + 4 * i));
    expect(trial.refused("group_missing")).toBe(1000);
    expect(trial.q("1..9")).toBe(8);
    expect(trial.q("1000..1004")).toBe(0);
    trial.send(st({ ...FULL, p: 2, h: [3], t: "9..12" }));
    trial.send(st({ g: 1, k: "swa", w: 5, bs: 4, p: 2, h: [3], t: "9..12" }));
    expect(trial.q("1..13")).toBe(12);
    expect(trial.counter("withdrawn.grouping_changed")).toBe(0);
  });

  test("B11: an ungrouped removal takes the hash out of both groups", () => {
    const trial = new FieldTrial();
    trial.send(grouped, sliding);
    trial.send(rm({ h: [2] }));
    expect(trial.placed).toBe(2);
    expect(trial.q("1..9")).toBe(4);
  });

  test("B11: an ungrouped removal takes every copy out of both groups", () => {
    const trial = new FieldTrial();
    trial.send(grouped, grouped, sliding, sliding);
    trial.send(rm({ h: [1, 2] }));
    expect(trial.placed).toBe(0);
    expect(trial.q("1..9")).toBe(0);
  });

  test("B11: ungrouped first, then groups: the old view goes once, the new one is scored", () => {
    const trial = new FieldTrial();
    trial.send(st({ h: [1, 2], t: "1..8" }));
    trial.send(st({ ...FULL, h: [5], t: "11..14" }));
    expect(trial.counter("withdrawn.grouping_changed")).toBe(1);
    expect([trial.q("1..9"), trial.q("11..15")]).toEqual([0, 4]);
    trial.send(st({ ...FULL, h: [6], t: "21..24" }));
    expect(trial.counter("withdrawn.grouping_changed")).toBe(1);
    expect([trial.q("11..15"), trial.q("21..25")]).toEqual([4, 4]);
  });

  test("B11: a removal that names a group leaves nothing credited in an ungrouped stream", () => {
    const engine = statedEngine([statedGroup(0)]);
    const trial = new FieldTrial(engine);
    trial.send(st({ h: [1, 2], t: "1..8" }));
    trial.send(rm({ g: 0, h: [2] }));
    expect(trial.q("1..9")).toBe(4);
    trial.send(rm({ g: 1, h: [1] }));
    expect(trial.q("1..9")).toBe(0);
  });

  test("B11: one ungrouped cache is scored: assumed unstated, exact when stated", () => {
    const unstated = new FieldTrial();
    unstated.send(st({ h: [1, 2], t: "1..8" }));
    expect(unstated.answer("1..9")).toMatchObject({ state: "assumed", reusableTokens: 8 });
    expect(unstated.answer("1..9").reasons).toContain("group_assumed");
    const stated = new FieldTrial(statedEngine([statedGroup(0)]));
    stated.send(st({ h: [1, 2], t: "1..8" }));
    expect(stated.answer("1..9")).toMatchObject({ state: "exact", reusableTokens: 8 });
    stated.send(rm({ h: [2] }));
    expect(stated.q("1..9")).toBe(4);
  });
});
