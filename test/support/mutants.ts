/**
 * What it is: planted mutants of the dull twins, each breaking one rule. A judge that cannot tell
 * them from the real one judges nothing.
 * Owns: nothing. Refuses: nothing.
 * Does not do: copy the twins; a mutant is a switched rule or a twisted argument.
 */

import type { GroupLayout, RankLayout } from "../../src/prefix-index/layout.ts";
import { contractRules, DullIndex, type IndexRules } from "./dull-index.ts";
import { type DullRules, dullReuse, engineRules, type ReuseFunction } from "./dull-reuse.ts";
import { deriveDefaults } from "./scenario-layout.ts";

/** A computation of reuse with one rule broken; the name says which. */
export interface ReuseMutant {
  readonly name: string;
  readonly reuse: ReuseFunction;
}

/** An index with one rule broken; the name says which. */
export interface IndexMutant {
  readonly name: string;
  readonly create: () => DullIndex;
}

function broken(name: string, rules: Partial<DullRules>): ReuseMutant {
  const mutated = { ...engineRules, ...rules };
  return { name, reuse: (layout, tokens, ends) => dullReuse(layout, tokens, ends, mutated) };
}

function twisted(name: string, twist: (layout: RankLayout) => RankLayout): ReuseMutant {
  return { name, reuse: (layout, tokens, ends) => dullReuse(twist(layout), tokens, ends) };
}

function withGroups(
  layout: RankLayout,
  change: (group: GroupLayout) => Partial<GroupLayout>,
): RankLayout {
  return { ...layout, groups: layout.groups.map((group) => ({ ...group, ...change(group) })) };
}

function asHybrid(layout: RankLayout): RankLayout {
  return { ...layout, coordinator: "hybrid" };
}

/** Mutants of `dullReuse`. */
export const reuseMutants: readonly ReuseMutant[] = [
  {
    name: "ignores the last group",
    reuse: (layout, tokens, ends) => {
      const kept = Math.max(1, layout.groups.length - 1);
      return dullReuse({ ...layout, groups: layout.groups.slice(0, kept) }, tokens, ends);
    },
  },
  broken("asks for a window one block short", { windowErrorBlocks: -1 }),
  broken("asks for a window one block too long", { windowErrorBlocks: 1 }),
  twisted("rounds the window down to whole blocks", (layout) =>
    withGroups(layout, ({ windowTokens, blockSizeTokens }) => ({
      windowTokens:
        Math.floor(Math.max(0, windowTokens - 1) / blockSizeTokens) * blockSizeTokens + 1,
    })),
  ),
  broken("refuses a short run from the root", { acceptsShortRuns: false }),
  broken("forgets the alignment to S", { alignsHits: false }),
  broken("forgets the bound n - 1", { keepsLastToken: false }),
  twisted("never drops a block", (layout) => withGroups(layout, () => ({ dropsBlock: false }))),
  twisted("drops from n - 1 instead of the last hash", (layout) => ({
    ...layout,
    eagleBound: "last_token",
  })),
  twisted("drops from the last hash although the engine is old", (layout) => ({
    ...layout,
    eagleBound: "hash_end",
  })),
  twisted("lets a single group look past the bound", asHybrid),
  broken("drops in every pass", { drops: "always" }),
  broken("never drops again after a fall", { drops: "once" }),
  twisted("is never fine", (layout) => ({ ...layout, isFine: false })),
  twisted("is always fine", (layout) => ({ ...layout, isFine: true })),
  broken("never extends a prefix into a block", { extendsPartially: false }),
  twisted("treats chunked local as full", (layout) =>
    withGroups(layout, ({ rule }) => (rule === "chunked_local" ? { rule: "full" } : {})),
  ),
  broken("lets a state serve any earlier position", { needsExactState: false }),
  twisted("ignores look-ahead hashes", (layout) => ({
    ...withGroups(layout, () => (layout.lookaheadTokens > 0 ? { dropsBlock: false } : {})),
    lookaheadTokens: 0,
  })),
  {
    name: "drops although the hashes look ahead",
    reuse: (layout, tokens, ends) => {
      const hashEnd = tokens - layout.lookaheadTokens;
      const held = ends.map((set) => new Set([...set].filter((end) => end <= hashEnd)));
      return dullReuse({ ...layout, lookaheadTokens: 0 }, tokens, held);
    },
  },
  twisted("leaves private groups out of S", (layout) => ({
    ...layout,
    schedulerBlockSizeTokens: deriveDefaults(layout.groups, []).schedulerBlockSizeTokens,
  })),
  twisted("ignores the replay window", (layout) => ({ ...layout, replayTokens: 0 })),
  twisted("counts an answer that equals the replay window", (layout) => ({
    ...layout,
    replayTokens: Math.max(0, layout.replayTokens - 1),
  })),
  broken("takes the best group's answer", { combines: "best" }),
  broken("takes the least of the groups' own answers", { combines: "lowest" }),
  broken("stops after one pass", { combines: "one_pass" }),
  broken("makes a second pass over a simple hybrid", { stopsSimpleHybrid: false }),
  broken("keeps full groups in their place", { putsFullFirst: false }),
  broken("searches full groups in every pass", { searchesFullOnce: false }),
  broken("steps over holes in a full group", { stopsAtHoles: false }),
  broken("unites equal groups instead of intersecting them", { intersectsMembers: false }),
  twisted("looks equal groups up one by one", (layout) => ({
    ...layout,
    groups: layout.groups.map((group, position) => ({ ...group, specClass: position })),
  })),
];

function brokenIndex(name: string, rules: Partial<IndexRules>): IndexMutant {
  return { name, create: () => new DullIndex({ ...contractRules, ...rules }) };
}

/** Mutants of `DullIndex`. */
export const indexMutants: readonly IndexMutant[] = [
  brokenIndex("drops every third removal", { forgetsEveryThirdRemoval: true }),
  brokenIndex("removes from all groups what one group lost", { removesInAllGroups: true }),
  brokenIndex("removes from all media what one medium lost", { removesInAllMedia: true }),
  brokenIndex("ignores clears", { ignoresClears: true }),
  brokenIndex("clears all groups when one is cleared", { clearsAllGroups: true }),
  brokenIndex("scores what lies in other media", { scoresAllMedia: true }),
  brokenIndex("matches look-ahead blocks by their own end", { looksAheadInKeys: false }),
  brokenIndex("keeps retired ranks", { forgetsRetirement: true }),
];
