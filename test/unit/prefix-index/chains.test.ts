import { describe, expect, test } from "vitest";
import { MAX_CHAIN_NODES } from "../../../src/prefix-index/dist/chain-store.js";
import { Chains } from "../../../src/prefix-index/dist/chains.js";
import { ALL, PrefixIndex, type RankHandle } from "../../../src/prefix-index/dist/index.js";
import { packPages } from "../../../src/prefix-index/dist/pack-pages.js";
import { CHUNK_PAGES, NONE } from "../../../src/prefix-index/dist/page-store.js";
import { holderOf } from "../../../src/prefix-index/dist/record.js";
import { RunStore } from "../../../src/prefix-index/dist/run-store.js";
import { full, keysAt, keyWord, layoutOf, mamba, range, sliding } from "./layouts-and-prompts.ts";

const NOBODY = { countRecord: () => {} };

/** Chains with one writer; a run is positions of a toy prompt. */
function bookOf(maxNodes = 1_000_000) {
  const chains = new Chains(maxNodes, NOBODY);
  const writer = new RunStore(chains);
  const nodeAt = (prompt: number, position: number) =>
    chains.keys.find(keyWord(prompt, position, 0) | 0, keyWord(prompt, position, 1) | 0);
  const store = (
    positions: readonly number[],
    { prompt = 1, slot = 0, bit = 0, parent = 0, step = 4 } = {},
  ) => {
    const outcome = { stored: 0, alreadyHeld: 0, refusedClash: 0, refusedAtCeiling: 0 };
    const previous = parent === 0 ? NONE : nodeAt(prompt, parent);
    writer.begin(holderOf(0, slot, bit), step, previous, 1e9);
    for (const position of positions) {
      const [low, high] = [keyWord(prompt, position, 0) | 0, keyWord(prompt, position, 1) | 0];
      writer.store(low, high, position, { ...outcome, refusedGroup: 0, refusedPosition: 0 });
    }
    writer.flush();
  };
  const remove = (positions: readonly number[], { prompt = 1, slot = 0, bit = 0 } = {}) => {
    for (const position of positions) {
      const node = nodeAt(prompt, position);
      const holder = holderOf(0, slot, bit);
      expect(chains.lists.removeOne(chains.chainOf(node), holder, chains.offsetOf(node))).toBe(
        true,
      );
      chains.release(node);
    }
  };
  /** [chains, nodes, records, pages in use]. */
  const sizes = () => [
    chains.facts.count,
    chains.keys.count,
    chains.lists.recordCount,
    chains.pages.bound - chains.pages.freeCount,
  ];
  const placeOf = (position: number, prompt = 1) => {
    const node = nodeAt(prompt, position);
    return [chains.chainOf(node), chains.offsetOf(node)];
  };
  return { chains, store, remove, sizes, placeOf };
}

describe("a run becomes a chain", () => {
  test("events that go on, told by their parent, stay in one chain and one record", () => {
    const { store, sizes, placeOf } = bookOf();
    store(range(4, 40, 4));
    store(range(44, 80, 4), { parent: 40 });
    store([84], { parent: 80 });
    expect(sizes()).toEqual([1, 21, 1, 3]);
    expect(placeOf(84)).toEqual([0, 20]);
  });

  test("without the parent's key they do not, and nothing else differs", () => {
    const { store, sizes } = bookOf();
    store(range(4, 40, 4));
    store(range(44, 80, 4));
    expect(sizes()).toEqual([2, 20, 2, 4]);
  });

  test("a branch begins a new chain; the shared part is one record a holder", () => {
    const { chains, store, sizes } = bookOf();
    store(range(4, 40, 4));
    store(range(4, 20, 4), { slot: 1 });
    store(range(24, 40, 4), { slot: 1, prompt: 2, parent: 20 });
    expect(sizes()).toEqual([2, 15, 3, 3]);
    expect(chains.lists.countOf(0)).toBe(2);
  });

  test("a chain is as long as it may be, and the next one goes on", () => {
    const { store, sizes, placeOf } = bookOf();
    store(range(4, 4 * (MAX_CHAIN_NODES + 3), 4));
    expect(sizes().slice(0, 3)).toEqual([2, MAX_CHAIN_NODES + 3, 2]);
    expect(placeOf(4 * MAX_CHAIN_NODES)).toEqual([0, MAX_CHAIN_NODES - 1]);
    expect(placeOf(4 * MAX_CHAIN_NODES + 4)).toEqual([1, 0]);
  });
});

