// Goal: what operators reported about copies, clears, orphans and odd hashes (field cases D) must
// not happen here.
// Method: each case's events go through the shipped path; the case says the right answer.
import { describe, expect, test } from "vitest";
import { UNSTATED_ENGINE } from "../../src/bridge/dist/index.js";
import {
  batchOf,
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
const SWA5 = { g: 1, k: "swa", w: 5, bs: 4 } as const;
const LAST_COPY = { ...UNSTATED_ENGINE, removalRule: "last_copy" } as const;

describe("D1: one hash, several copies", () => {
  const three = st({ ...FULL, h: [1, 2, 3], t: "1..12" });
  const again = st({ ...FULL, p: 2, h: [3], t: "9..12" });
  const gone = rm({ g: 0, h: [3] });

  test("D1: copies are counted: 12 after the first removal, 8 after the second and third", () => {
    const trial = new FieldTrial();
    trial.send(three);
    trial.send(again);
    expect(trial.placed).toBe(3);
    const answers = [gone, gone, gone].map((event) => {
      trial.send(event);
      return trial.q("1..13");
    });
    expect(answers).toEqual([12, 8, 8]);
    expect(trial.counter("removals_unknown")).toBe(1);
  });

  test("D1: an engine stated to announce the last removal only: 8 at once", () => {
    const trial = new FieldTrial(LAST_COPY);
    trial.send(three);
    for (let i = 0; i < 50; i++) trial.send(again);
    expect(trial.placed).toBe(3);
    trial.send(gone);
    expect(trial.q("1..13")).toBe(8);
    expect(trial.placed).toBe(2);
  });

  test("D1: a remaining count of 1 keeps the block, 0 ends it, whatever was counted", () => {
    const trial = new FieldTrial();
    trial.send(three);
    for (let i = 0; i < 50; i++) trial.send(again);
    trial.send(rm({ g: 0, h: [3], more: { remaining_copy_counts: [1] } }));
    expect(trial.q("1..13")).toBe(12);
    trial.send(gone);
    expect(trial.q("1..13")).toBe(8);
    trial.send(again, again, rm({ g: 0, h: [3], more: { remaining_copy_counts: [0] } }));
    expect(trial.q("1..13")).toBe(8);
  });

  test("D1: fifty repeats and as many removals leave 8; the gauge says 3, never 53", () => {
    const trial = new FieldTrial();
    trial.send(three);
    for (let i = 0; i < 50; i++) trial.send(again);
    expect(trial.placed).toBe(3);
    expect(trial.path.gateway.workers()[0]?.entries).toBe(3);
    for (let i = 0; i < 50; i++) trial.send(gone);
    expect(trial.q("1..13")).toBe(12);
    trial.send(gone);
    expect(trial.q("1..13")).toBe(8);
  });
});

function streamBytes(rank: FieldRank): number {
  return rank.sent.reduce((sum, bytes) => sum + bytes.length, 0);
}

describe("D2: clears", () => {
  function filled(): FieldTrial {
    const trial = new FieldTrial();
    trial.send(
      st({ ...FULL, h: [1, 2], t: "1..8" }),
      st({ g: 1, k: "mamba", bs: 4, h: [1, 2], t: "1..8" }),
      st({ ...FULL, h: [1, 2], t: "1..8", m: "CPU" }),
    );
    expect(trial.q("1..9")).toBe(8);
    return trial;
  }

  test.each([
    ["a map", CLEAR],
    ["a list", ["AllBlocksCleared"]],
  ])(
    "D2: a clear as %s empties every group and medium; a known group stays known",
    (_name, clear) => {
      const trial = filled();
      trial.send(clear);
      expect(trial.q("1..9")).toBe(0);
      expect([trial.placed, trial.unplaced]).toEqual([0, 0]);
      expect(trial.path.gateway.workers()[0]?.entries).toBe(0);
      trial.send(st({ ...FULL, h: [1], t: "1..4" }));
      expect(trial.q("1..5")).toBe(0);
      trial.send(st({ g: 1, k: "mamba", bs: 4, h: [1], t: "1..4" }));
      expect(trial.q("1..5")).toBe(4);
    },
  );

  const flood = Array.from({ length: 50_000 }, () => CLEAR);

  test("D2: 100 000 clears of an empty worker cost few bytes and no report", () => {
    const rank = new FieldRank("a", 0);
    const gateway = gatewayOf([rank]);
    rank.send(st({ ...FULL, h: [1, 2], t: "1..8" }), CLEAR);
    const bytesBefore = streamBytes(rank);
    rank.send(...flood);
    rank.send(...flood);
    rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    expect(gateway.score({ tokens: tokenList("1..5") })[0]?.reusableTokens).toBe(4);
    expect(rank.reports).toEqual([]);
    expect(rank.pipeline.counters().get("events_cleared")).toBe(100_001);
    expect(streamBytes(rank) - bytesBefore).toBeLessThan(10_000);
  });

  test("D2: a clear with a scope is never widened; one that cannot be read costs all", () => {
    const trial = filled();
    trial.send({ ...CLEAR, medium: "CPU" });
    expect(trial.q("1..9")).toBe(8);
    trial.send({ ...CLEAR, group_idx: "x" });
    expect(trial.q("1..9")).toBe(0);
  });
});

describe("D4: orphans", () => {
  test.each([
    ["an unstated", UNSTATED_ENGINE],
    ["a stated", statedEngine([statedGroup(0)])],
  ])("D4: an unknown parent is never a root, with %s engine", (_name, engine) => {
    const trial = new FieldTrial(engine);
    trial.send(st({ ...FULL, p: 99, h: [5], t: "5..8" }));
    trial.send(st({ ...FULL, p: 5, h: [6], t: "9..12" }));
    expect(trial.q([5, 6, 7, 8, 9])).toBe(0);
    expect(trial.q("1..13")).toBe(0);
    expect(trial.unplaced).toBe(2);
    expect(trial.answer("1..13").reasons).toContain("unplaced_blocks");
  });

  test("D4: a root store with the same tokens later is the root; the orphan stays out", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, p: 99, h: [5], t: "5..8" }));
    trial.send(st({ ...FULL, h: [7], t: "5..8" }));
    expect(trial.q("5..9")).toBe(4);
    trial.send(rm({ g: 0, h: [7] }));
    expect(trial.q("5..9")).toBe(0);
  });
});

