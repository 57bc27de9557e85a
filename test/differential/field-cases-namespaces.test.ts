// Goal: what operators reported about adapters, salts and pictures (field cases F) must not
// happen here.
// Method: each case's events go through the shipped path and are asked for in every namespace of
// the case.
import { fromBinary } from "@bufbuild/protobuf";
import { SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import {
  FieldRank,
  FieldTrial,
  gatewayOf,
  type Namespace,
  type Prompt,
  rm,
  st,
  statedEngine,
  statedGroup,
  tokenList,
} from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;

/** Answers for no namespace and for each of these. */
function askAll(trial: FieldTrial, prompt: Prompt, namespaces: readonly Namespace[]): number[] {
  return [{}, ...namespaces].map((namespace) => trial.q(prompt, namespace));
}

const A: Namespace = { loraName: "a" };
const B: Namespace = { loraName: "b" };
const S: Namespace = { cacheSalt: "s" };

describe("F1: adapters", () => {
  const base = st({ ...FULL, h: [1], t: "1..4" });
  const a = st({ ...FULL, h: [2], t: "1..4", lora: "a" });
  const b = st({ ...FULL, h: [3], t: "1..4", lora: "b" });
  const numbered = st({ ...FULL, h: [4], t: "1..4", more: { lora_id: 7 } });

  test("F1: each name has its own blocks; a number alone is never the base model", () => {
    const trial = new FieldTrial();
    trial.send(numbered, a);
    expect(askAll(trial, "1..5", [A, B])).toEqual([0, 4, 0]);
    trial.send(b, base);
    expect(askAll(trial, "1..5", [A, B])).toEqual([4, 4, 4]);
    expect(trial.unplaced).toBe(1);
    expect(trial.answer("1..5").reasons).toContain("unplaced_blocks");
    trial.send(rm({ g: 0, h: [2] }));
    expect(askAll(trial, "1..5", [A, B])).toEqual([4, 0, 4]);
    trial.send(rm({ g: 0, h: [1] }));
    expect(askAll(trial, "1..5", [A, B])).toEqual([0, 0, 4]);
    expect(trial.q("1..5", { loraName: "7" })).toBe(0);
  });

  test("F1: children of a block known by number only stay out too", () => {
    const trial = new FieldTrial();
    trial.send(numbered, st({ ...FULL, p: 4, h: [5], t: "5..8", more: { lora_id: 7 } }), base);
    expect(trial.q("1..9")).toBe(4);
    expect(trial.unplaced).toBe(2);
  });

  test("F1: below a base block a number alone is never taken for base", () => {
    const trial = new FieldTrial();
    trial.send(base, st({ ...FULL, p: 1, h: [4], t: "5..8", more: { lora_id: 7 } }));
    expect(trial.q("1..9")).toBe(4);
  });

  test("F1: below a base block an adapter's name is never taken for base", () => {
    const trial = new FieldTrial();
    trial.send(base, st({ ...FULL, p: 1, h: [4], t: "5..8", lora: "a", x: [["a"]] }));
    expect(askAll(trial, "1..9", [A])).toEqual([4, 0]);
    const absent = new FieldTrial();
    absent.send(base, st({ ...FULL, p: 1, h: [4], t: "5..8", lora: "a" }));
    expect(askAll(absent, "1..9", [A])).toEqual([4, 0]);
  });

  test("F1: below an adapter's block a store without the adapter is never taken for it", () => {
    const trial = new FieldTrial();
    trial.send(a, st({ ...FULL, p: 2, h: [5], t: "5..8", x: [null] }));
    expect(askAll(trial, "1..9", [A])).toEqual([0, 4]);
  });
});

describe("F3: the adapter's name inside the extra keys", () => {
  const store = (x: unknown, lora = "a"): unknown => st({ ...FULL, h: [1, 2], t: "1..8", lora, x });

  test("F3: it is the adapter, not a picture and not a salt", () => {
    const trial = new FieldTrial();
    trial.send(store([["a"], ["a"]]));
    expect(askAll(trial, "1..9", [A, { cacheSalt: "a" }, { ...A, cacheSalt: "a" }])).toEqual([
      0, 8, 0, 0,
    ]);
  });

  test("F3: with a salt it matches that salt of that adapter only", () => {
    const trial = new FieldTrial();
    trial.send(store([["a", "s"], ["a"]]));
    expect(askAll(trial, "1..9", [A, S, { ...A, ...S }, { ...A, cacheSalt: "t" }])).toEqual([
      0, 0, 0, 8, 0,
    ]);
  });

  test("F3: with a picture it matches that picture at that place only", () => {
    const trial = new FieldTrial();
    trial.send(store([["a", ["img1", 2]], ["a"]]));
    const picture = (identifier: string, offset: number): Namespace => ({
      ...A,
      multimodalItems: [{ identifier, offset }],
    });
    expect(
      askAll(trial, "1..9", [A, picture("img1", 2), picture("img1", 1), picture("img2", 2)]),
    ).toEqual([0, 0, 8, 0, 0]);
  });

  test.each([
    ["another name", [["z"], ["a"]]],
    ["the name missing", [null, null]],
    ["a name deep inside", [[["a"]], [["a"]]]],
    ["lists in lists", [[[[["a"]]]], ["a"]]],
    ["maps and numbers", [["a", { salt: "s" }, 7], ["a"]]],
    ["two texts too many", [["a", "s", "t"], ["a"]]],
    ["bytes", [["a", new Uint8Array(32)], ["a"]]],
    ["an empty entry", [[], []]],
    ["an offset that is no number", [["a", ["img1", "2"]], ["a"]]],
  ])("F3: extra keys with %s throw nothing and earn nothing anywhere", (_name, x) => {
    const trial = new FieldTrial();
    trial.send(store(x));
    expect(askAll(trial, "1..9", [A, S, { ...A, ...S }])).toEqual([0, 0, 0, 0]);
    trial.send(st({ ...FULL, h: [5], t: "11..14" }));
    expect(trial.q("11..15")).toBe(4);
    expect(trial.counter("epochs")).toBe(0);
  });
});

test("F5: plain blocks are 8 for a plain prompt and 0 for a salt or an adapter", () => {
  const trial = new FieldTrial();
  trial.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
  expect(askAll(trial, "1..9", [S, A, { cacheSalt: "" }])).toEqual([8, 0, 0, 8]);
});

describe("F6: one hash for two salts", () => {
  const salted = st({ bs: 4, h: [1], t: "1..4", x: [["s1"]] });
  const plain = st({ bs: 4, h: [1], t: "1..4" });
  const S1: Namespace = { cacheSalt: "s1" };
  const stated = (): FieldTrial => new FieldTrial(statedEngine([statedGroup(0)]));

  test("F6: the salted store earns a plain prompt nothing; the hash keeps its first place", () => {
    const trial = stated();
    trial.send(salted);
    expect(askAll(trial, "1..5", [S1])).toEqual([0, 4]);
    trial.send(plain);
    expect(trial.q("1..5")).toBe(0);
    expect(trial.refused("place_contradicts")).toBe(1);
  });

  test("F6: after the removal nothing is credited: nobody can tell which of the two went", () => {
    const trial = stated();
    trial.send(salted, plain, rm({ h: [1] }));
    expect(askAll(trial, "1..5", [S1])).toEqual([0, 0]);
  });

  test("F6: the other way round nothing is credited after the removal either", () => {
    const trial = stated();
    trial.send(plain, salted, rm({ h: [1] }));
    expect(askAll(trial, "1..5", [S1])).toEqual([0, 0]);
  });

  test("F6: with a hash each, plain is credited after the second and lost with it", () => {
    const trial = stated();
    trial.send(salted, st({ bs: 4, h: [2], t: "1..4" }));
    expect(askAll(trial, "1..5", [S1])).toEqual([4, 4]);
    trial.send(rm({ h: [2] }));
    expect(askAll(trial, "1..5", [S1])).toEqual([0, 4]);
  });

  test("F6: on the wire the salted block has its own key, and no prompt or salt is there", () => {
    const keys = [salted, plain].map((event) => {
      const rank = new FieldRank("a", 0, statedEngine([statedGroup(0)]));
      gatewayOf([rank]);
      rank.send(event);
      const found: string[] = [];
      for (const bytes of rank.sent) {
        expect(Buffer.from(bytes).includes("s1")).toBe(false);
        const { message } = fromBinary(SubscribeResponseSchema, bytes);
        if (message.case !== "batch") continue;
        for (const told of message.value.batch?.events ?? []) {
          expect(told.tokenIds).toEqual([]);
          found.push(Buffer.from(told.prefixKeys).toString("hex"));
        }
      }
      return found;
    });
    expect(keys.map((list) => list.map((key) => key.length))).toEqual([[16], [16]]);
    expect(keys[0]).not.toEqual(keys[1]);
  });
});

describe("F7: pictures with equal placeholders", () => {
  const tokens = [1, 2, 9, 9, 9, 9, 7, 8];
  const prompt = [...tokens, 0];
  const picture = (identifier: string, offset = 2): Namespace => ({
    multimodalItems: [{ identifier, offset }],
  });
  const keys = (name: string): unknown => [[[name, 2]], [[name, -2]]];

  test("F7: each picture has its own blocks, a text with the same ids has none", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: tokens, x: keys("imgA") }));
    const asked = [picture("imgA"), picture("imgB"), picture("imgA", 3)];
    expect(askAll(trial, prompt, asked)).toEqual([0, 8, 0, 0]);
    trial.send(st({ ...FULL, h: [3, 4], t: tokens, x: keys("imgB") }));
    trial.send(st({ ...FULL, h: [5], t: [1, 2, 3, 4], x: [null] }));
    expect(askAll(trial, prompt, asked)).toEqual([0, 8, 8, 0]);
    expect(trial.q([1, 2, 3, 4, 5])).toBe(4);
    trial.send(rm({ g: 0, h: [1, 2] }));
    expect(askAll(trial, prompt, asked)).toEqual([0, 0, 8, 0]);
  });

  test("F7: a text block before the first picture keeps its credit", () => {
    const trial = new FieldTrial();
    const mixed = [11, 12, 13, 14, 9, 9, 9, 9, 7, 8, 7, 8];
    trial.send(st({ ...FULL, h: [1, 2, 3], t: mixed, x: [null, [["imgA", 0]], null] }));
    expect(askAll(trial, [...mixed, 0], [picture("imgA", 4), picture("imgB", 4)])).toEqual([
      4, 12, 4,
    ]);
  });

  test("F7: two pictures, one of them in two blocks, match only both in their order", () => {
    const trial = new FieldTrial();
    const x = [
      [
        ["imgA", 1],
        ["imgB", 3],
      ],
      [["imgB", -1]],
    ];
    trial.send(st({ ...FULL, h: [1, 2], t: [1, 9, 2, 9, 9, 9, 3, 4], x }));
    const two = (first: string, second: string): Namespace => ({
      multimodalItems: [
        { identifier: first, offset: 1 },
        { identifier: second, offset: 3 },
      ],
    });
    const asked = [two("imgA", "imgB"), two("imgB", "imgA"), picture("imgA", 1)];
    expect(askAll(trial, [1, 9, 2, 9, 9, 9, 3, 4, 0], asked)).toEqual([0, 8, 0, 0]);
  });

  test("F7: a picture without a place earns nothing anywhere", () => {
    const trial = new FieldTrial();
    trial.send(st({ ...FULL, h: [1, 2], t: tokens, x: [[["imgA"]], [["imgA"]]] }));
    expect(askAll(trial, prompt, [picture("imgA")])).toEqual([0, 0]);
    expect(trial.unplaced).toBe(2);
  });
});

