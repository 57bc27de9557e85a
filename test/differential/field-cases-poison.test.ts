// Goal: no single odd event may end the process, end every gateway's stream, or cost a whole
// worker (field cases B2, B4, B6, B7, G1, G5, K1, in forms that the cases only hint at).
// Method: a sound worker gets one odd event; then the bridge must live, a gateway that follows
// and one that joins must both have a stream, and the sound blocks must still be credited where
// the odd event says nothing about them.
import { describe, expect, test } from "vitest";
import {
  CLEAR,
  FieldRank,
  FieldTrial,
  gatewayOf,
  rm,
  st,
  tokenList,
} from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const sound = st({ ...FULL, h: [1, 2], t: "1..8" });

/** A trial that holds the sound blocks and then got these. */
function soundThen(...events: readonly unknown[]): FieldTrial {
  const trial = new FieldTrial();
  trial.send(sound);
  trial.send(...events);
  return trial;
}

/** The gateway's stream is alive and none of its messages was refused. */
function expectStream(trial: FieldTrial): void {
  trial.answer("1..9");
  const [status] = trial.path.gateway.workers();
  expect(status).toMatchObject({ subscriptionState: "live", lastError: undefined });
}

describe("the process lives", () => {
  test("B7: block sizes whose common multiple is beyond 32 bits end nothing and are told", () => {
    const sizes = [4091, 4093, 4099];
    const trial = soundThen(
      ...sizes.map((bs, i) => st({ g: i + 1, k: "full", bs, h: [10 + i], t: `1..${bs}` })),
    );
    expectStream(trial);
    expect(trial.answer("1..9")).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(trial.path.pipeline.describe(0).engine?.groups.length).toBe(4);
  });

  test("B2: the largest window, group and kind name end nothing", () => {
    const swa = { k: "swa", w: 2 ** 32 - 1, bs: 4, h: [1, 2], t: "1..8" } as const;
    expectStream(soundThen(st({ ...swa, g: 1 })));
    expectStream(soundThen(st({ ...FULL, g: 2 ** 32 - 1, h: [1, 2], t: "1..8" })));
    expectStream(soundThen(st({ ...FULL, g: 1, k: "k".repeat(1024), h: [1, 2], t: "1..8" })));
  });

  test("A9: names that mean something to the language mean nothing here", () => {
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      const trial = soundThen(
        { type: name },
        st({ ...FULL, h: [1], t: [], m: name }),
        rm({ g: 0, h: [2], m: name }),
      );
      expectStream(trial);
      expect(trial.q("1..9")).toBe(8);
      expect(trial.counter(`events_unknown.${name}`)).toBe(1);
    }
  });
});

describe("streams live", () => {
  test("B2: a size of 2^31 in a group of its own ends no stream; the group can be learnt", () => {
    const trial = soundThen(st({ g: 5, k: "full", bs: 2 ** 31, h: [1], t: [] }));
    expectStream(trial);
    trial.send(st({ g: 5, k: "full", bs: 4, h: [1, 2], t: "1..8" }));
    expect(trial.q("1..9")).toBe(8);
  });

  test("B2: a size of 2^31 for a held partial block ends no stream of a gateway that joins", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, bs: 8, h: [8], t: "1..8" }));
    trial.send(st({ ...FULL, bs: 2, p: 8, h: [10], t: "9..10" }));
    trial.send(st({ ...FULL, bs: 2 ** 31, h: [10], t: [], m: "CPU" }));
    expectStream(trial);
    expect(trial.q("1..9")).toBe(8);
  });

  test("G5: a medium whose name grows in capitals ends no stream", () => {
    const trial = soundThen(st({ ...FULL, h: [1], t: [], m: "\u00df".repeat(1000) }));
    expectStream(trial);
    expect(trial.q("1..9")).toBe(8);
    trial.send(rm({ g: 0, h: [1], m: "\u00df".repeat(1000) }));
    expectStream(trial);
  });

  const longH = tokenList("100001..200000");
  const longT = tokenList("100001..500000");
  const first = st({ ...FULL, p: 2, h: longH, t: longT });
  const second = st({ ...FULL, p: 200_000, h: tokenList("200001..300000"), t: longT });
  const prompt = [...tokenList("1..8"), ...longT, ...longT, 0];

  test("K1: two stores that continue each other in one batch are no message too long", () => {
    const trial = soundThen(first, second);
    const [status] = trial.path.gateway.workers();
    expect(status).toMatchObject({ subscriptionState: "live", lastError: undefined });
    expect(trial.path.score({ tokens: prompt }).reusableTokens).toBe(800_008);
  });

  test("K1: removals of many blocks in one batch are no message too long, and are applied", () => {
    const trial = soundThen(first);
    trial.send(second);
    const [r1, r2] = [first, second].map((store) => rm({ g: 0, h: [2], more: pick(store) }));
    trial.send(r1, r2, rm({ g: 0, h: [2] }));
    const [status] = trial.path.gateway.workers();
    expect(status).toMatchObject({ subscriptionState: "live", lastError: undefined, entries: 1 });
    expect(trial.path.score({ tokens: prompt }).reusableTokens).toBe(4);
  });

  test("B7: a description that changes costs at most a new subscription", () => {
    const rank = new FieldRank("a", 0);
    const gateway = gatewayOf([rank]);
    rank.send(st({ g: 0, k: "mamba", bs: 8, h: [1], t: "1..8" }));
    rank.send(st({ g: 1, k: "full", bs: 2, h: [10, 11, 12, 1], t: "1..8" }));
    rank.send(st({ g: 2, k: "swa", w: 9, bs: 4, h: [11, 1], t: "1..8" }));
    const joined = gatewayOf([rank]).score({ tokens: tokenList("1..9") })[0];
    const now = gateway.score({ tokens: tokenList("1..9") })[0];
    expect(joined).toMatchObject({ state: "assumed", reusableTokens: 8 });
    if (now?.reasons.includes("disconnected") === false) expect(now).toEqual(joined);
    else expect(now?.reusableTokens).toBe(0);
  });
});

