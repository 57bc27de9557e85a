// Goal: what operators reported about matching across groups (field cases E) must not happen
// here.
// Method: each case's events go through the shipped path, in other orders too; the case says the
// right answer.
import { describe, expect, test } from "vitest";
import { FieldTrial, rm, st, statedEngine, statedGroup } from "../support/field-notation.ts";
import type { WireFields } from "../support/wire-builder.ts";

/** Every order of a list. */
function orders<T>(list: readonly T[]): readonly (readonly T[])[] {
  if (list.length <= 1) return [list];
  return list.flatMap((first, index) =>
    orders(list.filter((_, other) => other !== index)).map((rest) => [first, ...rest]),
  );
}

describe("E1: one position for all groups", () => {
  const full = st({ g: 0, k: "full", bs: 8, h: [1, 2, 3, 4, 5], t: "1..40" });
  const parts: readonly WireFields[] = [
    full,
    st({ g: 1, k: "swa", w: 17, bs: 8, p: 1, h: [2, 3], t: "9..24" }),
    st({ g: 1, k: "swa", w: 17, bs: 8, p: 4, h: [5, 6], t: "33..48" }),
    st({ g: 2, k: "mamba", bs: 8, p: 2, h: [3], t: "17..24" }),
    st({ g: 2, k: "mamba", bs: 8, p: 4, h: [5], t: "33..40" }),
  ];

  test("E1: 24 is the answer, not the smallest of 40, 48 and 40", () => {
    const trial = new FieldTrial();
    trial.send(...parts);
    expect(trial.q("1..49")).toBe(24);
    const { groups } = trial.path.gateway.explain(
      { tokens: [...Array(49).keys()].map((i) => i + 1) },
      "engine",
      0,
    );
    expect(groups.map((group) => group.reusableTokensAlone)).toEqual([40, 48, 40]);
  });

  test("E1: all 120 orders of the events give 24", () => {
    for (const order of orders(parts)) {
      const trial = new FieldTrial();
      for (const event of order) trial.send(event);
      expect(trial.q("1..49")).toBe(24);
    }
  });
});

test("E2: a state beyond the shared prefix earns nothing for the other prompt", () => {
  const trial = new FieldTrial();
  const a = [1, 2, 3, 4, 5, 6, 7, 8, 101, 102, 103, 104, 105, 106, 107, 108];
  trial.send(st({ g: 0, k: "full", bs: 4, h: [1, 2, 3, 4], t: a }));
  trial.send(st({ g: 1, k: "mamba", bs: 4, p: 2, h: [3], t: "101..104" }));
  expect(trial.q([1, 2, 3, 4, 5, 6, 7, 8, 201, 202, 203, 204, 205, 206, 207, 208])).toBe(0);
  expect(trial.q([...a, 109])).toBe(12);
});

describe("E3: window arithmetic", () => {
  test("E3: window 4 and blocks of 2: two blocks are needed", () => {
    const trial = new FieldTrial();
    const events = [
      st({ g: 0, k: "swa", w: 4, bs: 2, h: [1, 2, 3, 4], t: "1..8" }),
      rm({ g: 0, h: [1, 2] }),
      rm({ g: 0, h: [3] }),
    ];
    const answers = events.map((event) => {
      trial.send(event);
      return trial.q("1..12");
    });
    expect(answers).toEqual([8, 8, 0]);
  });

  test.each([
    [1, 1],
    [2, 1],
    [3, 1],
    [4, 2],
    [5, 2],
    [6, 3],
    [7, 3],
    [8, 4],
  ])("E3: window %s needs %s blocks of 2", (w, needed) => {
    for (let kept = 0; kept <= 5; kept++) {
      const trial = new FieldTrial();
      trial.send(st({ g: 0, k: "swa", w, bs: 2, h: [1, 2, 3, 4, 5], t: "1..10" }));
      trial.send(rm({ g: 0, h: [1, 2, 3, 4, 5].slice(0, 5 - kept) }));
      expect(trial.q("1..12")).toBe(kept >= needed ? 10 : 0);
    }
  });

  test("E3: fewer blocks than the window from the root are enough", () => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: "swa", w: 100, bs: 2, h: [1, 2], t: "1..4" }));
    expect(trial.q("1..12")).toBe(4);
  });
});

describe("E6: sliding_window_mla and sink_full_attention", () => {
  const mlaWindow = { g: 1, k: "sliding_window_mla", w: 5, bs: 2 } as const;

  test.each(["mla", "sink_full_attention"])("E6: beside %s it is scored by its window", (kind) => {
    const trial = new FieldTrial();
    trial.send(st({ g: 0, k: kind, bs: 8, h: [1, 2], t: "1..16" }));
    trial.send(st({ ...mlaWindow, p: 30, h: [31, 32], t: "13..16" }));
    expect(trial.q("1..17")).toBe(0);
    expect(trial.answer("1..17").reasons).toContain("unplaced_blocks");
    trial.send(st({ ...mlaWindow, h: [25, 26, 27, 1, 29, 30, 31, 2], t: "1..16" }));
    expect(trial.q("1..17")).toBe(16);
    trial.send(rm({ g: 1, h: [25, 26, 27, 1] }));
    expect(trial.q("1..17")).toBe(16);
    trial.send(rm({ g: 1, h: [31] }), rm({ g: 1, h: [31] }));
    expect(trial.q("1..17")).toBe(0);
  });
});

