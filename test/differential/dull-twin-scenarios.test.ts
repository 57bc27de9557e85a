/**
 * What it is: the dull twin held against every recorded answer of the engine, and self tests of the
 * judge: laws that the text states apart from the rule set, and the generator's own promises.
 * Owns, refuses: nothing. Does not do: touch the fast index.
 */

import { describe, expect, test } from "vitest";
import type { GroupLayout, RankLayout } from "../../src/prefix-index/layout.ts";
import { lookupScenarios } from "../fixtures/lookup-scenarios.ts";
import { nativeCorpus } from "../fixtures/native-corpus.ts";
import { compareIndex, compareReuse } from "../support/differential-target.ts";
import { DullIndex } from "../support/dull-index.ts";
import { dullReuse } from "../support/dull-reuse.ts";
import { randomCache } from "../support/random-caches.ts";
import { parseScenario } from "../support/scenario-layout.ts";

describe("the dull twin answers what vLLM answered", () => {
  for (const row of lookupScenarios) {
    test(`row ${row.id}: ${row.point}`, () => {
      const { layout, ends } = parseScenario(row.cache, row.options);
      expect(dullReuse(layout, row.promptTokens, ends)).toBe(row.expectedTokens);
    });
  }
  for (const row of nativeCorpus) {
    test(`native ${row.id}`, () => {
      const { layout, ends } = parseScenario(row.cache, row.options);
      const { hashBlockSizeTokens, schedulerBlockSizeTokens, isFine } = layout;
      expect(isFine).toBe(row.isFine);
      expect(isFine ? hashBlockSizeTokens : schedulerBlockSizeTokens).toBe(row.alignmentTokens);
      expect(dullReuse(layout, row.promptTokens, ends)).toBe(row.expectedTokens);
    });
  }
  test("all 72 rows of the lookup reference are there", () => {
    const ids = new Set(lookupScenarios.map(({ id }) => id));
    const missing = Array.from({ length: 72 }, (_, at) => String(at + 1)).filter(
      (id) => !ids.has(id),
    );
    expect(missing).toEqual([]);
    expect(nativeCorpus).toHaveLength(35);
  });
});

/** The acceptance table of the reference's §2, position by position, without any search order. */
function accepts(group: GroupLayout, ends: ReadonlySet<number>, position: number): boolean {
  const block = group.blockSizeTokens;
  const covered = (from: number): boolean => {
    for (let end = from + block; end <= position; end += block) if (!ends.has(end)) return false;
    return true;
  };
  switch (group.rule) {
    case "full":
      return covered(0);
    case "sliding_window": {
      const blocks = Math.max(1, Math.ceil((group.windowTokens - 1) / block));
      return covered(Math.max(0, position - blocks * block));
    }
    case "mamba":
      return ends.has(position);
    case "chunked_local":
      return covered(Math.floor(position / group.chunkTokens) * group.chunkTokens);
  }
}

/** Where the text says that no order matters: largest multiple of S that every group accepts. */
function jointMaximum(
  layout: RankLayout,
  promptTokens: number,
  ends: readonly ReadonlySet<number>[],
): number {
  const S = layout.schedulerBlockSizeTokens;
  for (let position = Math.floor((promptTokens - 1) / S) * S; position > 0; position -= S) {
    const isGood = layout.groups.every((group, at) =>
      accepts(group, ends[at] ?? new Set<number>(), position),
    );
    if (isGood) return position > layout.replayTokens ? position : 0;
  }
  return 0;
}

/** Caches of the laws below, well apart from those of the mutant hunt. */
const lawSeeds = Array.from({ length: 20_000 }, (_, step) => 0x51ed0000 + step);

