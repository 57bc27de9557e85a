import { describe, expect, test } from "vitest";
import { KeyTable } from "../../../src/prefix-index/dist/key-table.js";

describe("the key table", () => {
  test("keys that share their low half are told apart by the high half", () => {
    const table = new KeyTable();
    const ids = [0, 1, 2, 3].map((high) => table.insert(7, high));
    expect([0, 1, 2, 3].map((high) => table.find(7, high))).toEqual(ids);
    expect(table.find(7, 4)).toBe(-1);
    table.audit();
  });

  test("the halves 0 and 2^32 - 1 are keys like any other", () => {
    const table = new KeyTable();
    const id = table.insert(0, 0);
    const other = table.insert(0xffff_ffff, 0xffff_ffff);
    expect([table.find(0, 0), table.find(0xffff_ffff, 0xffff_ffff)]).toEqual([id, other]);
    table.delete(id);
    expect([table.find(0, 0), table.count]).toEqual([-1, 1]);
  });

  test("a deletion in a run that wraps around the end leaves the others reachable", () => {
    // 64 slots: these keys fill slots 62, 63, 0, 1 ... in one run.
    const lows = [62, 62, 63, 62, 0, 1, 63];
    for (let victim = 0; victim < lows.length; victim++) {
      const table = new KeyTable();
      const ids = lows.map((low, high) => table.insert(low, high));
      table.delete(ids[victim] ?? -1);
      table.audit();
      for (const [high, low] of lows.entries()) {
        expect(table.find(low, high)).toBe(high === victim ? -1 : ids[high]);
      }
    }
  });

  test("a freed id is used again before a new one, through growth and shrinking", () => {
    const table = new KeyTable();
    for (let i = 0; i < 5000; i++) table.insert(Math.imul(i, 2654435761) >>> 0, i);
    table.audit();
    for (let i = 0; i < 5000; i += 2) {
      table.delete(table.find(Math.imul(i, 2654435761) >>> 0, i));
    }
    table.audit();
    for (let i = 0; i < 2500; i++) table.insert(i, 0x8000_0000 + i);
    table.audit();
    expect([table.count, table.idBound]).toEqual([5000, 5000]);
  });
});
