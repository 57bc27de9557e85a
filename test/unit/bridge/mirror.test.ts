import { beforeEach, describe, expect, test } from "vitest";
import type { Block, Slot } from "../../../src/bridge/dist/block.js";
import { MIRROR_DEFAULTS, Mirror, type MirrorOptions } from "../../../src/bridge/dist/mirror.js";
import { KeyedHasher } from "../../../src/protocol/dist/index.js";
import { group, hash, removed, span, stored } from "../../support/typed-events.ts";

let told: string[] = [];
const g = group(0);
const FACTS = { lookaheadTokens: 0, wholeBlockTokens: undefined };

/** Words such as "+0 4" (stored in group 0, ends at 4) and "-0 ?" (removed, no place). */
const sink = {
  stored: (slot: Slot, block: Block): void => {
    told.push(`+${slot.groupId}${slot.medium === "GPU" ? "" : slot.medium} ${block.endTokens}`);
  },
  removed: (slot: Slot, block: Block): void => {
    told.push(`-${slot.groupId} ${block.isPlaced ? block.endTokens : "?"}`);
  },
  unplacedStored: (slot: Slot, block: Block): void => {
    told.push(`+${slot.groupId} unplaced ${block.blockSizeTokens}`);
  },
  unplacedRemoved: (slot: Slot): void => {
    told.push(`-${slot.groupId} unplaced`);
  },
  cleared: (): void => {
    told.push("clear");
  },
  refused: (reason: string): void => {
    told.push(reason);
  },
};

function mirrorOf(options: Partial<MirrorOptions> = {}): Mirror {
  return new Mirror(new KeyedHasher("sixteen characters"), sink, {
    ...MIRROR_DEFAULTS,
    ...options,
  });
}

let mirror = mirrorOf();
beforeEach(() => {
  told = [];
  mirror = mirrorOf();
});

describe("copies are counted and only transitions are told", () => {
  test("a second copy says nothing, and its removal neither", () => {
    mirror.store(stored([1, 2], span(1, 8)), g, FACTS);
    mirror.store(stored([2], span(5, 8), { parent: hash(1) }), g, FACTS);
    mirror.remove(removed([2]));
    expect(told).toEqual(["+0 4", "+0 8"]);
    mirror.remove(removed([2]));
    expect(told.at(-1)).toBe("-0 8");
    mirror.audit();
  });

  test("where an engine announces the last removal only, one removal takes all copies", () => {
    mirror = mirrorOf({ removalRule: "last_copy" });
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.remove(removed([1]));
    expect(told.at(-1)).toBe("-0 4");
  });

  test("a remaining-copies field is honoured", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.remove(removed([1], { remainingCopies: [1] }));
    expect(told).toEqual(["+0 4"]);
    mirror.remove(removed([1], { remainingCopies: [0] }));
    expect(told.at(-1)).toBe("-0 4");
  });

  test("a removal of what is not held is counted and changes nothing", () => {
    mirror.remove(removed([9]));
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.remove(removed([1], { groupId: group(3) }));
    expect(told).toEqual(["+0 4"]);
    expect(mirror.unknownRemovals).toBe(2);
  });

  test("groups and media are caches of their own", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([1], span(1, 4), { groupId: group(1) }), group(1), FACTS);
    mirror.store(stored([1], span(1, 4), { medium: "CPU" }), g, FACTS);
    mirror.remove(removed([1], { medium: "CPU" }));
    mirror.remove(removed([1], { groupId: group(1) }));
    expect(told).toEqual(["+0 4", "+1 4", "+0CPU 4", "-0 4", "-1 4"]);
    expect(mirror.placed).toBe(1);
  });

  test("a removal without a group takes the hash out of every group of that medium", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([1], span(1, 4)), group(1), FACTS);
    mirror.store(stored([1], span(1, 4), { medium: "CPU" }), g, FACTS);
    mirror.remove(removed([1], { groupId: undefined }));
    expect(mirror.placed).toBe(1);
    mirror.audit();
  });
});