describe("the judge obeys the laws stated beside the rule set", () => {
  test("without fine mode, drop and look-ahead it is the largest joint position", () => {
    let comparedCount = 0;
    for (const seed of lawSeeds) {
      const { layout, promptTokens, ends } = randomCache(seed);
      const isOdd = layout.groups.some((group) => group.chunkTokens % group.blockSizeTokens !== 0);
      const isDropping = layout.groups.some((group) => group.dropsBlock);
      if (layout.isFine || isDropping || isOdd || layout.lookaheadTokens > 0) continue;
      comparedCount += 1;
      const found = dullReuse(layout, promptTokens, ends);
      expect(found, `seed ${seed}`).toBe(jointMaximum(layout, promptTokens, ends));
    }
    expect(comparedCount).toBeGreaterThan(5_000);
  });

  test("every answer is aligned, below n, and above the replay window or 0", () => {
    for (const seed of lawSeeds) {
      const { layout, promptTokens, ends } = randomCache(seed);
      const found = dullReuse(layout, promptTokens, ends);
      const alignment = layout.isFine
        ? layout.hashBlockSizeTokens
        : layout.schedulerBlockSizeTokens;
      const isOdd = layout.groups.some((group) => group.chunkTokens % group.blockSizeTokens !== 0);
      expect(isOdd || found % alignment === 0, `seed ${seed}`).toBe(true);
      expect(found === 0 || found > layout.replayTokens, `seed ${seed}`).toBe(true);
      expect(found === 0 || found < promptTokens, `seed ${seed}`).toBe(true);
    }
  });

  test("an empty group that needs entries makes every answer 0", () => {
    for (const seed of lawSeeds.slice(0, 2_000)) {
      const { layout, promptTokens, ends } = randomCache(seed);
      layout.groups.forEach((group, emptied) => {
        if (group.rule === "chunked_local") return;
        const without = ends.map((set, at) => (at === emptied ? new Set<number>() : set));
        expect(dullReuse(layout, promptTokens, without), `seed ${seed}`).toBe(0);
      });
    }
  });

  test("ends beyond the prompt's last hash change nothing", () => {
    for (const seed of lawSeeds.slice(0, 5_000)) {
      const { layout, promptTokens, ends } = randomCache(seed);
      const cut = ends.map((set) => new Set([...set].filter((end) => end <= promptTokens)));
      const found = dullReuse(layout, promptTokens, ends);
      expect(dullReuse(layout, promptTokens, cut), `seed ${seed}`).toBe(found);
    }
  });

  test("it is defined on layouts that no engine has", () => {
    const { layout, ends } = parseScenario("F4:4..16 + M4:4..16");
    expect(dullReuse({ ...layout, groups: [] }, 17, [])).toBe(0);
    expect(dullReuse(layout, -3, ends)).toBe(0);
    expect(dullReuse(layout, 17, [])).toBe(0);
    expect(dullReuse({ ...layout, coordinator: "unitary" }, 17, ends)).toBe(16);
    const chunk = parseScenario("C4/8:{}").layout.groups.map((at) => ({ ...at, chunkTokens: 0 }));
    expect(dullReuse({ ...layout, groups: chunk }, 17, [])).toBe(0);
  });
});

describe("which lookups count as a drop", () => {
  // vLLM marks a recurrent class as affected too when every group is. Its finder drops nothing, but
  // its first lookup counts as the drop: it does not make the others drop again. Layouts say
  // "never" for mamba today, so the generator leaves the mark off; the twin knows both.
  test("a marked recurrent class does not send the window class back to drop again", () => {
    const { layout, ends } = parseScenario("S16/2:{16,48,64} + M16:{16}", { drops: [0] });
    const groups = layout.groups.map((group) => ({ ...group, dropsBlock: true }));
    expect(dullReuse(layout, 71, ends)).toBe(0);
    expect(dullReuse({ ...layout, groups }, 71, ends)).toBe(16);
  });
});