describe("D6: partial blocks", () => {
  test.each([
    ["", {}],
    [
      " with unknown fields",
      {
        skipped_token_ids: [9, 10],
        skipped_parent_block_hash: 8,
        skipped_extra_keys: [null],
      },
    ],
  ])(
    "D6: a tail%s whose parent nobody announced changes neither answers nor block size",
    (_n, more) => {
      const trial = new FieldTrial();
      trial.send(st({ g: 0, k: "full", bs: 8, h: [8], t: "1..8" }));
      trial.send(st({ g: 0, k: "full", bs: 2, p: 70, h: [72], t: "11..12", more }));
      expect(trial.q("1..13")).toBe(8);
      trial.send(st({ g: 0, k: "full", bs: 8, p: 8, h: [16], t: "9..16" }));
      expect(trial.q("1..17")).toBe(16);
      trial.send(rm({ g: 0, h: [72] }));
      expect(trial.q("1..17")).toBe(16);
      expect(trial.unplaced).toBe(0);
      expect(trial.path.pipeline.describe(0).engine?.groups[0]?.blockSize).toBe(8);
    },
  );

  test("D6: a tail below a known block is no whole block of the group", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "full", bs: 8, h: [8], t: "1..8" }));
    trial.send(st({ g: 0, k: "full", bs: 2, p: 8, h: [70, 72], t: "9..12" }));
    expect([trial.q("1..13"), trial.q("1..17")]).toEqual([8, 8]);
  });
});

