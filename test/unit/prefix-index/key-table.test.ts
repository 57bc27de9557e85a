import { describe, expect, test } from "vitest";
import { KeyTable } from "../../../src/prefix-index/dist/key-table.js";
import { PageStore } from "../../../src/prefix-index/dist/page-store.js";

/** A table over pages that hold nothing but keys: node i has the i-th key. */
function tableOf() {
  const pages = new PageStore();
  const table = new KeyTable(pages);
  let nodes = 0;
  const insert = (low: number, high: number) => {
    const node = nodes++;
    if (node % 8 === 0) pages.take(0, 0);
    pages.set(node >>> 3, (node & 7) * 2, low | 0);
    pages.set(node >>> 3, (node & 7) * 2 + 1, high | 0);
    table.insert(low | 0, high | 0, node);
    return node;
  };
  return { table, insert };
}

describe("the key table", () => {
  test("keys that share their low half are told apart by the high half", () => {
    const { table, insert } = tableOf();
    const nodes = [0, 1, 2, 3].map((high) => insert(7, high));
    expect([0, 1, 2, 3].map((high) => table.find(7, high))).toEqual(nodes);
    expect(table.find(7, 4)).toBe(-1);
    table.audit();
  });

  test("the halves 0 and 2^32 - 1 are keys like any other", () => {
    const { table, insert } = tableOf();
    const node = insert(0, 0);
    const other = insert(-1, -1);
    expect([table.find(0, 0), table.find(-1, -1)]).toEqual([node, other]);
    table.delete(0, 0, node);
    expect([table.find(0, 0), table.count]).toEqual([-1, 1]);
  });

  test("a deletion in a run that wraps around the end leaves the others reachable", () => {
    // One segment of 8 slots: these fill slots 6, 7, 0 ... in one run.
    const lows = [0xd000_0000, 0xd000_0000, 0xf000_0000, 0xd000_0000, 0, 0x1000_0000];
    for (let victim = 0; victim < lows.length; victim++) {
      const { table, insert } = tableOf();
      const nodes = lows.map((low, high) => insert(low, high));
      table.delete((lows[victim] ?? 0) | 0, victim, nodes[victim] ?? -1);
      table.audit();
      for (const [high, low] of lows.entries()) {
        expect(table.find(low | 0, high)).toBe(high === victim ? -1 : nodes[high]);
      }
    }
  });

  test("segments grow and shrink by themselves, and stay between 0.6 and 0.78 full", () => {
    const { table, insert } = tableOf();
    const keys: [number, number, number][] = [];
    for (let i = 1; i <= 40_000; i++) {
      const low = Math.imul(i, 0x9e37_79b1) | 0;
      const high = Math.imul(i ^ (i >>> 3), 0x85eb_ca6b) | 0;
      keys.push([low, high, insert(low, high)]);
      // 8 bytes a slot; no moment in which the table is twice as large as it needs to be.
      if (i > 10_000) expect(table.sizeBytes / i).toBeLessThan(8 / 0.6);
    }
    table.audit();
    for (const [low, high, node] of keys.slice(0, 30_000)) table.delete(low, high, node);
    table.audit();
    expect(table.sizeBytes / table.count).toBeLessThan(8 / 0.58);
    for (const [i, [low, high, node]] of keys.entries()) {
      expect(table.find(low, high)).toBe(i < 30_000 ? -1 : node);
    }
  });
});
