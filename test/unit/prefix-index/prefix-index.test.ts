import { describe, expect, test } from "vitest";
import {
  ALL,
  MAX_POSITION_TOKENS,
  PrefixIndex,
  type RankHandle,
} from "../../../src/prefix-index/dist/index.js";
import { full, keysAt, layoutOf, mamba, range } from "./layouts-and-prompts.ts";

const GPU = 0;
const CPU = 1;
const ROOMY = { maxNodes: 1000, maxEntriesPerRank: 1000 };
const TWO_GROUPS = layoutOf([full(4), mamba(4)]);

function store(
  index: PrefixIndex,
  rank: RankHandle,
  ends: readonly number[],
  { prompt = 1, group = 0, medium = GPU, lookahead = 0 } = {},
) {
  const step = (ends[1] ?? 1) - (ends[1] === undefined ? 0 : (ends[0] ?? 0));
  const keys = keysAt(
    prompt,
    ends.map((end) => end + lookahead),
  );
  const outcome = index.storeRun(rank, group, medium, keys, ends[0] ?? 1, step);
  index.audit();
  return outcome;
}

function sizes(index: PrefixIndex): number[] {
  const { nodes, entries, ranks } = index.gauges();
  return [nodes, entries, ranks];
}

describe("entries are a set", () => {
  test("a repeated store and a repeated removal are harmless and counted", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    expect(store(index, rank, [4, 8, 12])).toMatchObject({ stored: 3, alreadyHeld: 0 });
    expect(store(index, rank, [8, 12, 16])).toMatchObject({ stored: 1, alreadyHeld: 2 });
    const removal = keysAt(1, [8, 20]);
    expect(index.removeKeys(rank, 0, GPU, removal)).toEqual({ removed: 1, absent: 1 });
    expect(index.removeKeys(rank, 0, GPU, removal)).toEqual({ removed: 0, absent: 2 });
    index.audit();
    expect(sizes(index)).toEqual([3, 3, 1]);
  });

  test("a node lives as long as any rank, group or medium holds it", () => {
    const index = new PrefixIndex(ROOMY);
    const [a, b] = [index.addRank(TWO_GROUPS), index.addRank(TWO_GROUPS)];
    store(index, a, [4]);
    store(index, a, [4], { group: 1 });
    store(index, a, [4], { medium: CPU });
    store(index, b, [4]);
    expect(sizes(index)).toEqual([1, 4, 2]);
    const key = keysAt(1, [4]);
    expect(index.removeKeys(a, 0, GPU, key).removed).toBe(1);
    expect(index.removeKeys(a, 1, GPU, key).removed).toBe(1);
    expect(index.removeKeys(a, 1, CPU, key).removed).toBe(0);
    expect(index.removeKeys(b, 0, GPU, key).removed).toBe(1);
    index.audit();
    expect(sizes(index)).toEqual([1, 1, 2]);
    expect(index.removeKeys(a, 0, CPU, key).removed).toBe(1);
    expect(sizes(index)).toEqual([0, 0, 2]);
  });

  test("runs of no keys and removals of unknown groups change nothing", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(undefined);
    expect(store(index, rank, [])).toMatchObject({ stored: 0, refusedGroup: 0 });
    expect(index.removeKeys(rank, 9, GPU, keysAt(1, [4]))).toEqual({ removed: 0, absent: 1 });
    expect(index.clear(rank, 9, ALL)).toBe(0);
    expect(sizes(index)).toEqual([0, 0, 1]);
  });
});