describe("the generator keeps its promises", () => {
  const caches = lawSeeds.map(randomCache);
  const share = (claim: (at: (typeof caches)[number]) => boolean): number =>
    caches.filter(claim).length / caches.length;

  test("one seed gives one cache", () => {
    expect(randomCache(4711)).toEqual(randomCache(4711));
  });

  test("at least four caches in ten give a positive answer", () => {
    const positive = share((at) => dullReuse(at.layout, at.promptTokens, at.ends) > 0);
    expect(positive).toBeGreaterThan(0.4);
  });

  test("every rule, mode and count of groups is common", () => {
    for (const count of [1, 2, 3, 4, 5]) {
      expect(share(({ layout }) => layout.groups.length === count)).toBeGreaterThan(0.04);
    }
    for (const rule of ["full", "sliding_window", "mamba", "chunked_local"]) {
      const isThere = share(({ layout }) => layout.groups.some((group) => group.rule === rule));
      expect(isThere, rule).toBeGreaterThan(0.08);
    }
    expect(share(({ layout }) => layout.isFine)).toBeGreaterThan(0.1);
    expect(share(({ layout }) => layout.lookaheadTokens > 0)).toBeGreaterThan(0.1);
    expect(share(({ layout }) => layout.groups.some((at) => at.dropsBlock))).toBeGreaterThan(0.2);
    expect(share(({ layout }) => layout.replayTokens > 0)).toBeGreaterThan(0.03);
  });

  test("every end is a multiple of the hash unit, every block size too", () => {
    for (const { layout, ends, seed } of caches) {
      const unit = layout.hashBlockSizeTokens;
      const sizes = layout.groups.map((group) => group.blockSizeTokens);
      const isOnGrid = [...ends.flatMap((set) => [...set]), ...sizes].every(
        (at) => at % unit === 0,
      );
      expect(isOnGrid, `seed ${seed}`).toBe(true);
    }
  });
});

describe("the dull index is a set of entries per rank, group and medium", () => {
  const promptKeyAt = (position: number): string => "a".repeat(position);
  const storeAll = (index: DullIndex, rank: number, groupId: number, ends: number[]): void => {
    for (const end of ends) index.store(rank, groupId, "GPU", promptKeyAt(end), end);
  };

  test("a repeated store needs one removal, an absent removal does nothing", () => {
    const index = new DullIndex();
    const rank = index.addRank(parseScenario("F4:{}").layout);
    storeAll(index, rank, 0, [4, 8, 8]);
    index.remove(rank, 0, "GPU", promptKeyAt(12));
    index.remove(rank, 1, "GPU", promptKeyAt(8));
    index.remove(rank, 0, "CPU", promptKeyAt(8));
    expect(index.score(promptKeyAt, 9).get(rank)).toBe(8);
    index.remove(rank, 0, "GPU", promptKeyAt(8));
    expect(index.score(promptKeyAt, 9).get(rank)).toBe(4);
  });

  test("equal keys in two groups stand apart, and a clear of one leaves the other", () => {
    const index = new DullIndex();
    const rank = index.addRank(parseScenario("F4:{} + S4/5:{}").layout);
    for (const groupId of [0, 1]) storeAll(index, rank, groupId, [4, 8]);
    index.remove(rank, 1, "GPU", promptKeyAt(4));
    expect(index.score(promptKeyAt, 9).get(rank)).toBe(8);
    index.clear(rank, 1);
    expect(index.score(promptKeyAt, 9).get(rank)).toBe(0);
    storeAll(index, rank, 1, [8]);
    expect(index.score(promptKeyAt, 9).get(rank)).toBe(8);
  });

  test("a block with look-ahead matches only a prompt that agrees on the tokens after it", () => {
    const index = new DullIndex();
    const rank = index.addRank(parseScenario("F4:{}", { lookaheadTokens: 1 }).layout);
    index.store(rank, 0, "GPU", promptKeyAt(5), 4);
    const other = (position: number): string => "aaaab".slice(0, position);
    expect(index.score(promptKeyAt, 5).get(rank)).toBe(4);
    expect(index.score(other, 5).get(rank)).toBe(0);
  });

  test("a retired rank has no score and takes no store", () => {
    const index = new DullIndex();
    const rank = index.addRank(parseScenario("F4:{}").layout);
    index.retireRank(rank);
    storeAll(index, rank, 0, [4]);
    expect(index.score(promptKeyAt, 9).size).toBe(0);
    expect(index.addRank(parseScenario("F4:{}").layout)).not.toBe(rank);
  });
});

describe("the bench agrees with the judge about the judge", () => {
  test("the dull twin never disagrees with itself, and a thrower is reported", () => {
    expect(compareReuse(dullReuse, [1, 2], 500)).toBeUndefined();
    expect(compareIndex(() => new DullIndex(), 1, 20)).toBeUndefined();
    const thrown = compareReuse(
      () => {
        throw new RangeError("no");
      },
      [1],
      1,
    );
    expect(thrown?.actual).toBe("RangeError: no");
    expect(thrown?.seed === undefined ? "" : randomCache(thrown.seed).promptTokens).toBe(
      thrown?.promptTokens,
    );
  });
});
