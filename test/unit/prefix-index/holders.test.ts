import { describe, expect, test } from "vitest";
import { HolderArena, holderTag } from "../../../src/prefix-index/dist/holder-arena.js";
import { PlaceTable } from "../../../src/prefix-index/dist/place-table.js";

describe("the holder arena", () => {
  test("a node's block grows by doubling and its records stay in a row", () => {
    const arena = new HolderArena();
    for (let slot = 0; slot < 100; slot++) {
      expect(arena.add(3, holderTag(slot, 0), slot + 1)).toBe(slot);
      arena.add(4, holderTag(slot, 1), 1);
      arena.audit();
    }
    for (let slot = 0; slot < 100; slot++) {
      expect([arena.tagAt(3, slot), arena.maskAt(3, slot)]).toEqual([slot * 16, slot + 1]);
    }
  });

  test("the last record takes the index of a removed one", () => {
    const arena = new HolderArena();
    for (let slot = 0; slot < 4; slot++) arena.add(0, holderTag(slot, 0), 1);
    expect(arena.remove(0, 1)).toBe(holderTag(3, 0));
    expect(arena.remove(0, 2)).toBe(-1);
    expect([arena.tagAt(0, 0), arena.tagAt(0, 1), arena.counts[0]]).toEqual([0, 48, 2]);
    arena.audit();
  });

  test("emptied blocks are used again: filling twice takes no more room than once", () => {
    const arena = new HolderArena();
    const fill = () => {
      for (let node = 0; node < 50; node++) {
        for (let slot = 0; slot <= node; slot++) arena.add(node, holderTag(slot, 0), 1);
      }
    };
    fill();
    const sizeBytes = arena.sizeBytes;
    for (let node = 0; node < 50; node++) {
      while ((arena.counts[node] ?? 0) > 0) arena.remove(node, 0);
    }
    arena.audit();
    fill();
    arena.audit();
    expect([arena.sizeBytes, arena.recordCount]).toEqual([sizeBytes, 1275]);
  });

  test("a node that lost most of its holders gives its room to others", () => {
    const arena = new HolderArena();
    const fillAndDrain = (node: number) => {
      for (let slot = 0; slot < 1024; slot++) arena.add(node, holderTag(slot, 0), 1);
      while ((arena.counts[node] ?? 0) > 1) arena.remove(node, 0);
      arena.audit();
      return arena.sizeBytes;
    };
    const once = fillAndDrain(0);
    for (let node = 1; node < 8; node++) expect(fillAndDrain(node)).toBeLessThan(2 * once);
  });
});

describe("the place table", () => {
  test("a place is node and medium", () => {
    const places = new PlaceTable();
    places.set(5, 0, 10);
    places.set(5, 1, 11);
    places.set(5, 1, 12);
    expect([places.get(5, 0), places.get(5, 1), places.get(5, 2)]).toEqual([10, 12, -1]);
    expect(places.count).toBe(2);
  });

  test("places survive growth and the deletion of any of them", () => {
    const places = new PlaceTable();
    for (let node = 0; node < 500; node++) places.set(node, node % 3, node);
    for (let node = 0; node < 500; node += 3) places.delete(node, 0);
    places.audit();
    for (let node = 0; node < 500; node++) {
      expect(places.get(node, node % 3)).toBe(node % 3 === 0 ? -1 : node);
    }
  });

  test("who deletes while listing and asks for the slot again meets every place", () => {
    const places = new PlaceTable();
    for (let node = 0; node < 300; node++) places.set(node, 0, node);
    for (let slot = 0; slot < places.slotCount; ) {
      const place = places.placeAt(slot);
      if (place === -1) slot += 1;
      else places.delete(place / 16, 0);
    }
    expect(places.count).toBe(0);
    places.audit();
  });
});