describe("places", () => {
  test("a sparse entry is placed by equal hash, and told the moment its place is known", () => {
    const sparse = stored([2], span(1, 8), { blockSizeTokens: 4 });
    mirror.store(sparse, group(1), FACTS);
    expect(told).toEqual([]);
    expect(mirror.unplaced).toBe(1);
    mirror.store(stored([1, 2], span(1, 8)), g, FACTS);
    expect(told).toEqual(["+1 8", "+0 4", "+0 8"]);
    expect(mirror.unplaced).toBe(0);
    mirror.audit();
  });

  test("an unknown parent is never a root", () => {
    mirror.store(stored([5], span(5, 8), { parent: hash(99) }), g, FACTS);
    mirror.store(stored([6], span(9, 12), { parent: hash(5) }), g, FACTS);
    expect(told).toEqual([]);
    expect(mirror.unplaced).toBe(2);
  });

  test("a removed block's place is remembered for its children", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.remove(removed([1]));
    mirror.store(stored([2], span(5, 8), { parent: hash(1) }), g, FACTS);
    expect(told.at(-1)).toBe("+0 8");
  });

  test("at the bound of the history the place unneeded for longest goes, and its children stay unplaced", () => {
    mirror = mirrorOf({ maxHistory: 2 });
    for (const [value, first] of [
      [1, 1],
      [2, 101],
      [3, 201],
    ] as const) {
      mirror.store(stored([value], span(first, first + 3)), g, FACTS);
      mirror.remove(removed([value]));
    }
    expect(mirror.forgottenPlaces).toBe(1);
    mirror.store(stored([11], span(5, 8), { parent: hash(1) }), g, FACTS);
    mirror.store(stored([13], span(205, 208), { parent: hash(3) }), g, FACTS);
    expect(mirror.unplaced).toBe(1);
    expect(told.at(-1)).toBe("+0 8");
    mirror.audit();
  });

  test("a second hash at one place withdraws the older one and what stands on it", () => {
    mirror.store(stored([1, 2], span(1, 8)), g, FACTS);
    mirror.store(stored([7], span(1, 4)), g, FACTS);
    expect(told).toEqual(["+0 4", "+0 8", "hash_replaced", "-0 4", "-0 8", "+0 4"]);
    mirror.remove(removed([1]));
    expect(told.at(-1)).toBe("-0 ?");
    mirror.audit();
  });

  test("one hash at a second place is refused and is no copy: one removal leaves nothing", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([1], span(11, 14)), g, FACTS);
    expect(told).toEqual(["+0 4", "place_contradicts"]);
    mirror.remove(removed([1]));
    expect(told.at(-1)).toBe("-0 4");
    mirror.audit();
  });

  test("a store outside the GPU without extra keys is no root, below a placed parent it is placed", () => {
    const cpu = { medium: "CPU", extraKeys: undefined };
    mirror.store(stored([1], span(1, 4), cpu), g, FACTS);
    expect(mirror.unplaced).toBe(1);
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([2], span(5, 8), { ...cpu, parent: hash(1) }), g, FACTS);
    expect(told.at(-1)).toBe("+0CPU 8");
  });

  test("an adapter known by number only gets no place", () => {
    mirror.store(stored([1], span(1, 4), { loraId: 7n }), g, FACTS);
    expect(mirror.unplaced).toBe(1);
  });
});

describe("partial entries", () => {
  const partial = { lookaheadTokens: 0, wholeBlockTokens: 8 };

  test("a smaller block inside a whole one is a partial entry", () => {
    mirror.store(stored([1], span(1, 4)), g, partial);
    expect(told).toEqual(["+0 4"]);
  });

  test("a smaller block where a whole one ends is another cache's: refused, and not counted as a copy", () => {
    mirror.store(stored([2], span(1, 8), { blockSizeTokens: 8 }), g, partial);
    mirror.store(stored([2], span(5, 8), { blockSizeTokens: 4, parent: hash(99) }), g, partial);
    mirror.remove(removed([2]));
    expect(told).toEqual(["+0 8", "block_size_contradicts", "-0 8"]);
  });
});

describe("scopes", () => {
  test("a clear of one group leaves the others, and of everything leaves nothing", () => {
    mirror.store(stored([1, 2], span(1, 8)), g, FACTS);
    mirror.store(stored([1], span(1, 4)), group(1), FACTS);
    mirror.clear(group(1), undefined);
    expect(mirror.placed).toBe(2);
    mirror.clear(undefined, undefined);
    expect(mirror.placed).toBe(0);
    mirror.audit();
  });

  test("at the bound of media beside the GPU a store in a further one is refused, the GPU is never", () => {
    mirror = mirrorOf({ maxMedia: 1 });
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.store(stored([1], span(1, 4), { medium: "CPU" }), g, FACTS);
    mirror.store(stored([1], span(1, 4), { medium: "DISK" }), g, FACTS);
    expect(told.at(-1)).toBe("too_many_media");
    mirror.store(stored([1], span(1, 4), { medium: "CPU" }), group(1), FACTS);
    expect(told.at(-1)).toBe("+1CPU 4");
    mirror.store(stored([2], span(11, 14)), g, FACTS);
    expect(told.at(-1)).toBe("+0 4");
  });

  test("over the bound of held hashes the mirror says so; removed ones do not count", () => {
    mirror = mirrorOf({ maxBlocks: 2 });
    mirror.store(stored([1, 2], span(1, 8)), g, FACTS);
    expect(mirror.isOverLimit).toBe(false);
    mirror.store(stored([3], span(9, 12), { parent: hash(2) }), g, FACTS);
    expect(mirror.isOverLimit).toBe(true);
    mirror.remove(removed([3]));
    expect(mirror.isOverLimit).toBe(false);
  });

  test("a reset that keeps places holds nothing but still knows parents", () => {
    mirror.store(stored([1], span(1, 4)), g, FACTS);
    mirror.reset(true);
    expect(mirror.placed + mirror.unplaced).toBe(0);
    mirror.store(stored([2], span(5, 8), { parent: hash(1) }), g, FACTS);
    expect(told.at(-1)).toBe("+0 8");
    mirror.reset(false);
    mirror.store(stored([3], span(9, 12), { parent: hash(2) }), g, FACTS);
    expect(mirror.unplaced).toBe(1);
    mirror.audit();
  });
});
