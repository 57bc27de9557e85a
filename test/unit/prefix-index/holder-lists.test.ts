import { describe, expect, test } from "vitest";
import { ChainStore } from "../../../src/prefix-index/dist/chain-store.js";
import { HolderLists } from "../../../src/prefix-index/dist/holder-lists.js";
import { RankChains } from "../../../src/prefix-index/dist/rank-chains.js";
import { holderOf, MEDIA_COUNT } from "../../../src/prefix-index/dist/record.js";
import { RecordArena } from "../../../src/prefix-index/dist/record-arena.js";
import { range } from "./layouts-and-prompts.ts";

function listOf() {
  const chains = new ChainStore();
  const counts = new Map<string, number>();
  const lists = new HolderLists(chains, {
    countRecord: (slot, chain, change) => {
      const key = `${slot}/${chain}`;
      counts.set(key, (counts.get(key) ?? 0) + change);
    },
  });
  const chain = chains.take(4, 4);
  /** Records as [holder, first, last, stride]. */
  const records = () =>
    range(0, lists.countOf(chain) - 1, 1).map((i) => {
      const words = lists.wordsOf(chain);
      const at = lists.baseOf(chain) + i * 2;
      const [head, offsets] = [words[at] ?? 0, words[at + 1] ?? 0];
      return [head >>> 3, offsets >>> 16, offsets & 0xffff, 1 << (head & 7)];
    });
  return { lists, chain, records, counts };
}

describe("a chain's records", () => {
  test("stand in order of medium, slot, group and offset, whatever came first", () => {
    const { lists, chain, records } = listOf();
    const holders = [
      holderOf(15, 0, 0),
      holderOf(0, 1_048_575, 31),
      holderOf(0, 3, 1),
      holderOf(8, 2, 0),
    ];
    for (const holder of holders) lists.addRange(chain, holder, 8, 9, 0);
    for (const holder of holders) lists.addRange(chain, holder, 0, 3, 0);
    const sorted = [...holders].sort((a, b) => a - b);
    expect(records().map(([holder]) => holder)).toEqual(sorted.flatMap((h) => [h, h]));
    expect(sorted[0]).toBe(holderOf(0, 3, 1));
    expect(MEDIA_COUNT).toBe(16);
  });

  test("offsets that go on lengthen the record; a gap that is filled joins two", () => {
    const { lists, chain, records, counts } = listOf();
    lists.addRange(chain, 32, 0, 3, 0);
    lists.addRange(chain, 32, 4, 7, 0);
    lists.addRange(chain, 32, 9, 12, 0);
    expect(records()).toEqual([
      [32, 0, 7, 1],
      [32, 9, 12, 1],
    ]);
    expect(counts.get("1/0")).toBe(2);
    lists.addOne(chain, 32, 8);
    expect(records()).toEqual([[32, 0, 12, 1]]);
    expect(counts.get("1/0")).toBe(1);
  });

  test("a removal shortens at the ends and splits inside", () => {
    const { lists, chain, records } = listOf();
    lists.addRange(chain, 32, 0, 9, 0);
    for (const offset of [0, 9, 4]) expect(lists.removeOne(chain, 32, offset)).toBe(true);
    expect(records()).toEqual([
      [32, 1, 3, 1],
      [32, 5, 8, 1],
    ]);
    for (const offset of [0, 4, 9]) expect(lists.removeOne(chain, 32, offset)).toBe(false);
    expect(lists.removeOne(chain, 33, 2)).toBe(false);
  });

  test("offsets a power of two apart are one record; one inside its gap splits it", () => {
    const { lists, chain, records } = listOf();
    for (const offset of [15, 31, 47, 63]) lists.addOne(chain, 32, offset);
    expect(records()).toEqual([[32, 15, 63, 16]]);
    expect([31, 32].map((offset) => lists.holds(chain, 32, offset))).toEqual([true, false]);
    lists.addOne(chain, 32, 32);
    expect(records()).toEqual([
      [32, 15, 31, 16],
      [32, 32, 32, 1],
      [32, 47, 63, 16],
    ]);
    // More than 128 apart is not one record.
    lists.addOne(chain, 32, 63 + 256);
    expect(records().length).toBe(4);
  });

  test("agree with a set of offsets over random additions and removals", () => {
    let state = 5;
    const random = (bound: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return (state >>> 8) % bound;
    };
    const { lists, chain, records } = listOf();
    const held = new Map<number, Set<number>>([32, 33, 64].map((holder) => [holder, new Set()]));
    for (let step = 0; step < 4000; step++) {
      const holder = [32, 33, 64][random(3)] ?? 32;
      const offset = random(100);
      const set = held.get(holder) ?? new Set();
      if (random(2) === 0) {
        expect(lists.removeOne(chain, holder, offset)).toBe(set.delete(offset));
      } else if (!set.has(offset)) {
        lists.addOne(chain, holder, offset);
        set.add(offset);
      }
      for (const [other, offsets] of held) {
        const own = records().filter(([h]) => h === other);
        const listed = own.flatMap(([, first, last, stride]) =>
          range(first ?? 0, last ?? 0, stride ?? 1),
        );
        expect(listed).toEqual([...offsets].sort((a, b) => a - b));
      }
    }
  });
});

describe("the record arena", () => {
  test("a block larger than a chunk has a chunk of its own, which goes with it", () => {
    const arena = new RecordArena();
    arena.take(0);
    const before = arena.sizeBytes;
    const address = arena.take(13);
    expect(arena.sizeBytes).toBe(before + 2 ** 13 * 8);
    expect(arena.chunkOf(address).length).toBe(2 ** 14);
    arena.give(address, 13);
    expect(arena.sizeBytes).toBe(before);
    expect(arena.take(14)).toBe(address);
  });

  test("freed blocks are used again: filling twice takes no more room than once", () => {
    const arena = new RecordArena();
    const fill = () => range(0, 2999, 1).map((i) => [arena.take(i % 5), i % 5] as const);
    const blocks = fill();
    const { sizeBytes } = arena;
    for (const [address, sizeClass] of blocks) arena.give(address, sizeClass);
    const again = fill();
    expect(arena.sizeBytes).toBe(sizeBytes);
    expect(new Set(again.map(([address]) => address)).size).toBe(3000);
  });
});

test("a rank's chains survive growth, deletion and shrinking", () => {
  const chains = new RankChains();
  for (let chain = 0; chain < 1000; chain++) {
    chains.add(chain);
    if (chain % 2 === 0) chains.add(chain);
  }
  chains.audit();
  const { sizeBytes } = chains;
  for (let chain = 0; chain < 1000; chain++) chains.remove(chain);
  chains.audit();
  expect(chains.count).toBe(500);
  expect([...chains.list()].sort((a, b) => a - b)).toEqual(range(0, 998, 2));
  for (let chain = 0; chain < 980; chain += 2) chains.remove(chain);
  chains.audit();
  expect(chains.sizeBytes).toBeLessThan(sizeBytes / 16);
  expect([chains.recordsOf(998), chains.recordsOf(0)]).toEqual([1, 0]);
});