describe("the worker's credit lives", () => {
  test("B4: a store without hashes says nothing about its group's block size", () => {
    const trial = soundThen(st({ ...FULL, bs: 4096, h: [], t: "1..4096" }));
    expect(trial.q("1..9")).toBe(8);
    expect(trial.counter("withdrawn.group_contradicted")).toBe(0);
  });

  test("B6: a group that only a store without hashes names is not passed over", () => {
    const trial = soundThen(st({ g: 3, k: "foo", bs: 4, h: [], t: [] }));
    expect(trial.answer("1..9")).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(trial.answer("1..9").reasons).toContain("kind_unsupported");
  });

  test("G1: a group that only the CPU named is not passed over until the GPU names it", () => {
    const trial = soundThen(st({ g: 5, k: "full", bs: 0, h: [1], t: [], m: "CPU" }));
    expect(trial.answer("1..9")).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(trial.answer("1..9").reasons).toContain("block_size_unknown");
    trial.send(st({ g: 5, k: "full", bs: 4, h: [1], t: "1..4" }));
    expect(trial.q("1..9")).toBe(4);
  });

  test("B6: one store of another kind costs its group once; sound stores after it count", () => {
    const trial = soundThen(st({ ...FULL, k: "foo", h: [9], t: "11..14" }));
    expect(trial.q("1..9")).toBe(0);
    expect(trial.refused("kind_contradicts")).toBe(1);
    trial.send(sound);
    expect(trial.q("1..9")).toBe(8);
  });

  test.each([
    ["nothing", undefined, 8],
    ["a clear with a field", ["AllBlocksCleared", "GPU"], 0],
    ["a removal without hashes", ["BlockRemoved"], 0],
    ["a removal of a text", rm({ g: 0, h: [], more: { block_hashes: ["2"] } }), 0],
    ["a removal of 2.5", rm({ g: 0, h: [], more: { block_hashes: [2.5] } }), 0],
    ["a removal of null", rm({ g: 0, h: [], more: { block_hashes: null } }), 0],
    ["a removal in group x", rm({ h: [2], more: { group_idx: "x" } }), 4],
    ["a removal in medium 7", rm({ g: 0, h: [2], more: { medium: 7 } }), 4],
    ["a removal in another group", rm({ g: 7, h: [2] }), 8],
    ["an unreadable removal in another group", rm({ g: 7, h: [], more: { block_hashes: 2 } }), 8],
    ["a clear of another group", { ...CLEAR, group_idx: 7 }, 8],
  ])("B2: %s leaves what it cannot have meant: %j -> %s", (_name, event, right) => {
    const trial = event === undefined ? soundThen() : soundThen(event);
    expect(trial.q("1..9")).toBe(right);
    expectStream(trial);
  });
});

/** The hashes of a store, as a removal's field. */
function pick(store: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { block_hashes: store["block_hashes"] };
}