test("F8: what one worker reports changes no other worker's answers", () => {
  const legacy = new FieldRank("b", 0, statedEngine([statedGroup(0)]));
  const grouped = new FieldRank("a", 0);
  const gateway = gatewayOf([grouped, legacy]);
  legacy.send(st({ bs: 4, h: [1, 2], t: "1..8" }));
  legacy.send(st({ bs: 4, h: [3, 4], t: "1..8", x: [["s"], null] }));
  const ask = (): unknown[] =>
    [{}, S].map((namespace) =>
      gateway.score({ tokens: tokenList("1..9"), ...namespace }).find((one) => one.worker === "b"),
    );
  const before = ask();
  expect(before).toMatchObject([{ reusableTokens: 8 }, { reusableTokens: 8 }]);
  grouped.send(st({ ...FULL, h: [1, 2], t: "1..8" }));
  grouped.send(st({ g: 1, k: "foo", bs: 4, h: [1, 2], t: "1..8" }));
  grouped.send(st({ ...FULL, h: [7], t: "1..4", lora: "a" }));
  expect(ask()).toEqual(before);
  legacy.payload(0, [0.125, [st({ ...FULL, h: [1, 2], t: "1..8" })], 0]);
  expect(ask()).toMatchObject([{ reusableTokens: 8 }, { reusableTokens: 0 }]);
});