describe("refusals are counted and change nothing", () => {
  test("a key known at another position is a clash: the older place stays", () => {
    const index = new PrefixIndex(ROOMY);
    const [a, b] = [index.addRank(TWO_GROUPS), index.addRank(TWO_GROUPS)];
    store(index, a, [4, 8]);
    // The key of position 8, said to end at 12.
    expect(index.storeRun(b, 0, GPU, keysAt(1, [8]), 12, 4)).toMatchObject({
      stored: 0,
      refusedClash: 1,
    });
    expect(index.groupEntryCount(b, 0, ALL)).toBe(0);
    index.audit();
    // Once nobody holds it, the key has no position any more.
    index.clear(a, ALL, ALL);
    expect(index.storeRun(b, 0, GPU, keysAt(1, [8]), 12, 4).stored).toBe(1);
  });

  test("one key twice in a run is a clash with itself", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    const outcome = index.storeRun(rank, 0, GPU, keysAt(1, [4, 4, 8]), 4, 4);
    expect(outcome).toMatchObject({ stored: 2, refusedClash: 1 });
    index.audit();
  });

  test("the node ceiling refuses new keys, not new holders of known ones", () => {
    const index = new PrefixIndex({ maxNodes: 2, maxEntriesPerRank: 100 });
    const [a, b] = [index.addRank(TWO_GROUPS), index.addRank(TWO_GROUPS)];
    expect(store(index, a, [4, 8, 12])).toMatchObject({ stored: 2, refusedAtCeiling: 1 });
    expect(store(index, b, [4, 8, 12])).toMatchObject({ stored: 2, refusedAtCeiling: 1 });
    expect(index.removeKeys(a, 0, GPU, keysAt(1, [8])).removed).toBe(1);
    expect(index.removeKeys(b, 0, GPU, keysAt(1, [8])).removed).toBe(1);
    expect(store(index, b, [12])).toMatchObject({ stored: 1, refusedAtCeiling: 0 });
    expect(sizes(index)).toEqual([2, 3, 2]);
  });

  test("the entry ceiling is each rank's own, and counts groups and media", () => {
    const index = new PrefixIndex({ maxNodes: 100, maxEntriesPerRank: 3 });
    const [a, b] = [index.addRank(TWO_GROUPS), index.addRank(TWO_GROUPS)];
    store(index, a, [4]);
    store(index, a, [4], { group: 1 });
    store(index, a, [4], { medium: CPU });
    expect(store(index, a, [8])).toMatchObject({ stored: 0, refusedAtCeiling: 1 });
    expect(store(index, a, [4])).toMatchObject({ alreadyHeld: 1, refusedAtCeiling: 0 });
    expect(store(index, b, [4, 8, 12, 16])).toMatchObject({ stored: 3, refusedAtCeiling: 1 });
  });

  test("a group outside the layout, and the 33rd group without one", () => {
    const index = new PrefixIndex(ROOMY);
    expect(store(index, index.addRank(TWO_GROUPS), [4, 8], { group: 2 }).refusedGroup).toBe(2);
    const rank = index.addRank(undefined);
    for (let group = 0; group < 32; group++) {
      expect(store(index, rank, [4], { group: group * 1000 }).stored).toBe(1);
    }
    expect(store(index, rank, [4], { group: 7 })).toMatchObject({ stored: 0, refusedGroup: 1 });
    expect(index.removeKeys(rank, 31_000, GPU, keysAt(1, [4])).removed).toBe(1);
    expect(index.clear(rank, ALL, ALL)).toBe(31);
    expect(sizes(index)).toEqual([0, 0, 2]);
  });

  test("a run that ends beyond the largest position is refused whole", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    const end = MAX_POSITION_TOKENS;
    expect(index.storeRun(rank, 0, GPU, keysAt(1, [1, 2]), end, 1).refusedPosition).toBe(2);
    expect(index.storeRun(rank, 0, GPU, keysAt(1, [1]), end, 1).stored).toBe(1);
    index.audit();
  });

  test("runs of impossible shape are our bugs", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    const key = keysAt(1, [4]);
    expect(() => index.storeRun(rank, 0, GPU, key.subarray(1), 4, 4)).toThrow("8 bytes");
    expect(() => index.storeRun(rank, 0, 16, key, 4, 4)).toThrow("medium");
    expect(() => index.storeRun(rank, 0, GPU, key, 0, 4)).toThrow("> 0");
    expect(() => index.addRank({ ...TWO_GROUPS, groups: [] })).toThrow("checked");
    index.audit();
    expect(sizes(index)).toEqual([0, 0, 1]);
  });
});

describe("clear", () => {
  function filled() {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    const other = index.addRank(TWO_GROUPS);
    for (const group of [0, 1]) {
      for (const medium of [GPU, CPU]) store(index, rank, range(4, 40, 4), { group, medium });
    }
    store(index, other, range(4, 40, 4));
    return { index, rank };
  }

  test.each([
    [0, GPU, 10],
    [1, ALL, 20],
    [ALL, CPU, 20],
    [ALL, ALL, 40],
    [0, 5, 0],
  ])("group %i in medium %i takes exactly that scope: %i entries", (group, medium, count) => {
    const { index, rank } = filled();
    expect(index.clear(rank, group, medium)).toBe(count);
    index.audit();
    expect(index.gauges().entries).toBe(50 - count);
    for (const g of [0, 1]) {
      for (const m of [GPU, CPU]) {
        const isGone = (group === ALL || group === g) && (medium === ALL || medium === m);
        expect(index.groupEntryCount(rank, g, m)).toBe(isGone ? 0 : 10);
      }
    }
  });

  test("a cleared group has still been seen", () => {
    const { index, rank } = filled();
    index.clear(rank, ALL, ALL);
    expect([index.groupEntryCount(rank, 1, ALL), index.hasEverStored(rank, 1)]).toEqual([0, true]);
    expect(index.hasEverStored(index.addRank(TWO_GROUPS), 1)).toBe(false);
  });
});