describe("E7: a group that comes late and empties", () => {
  const events = [
    st({ g: 0, k: "full", bs: 4, h: [1, 2], t: "1..8" }),
    st({ g: 1, k: "mamba", bs: 4, h: [1], t: "1..4" }),
    rm({ g: 1, h: [1] }),
  ];

  test("E7: unstated: 8 as an assumption, then 4, then 0 and never 8 again", () => {
    const trial = new FieldTrial();
    const answers = events.map((event) => {
      trial.send(event);
      return trial.answer("1..9");
    });
    expect(answers.map((answer) => answer.reusableTokens)).toEqual([8, 4, 0]);
    for (const answer of answers) {
      expect(answer.state).toBe("assumed");
      expect(answer.reasons).toContain("roster_incomplete");
    }
    trial.send(CLEAR_AND_FILL);
    expect(trial.q("1..9")).toBe(0);
  });

  test("E7: stated: withheld until the group has something, and exact from then on", () => {
    const groups = [statedGroup(0), statedGroup(1, { kind: "mamba" })];
    const trial = new FieldTrial(statedEngine(groups));
    const answers = events.map((event) => {
      trial.send(event);
      return trial.answer("1..9");
    });
    expect(answers.map((answer) => answer.reusableTokens)).toEqual([0, 4, 0]);
    expect(answers[0]?.reasons).toEqual(["group_unseen"]);
    expect(answers.map((answer) => answer.state)).toEqual(["assumed", "exact", "exact"]);
  });
});

const CLEAR_AND_FILL = st({ g: 0, k: "full", bs: 4, p: 2, h: [3], t: "9..12" });

describe("E8: the last token", () => {
  test("E8: prompts of 8, 9, 3, 1 and 0 tokens give 4, 8, 0, 0, 0", () => {
    for (const engine of [undefined, statedEngine([statedGroup(0)])]) {
      const trial = new FieldTrial(engine);
      trial.send(st({ g: 0, k: "full", bs: 4, h: [1, 2], t: "1..8" }));
      const prompts = ["1..8", "1..9", "1..3", "1..1", []];
      expect(prompts.map((prompt) => trial.q(prompt))).toEqual([4, 8, 0, 0, 0]);
    }
  });

  test("E8: a worker without an event says unknown; one that holds nothing says 0", () => {
    const silent = new FieldTrial();
    const answer = silent.answer("1..9");
    expect(answer).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(answer.reasons).toContain("no_groups");
    const held = new FieldTrial(statedEngine([statedGroup(0)]));
    held.send(st({ g: 0, k: "full", bs: 4, h: [1], t: "1..4" }), rm({ g: 0, h: [1] }));
    expect(held.answer("1..9")).toMatchObject({ state: "exact", reusableTokens: 0, reasons: [] });
  });

  test("E8: prompts that are no tokens are refused without their values", () => {
    const trial = new FieldTrial();
    for (const bad of [[123_456_789_012], [-987_654], [1.25], [Number.NaN]]) {
      let error: unknown;
      try {
        trial.q(bad);
      } catch (caught) {
        error = caught;
      }
      expect(error).toMatchObject({ code: "prompt_invalid" });
      expect(String(error)).not.toMatch(/12345678|98765|1\.25/);
    }
  });
});

test("E9: a hole costs what comes after it until it is filled", () => {
  const trial = new FieldTrial();
  const events = [
    st({ g: 0, k: "full", bs: 4, h: [1, 2, 3], t: "1..12" }),
    rm({ g: 0, h: [2] }),
    st({ g: 0, k: "full", bs: 4, p: 1, h: [2], t: "5..8" }),
  ];
  const answers = events.map((event) => {
    trial.send(event);
    return trial.q("1..13");
  });
  expect(answers).toEqual([12, 4, 12]);
});

describe("E12: a block is given up for speculation", () => {
  const store = st({ g: 0, k: "full", bs: 4, h: [1, 2, 3], t: "1..12" });

  test("E12: events do not tell it: 12 every time, and the answer calls itself assumed", () => {
    const trial = new FieldTrial();
    trial.send(store);
    for (let i = 0; i < 3; i++) expect(trial.q("1..13")).toBe(12);
    const { state, reasons } = trial.answer("1..13");
    expect(state).toBe("assumed");
    expect(reasons).toContain("layout_assumed");
  });

  test("E12: stated, it is 8, and exact", () => {
    const trial = new FieldTrial(statedEngine([statedGroup(0, { dropsBlock: true })]));
    trial.send(store);
    for (let i = 0; i < 3; i++) {
      expect(trial.answer("1..13")).toMatchObject({ state: "exact", reusableTokens: 8 });
    }
  });

  test("E12: with look-ahead hashes nothing is given up, and the next tokens count", () => {
    const trial = new FieldTrial();
    const more = { lookahead_token_ids: [[5], [9], [13]] };
    trial.send(st({ g: 0, k: "full", bs: 4, h: [1, 2, 3], t: "1..12", more }));
    expect([trial.q("1..13"), trial.q("1..14")]).toEqual([12, 12]);
    expect(trial.q([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 99])).toBe(8);
  });

  test("E12: a placeholder without tokens does not settle that there is no look-ahead", () => {
    const trial = new FieldTrial();
    const more = { lookahead_token_ids: [[5], [9]] };
    trial.send(st({ g: 0, k: "full", bs: 0, h: [9], t: [] }));
    trial.send(st({ g: 0, k: "full", bs: 4, h: [1, 2], t: "1..8", more }));
    expect(trial.q("1..10")).toBe(8);
  });
});