describe("what a finer run passes joins its chain", () => {
  test("states stored before the run, alone or a chain of their own, with all their holders", () => {
    const { chains, store, sizes, placeOf } = bookOf();
    store([64], { bit: 1, step: 64 });
    store([64, 128, 192], { bit: 1, step: 64, slot: 1 });
    expect(sizes().slice(0, 3)).toEqual([1, 3, 2]);
    store(range(4, 200, 4));
    expect(sizes().slice(0, 2)).toEqual([1, 50]);
    expect([placeOf(64)[1], placeOf(192)[1]]).toEqual([15, 47]);
    const [chain] = placeOf(4);
    for (const [position, slot] of [
      [64, 0],
      [64, 1],
      [192, 1],
    ] as const) {
      const offset = position / 4 - 1;
      expect(chains.lists.holds(chain ?? 0, holderOf(0, slot, 1), offset)).toBe(true);
    }
    // Two records for the run and the lone state, one for the three states a stride of 16 apart.
    expect(sizes()[2]).toBe(3);
  });

  test("states stored after the run are one record with a stride", () => {
    const { store, sizes } = bookOf();
    store(range(4, 1024, 4));
    for (const position of range(64, 1024, 64)) {
      store([position], { bit: 1, step: 64, parent: position - 64 });
    }
    expect(sizes().slice(0, 3)).toEqual([1, 256, 2]);
  });

  test("a run does not take the nodes of a chain as fine as itself", () => {
    const { store, sizes } = bookOf();
    store(range(24, 40, 4));
    store(range(4, 40, 4), { slot: 1 });
    expect(sizes().slice(0, 2)).toEqual([2, 10]);
  });
});

describe("nodes leave", () => {
  test("from the end: the chain gets shorter, its pages go one by one", () => {
    const { store, remove, sizes, chains } = bookOf();
    store(range(4, 128, 4));
    expect(sizes()).toEqual([1, 32, 1, 4]);
    for (let position = 128; position > 4; position -= 4) {
      remove([position]);
      expect(sizes()).toEqual([1, position / 4 - 1, 1, Math.ceil((position / 4 - 1) / 8)]);
    }
    remove([4]);
    expect(sizes()).toEqual([0, 0, 0, 0]);
    expect(chains.facts.bound).toBe(1);
  });

  test("from inside: a hole, whose page goes when it is the last of it, and which is filled again", () => {
    const { store, remove, sizes, placeOf } = bookOf();
    store(range(4, 128, 4));
    remove(range(36, 64, 4));
    expect(sizes()).toEqual([1, 24, 2, 3]);
    store(range(36, 64, 4), { parent: 32 });
    expect(sizes()).toEqual([1, 32, 1, 4]);
    expect(placeOf(64)).toEqual([0, 15]);
  });

  test("a node stays while another holder has it", () => {
    const { store, remove, sizes } = bookOf();
    store(range(4, 32, 4));
    store(range(4, 32, 4), { slot: 1 });
    remove(range(8, 16, 4));
    expect(sizes()).toEqual([1, 8, 3, 1]);
    remove(range(8, 16, 4), { slot: 1 });
    expect(sizes()).toEqual([1, 5, 4, 1]);
  });
});

test("packing moves pages out of the last chunk and keeps every key", () => {
  const { chains, store, remove, placeOf } = bookOf();
  for (let prompt = 1; prompt <= 3 * CHUNK_PAGES; prompt++) store(range(4, 32, 4), { prompt });
  expect(chains.pages.chunks.length).toBe(3);
  for (let prompt = 1; prompt <= 3 * CHUNK_PAGES; prompt++) {
    if (prompt % 3 !== 0) remove(range(4, 32, 4), { prompt });
  }
  packPages(chains, Number.POSITIVE_INFINITY);
  expect(chains.pages.chunks.length).toBe(2);
  for (let prompt = 3; prompt <= 3 * CHUNK_PAGES; prompt += 3) {
    expect(placeOf(32, prompt)[1]).toBe(7);
  }
});

describe("memory comes back with the entries", () => {
  const LAYOUT = layoutOf([full(4), mamba(64, { groupId: 1 }), sliding(4, 9, { groupId: 2 })]);

  function filled(rooms: number) {
    const index = new PrefixIndex({ maxNodes: 1e6, maxEntriesPerRank: 1e6 });
    const ranks = range(1, 4, 1).map(() => index.addRank(LAYOUT));
    for (let prompt = 0; prompt < rooms; prompt++) {
      const rank = ranks[prompt % 4] as RankHandle;
      index.storeRun(rank, 0, 0, keysAt(prompt, range(4, 512, 4)), 4, 4);
      index.storeRun(rank, 1, 0, keysAt(prompt, range(64, 512, 64)), 64, 64);
      index.storeRun(rank, 2, 1, keysAt(prompt, range(480, 512, 4)), 480, 4);
    }
    return { index, ranks };
  }

  test("half of all prompts removed key by key, then the ranks one by one", () => {
    const { index, ranks } = filled(400);
    const before = index.gauges().bytes;
    const empty = new PrefixIndex({ maxNodes: 1e6, maxEntriesPerRank: 1e6 }).gauges().bytes;
    for (let prompt = 0; prompt < 200; prompt++) {
      const rank = ranks[prompt % 4] as RankHandle;
      index.removeKeys(rank, 0, 0, keysAt(prompt, range(4, 512, 4).reverse()));
      index.removeKeys(rank, 1, 0, keysAt(prompt, range(64, 512, 64)));
      index.removeKeys(rank, 2, 1, keysAt(prompt, range(480, 512, 4)));
    }
    index.audit();
    expect(before - index.gauges().bytes).toBeGreaterThan(0.4 * (before - empty));
    for (const rank of ranks) {
      index.clear(rank, ALL, ALL);
      index.audit();
    }
    expect(index.gauges()).toMatchObject({ nodes: 0, entries: 0 });
    // One chunk of each kind stays.
    expect(index.gauges().bytes - empty).toBeLessThan(400_000);
  });
});