describe("ranks", () => {
  test("a retired rank leaves nothing, and its handle never names its successor", () => {
    const index = new PrefixIndex(ROOMY);
    const first = index.addRank(TWO_GROUPS);
    store(index, first, range(4, 40, 4));
    expect(index.retireRank(first)).toBe(true);
    index.audit();
    expect(sizes(index)).toEqual([0, 0, 0]);
    const second = index.addRank(TWO_GROUPS);
    expect(second).not.toBe(first);
    expect([index.isLive(first), index.isLive(second)]).toEqual([false, true]);
    expect(index.retireRank(first)).toBe(false);
    expect(() => index.storeRun(first, 0, GPU, keysAt(1, [4]), 4, 4)).toThrow("retired");
    expect(() => index.clear(first, ALL, ALL)).toThrow("retired");
    expect(index.groupEntryCount(second, 0, ALL)).toBe(0);
  });

  test("a retired rank's share of a node goes, the others' stays", () => {
    const index = new PrefixIndex(ROOMY);
    const ranks = [0, 1, 2, 3].map(() => index.addRank(TWO_GROUPS));
    for (const rank of ranks) store(index, rank, range(4, 40, 4));
    for (const [done, rank] of ranks.entries()) {
      index.retireRank(rank);
      index.audit();
      expect(sizes(index)).toEqual([done === 3 ? 0 : 10, 30 - done * 10, 3 - done]);
    }
  });

  test("the layout of a rank with entries keeps its look-ahead and its groups", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(TWO_GROUPS);
    store(index, rank, [4, 8]);
    expect(index.setLayout(rank, { ...TWO_GROUPS, lookaheadTokens: 1 })).toBe(false);
    expect(index.setLayout(rank, layoutOf([full(4)]))).toBe(false);
    expect(index.setLayout(rank, layoutOf([full(4), mamba(4), mamba(4)]))).toBe(false);
    expect(index.setLayout(rank, layoutOf([full(4), mamba(8)]))).toBe(true);
    expect(
      index.setLayout(rank, layoutOf([mamba(4, { groupId: 1 }), full(4, { groupId: 0 })])),
    ).toBe(true);
    expect(index.setLayout(rank, undefined)).toBe(true);
    expect(index.setLayout(rank, TWO_GROUPS)).toBe(true);
    index.audit();
    expect(index.groupEntryCount(rank, 0, GPU)).toBe(2);
    index.clear(rank, ALL, ALL);
    expect(index.setLayout(rank, layoutOf([full(4)], { lookaheadTokens: 1 }))).toBe(true);
    index.audit();
  });

  test("a rank without a layout takes one that lists all groups it has named", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(undefined);
    store(index, rank, [4, 8], { group: 1 });
    expect(index.setLayout(rank, layoutOf([full(4)]))).toBe(false);
    expect(index.setLayout(rank, { ...TWO_GROUPS, lookaheadTokens: 2 })).toBe(false);
    expect(index.setLayout(rank, TWO_GROUPS)).toBe(true);
    index.audit();
    expect(index.groupEntryCount(rank, 1, GPU)).toBe(2);
  });

  test("a full slate of one group in bit 31 is kept like any other", () => {
    const index = new PrefixIndex(ROOMY);
    const rank = index.addRank(layoutOf(Array.from({ length: 32 }, () => full(4))));
    for (let group = 31; group >= 0; group--) store(index, rank, [4], { group });
    expect(sizes(index)).toEqual([1, 32, 1]);
    expect(index.clear(rank, 31, ALL)).toBe(1);
    index.audit();
    expect(index.retireRank(rank)).toBe(true);
    expect(sizes(index)).toEqual([0, 0, 0]);
  });
});

test("every order of five operations keeps the books", () => {
  // Method: all 120 orders of five operations of two ranks on shared keys; an audit after each.
  const key = keysAt(1, [4, 8]);
  const operations: readonly ((index: PrefixIndex, a: RankHandle, b: RankHandle) => void)[] = [
    (index, a) => void index.storeRun(a, 0, GPU, key, 4, 4),
    (index, _a, b) => void index.storeRun(b, 1, GPU, key, 4, 4),
    (index, a) => void index.removeKeys(a, 0, GPU, keysAt(1, [4])),
    (index, _a, b) => void index.clear(b, 1, ALL),
    (index, a) => void index.storeRun(a, 0, CPU, key, 4, 4),
  ];
  let orders = 0;
  for (const order of permutations([0, 1, 2, 3, 4])) {
    const index = new PrefixIndex({ maxNodes: 3, maxEntriesPerRank: 3 });
    const [a, b] = [index.addRank(TWO_GROUPS), index.addRank(TWO_GROUPS)];
    for (const step of order) {
      operations[step]?.(index, a, b);
      index.audit();
    }
    expect(index.groupEntryCount(b, 1, ALL)).toBe(order.indexOf(1) < order.indexOf(3) ? 0 : 2);
    const isRetired = index.retireRank(a) && index.retireRank(b);
    index.audit();
    expect([isRetired, ...sizes(index)]).toEqual([true, 0, 0, 0]);
    orders += 1;
  }
  expect(orders).toBe(120);
});

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item) =>
    permutations(items.filter((other) => other !== item)).map((rest) => [item, ...rest]),
  );
}