describe("D8: self-reference", () => {
  test("D8: own parent, repeats and loops cost themselves: no hang, and 4 throughout", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1], t: "1..4" }));
    const odd = [
      st({ ...FULL, p: 7, h: [7], t: "5..8" }),
      st({ ...FULL, p: 1, h: [3, 3], t: "5..12" }),
      st({ ...FULL, p: 20, h: [21], t: "5..8" }),
      st({ ...FULL, p: 21, h: [20], t: "5..8" }),
    ];
    for (const event of [...odd, ...odd]) {
      trial.send(event);
      expect(trial.q("1..5")).toBe(4);
      expect(trial.q("1..13")).toBe(4);
    }
    expect(trial.refused("parent_is_own_hash")).toBe(2);
    expect(trial.refused("hash_repeated")).toBe(2);
    expect(trial.unplaced).toBe(2);
  });

  test("D8: a loop that gets an anchor keeps each hash at its first place", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [20], t: "1..4" }), st({ ...FULL, p: 20, h: [21], t: "5..8" }));
    trial.send(st({ ...FULL, p: 21, h: [20], t: "1..4" }));
    expect(trial.refused("place_contradicts")).toBe(1);
    expect([trial.q("1..9"), trial.q([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 0])]).toEqual([8, 8]);
  });
});

describe("D9: removals before stores", () => {
  test("D9: a removal of an unknown group or hash makes nothing and stops nothing", () => {
    const trial = new FieldTrial();
    trial.send();
    trial.batch(0, rm({ g: 1, h: [5] }), rm({ g: 0, h: [1, 99, 2] }));
    expect(trial.groupIds).toEqual([]);
    trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
    expect(trial.q("1..9")).toBe(8);
    trial.send(rm({ g: 0, h: [99, 2] }));
    expect(trial.q("1..9")).toBe(4);
    expect(trial.groupIds).toEqual([0]);
  });
});

describe("D10: the same hash in two groups", () => {
  const events = [
    st({ ...FULL, h: [1, 2], t: "1..8" }),
    st({ ...SWA5, h: [1, 2], t: "1..8" }),
    rm({ g: 1, h: [1] }),
    rm({ g: 1, h: [2] }),
    st({ ...SWA5, p: 1, h: [2], t: "5..8" }),
  ];
  const right = [8, 8, 8, 0, 8];

  test("D10: a window group's removal never touches the full group", () => {
    const trial = new FieldTrial();
    const answers = events.map((event) => {
      trial.send(event);
      return trial.q("1..9");
    });
    expect(answers).toEqual(right);
  });

  test("D10: all five in one batch end at the same answer", () => {
    const trial = new FieldTrial();
    trial.payload(0, batchOf(events));
    expect(trial.q("1..9")).toBe(8);
  });
});

describe("D12: zero is a value", () => {
  test("D12: hash 0, token 0, parent 0, group 0, rank 0 and sequence 0 are like any other", () => {
    const trial = new FieldTrial();
    const zeros = [0, 0, 0, 0];
    trial.batch(0, st({ ...FULL, h: [0], t: zeros }), st({ ...FULL, p: 0, h: [1], t: "5..8" }));
    expect(trial.q([...zeros, 5, 6, 7, 8, 9])).toBe(8);
    trial.send(rm({ g: 0, h: [0] }));
    expect(trial.q([...zeros, 5, 6, 7, 8, 9])).toBe(0);
  });

  test("D12: parent 0 on a fresh worker is an unknown block, not the root", () => {
    for (const parent of [0, 0n]) {
      const trial = new FieldTrial();
      trial.send(st({ ...FULL, p: parent, h: [1], t: "1..4" }));
      expect(trial.q("1..5")).toBe(0);
      expect(trial.unplaced).toBe(1);
    }
  });

  test("D12: an adapter named by the empty text is not the base model", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1], t: "1..4", lora: "" }));
    expect(trial.q("1..5")).toBe(0);
    trial.send(st({ ...FULL, h: [2], t: "1..4", more: { lora_name: null } }));
    expect(trial.q("1..5")).toBe(4);
  });

  test("D12: rank 0 and no rank are the same for rank 0", () => {
    const trial = new FieldTrial();
    trial.payload(0, [0.25, [st({ ...FULL, h: [1], t: "1..4" })]]);
    trial.payload(1, batchOf([st({ ...FULL, p: 1, h: [2], t: "5..8" })], null));
    trial.payload(2, batchOf([st({ ...FULL, p: 2, h: [3], t: "9..12" })], 0));
    expect(trial.q("1..13")).toBe(12);
  });
});
