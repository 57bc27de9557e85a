/**
 * What it is: seeded random layouts, cached ends and prompt lengths for comparing two computations
 * of reuse. One 32-bit seed gives one cache, always the same.
 * Owns: the small generator (mulberry32) behind it.
 * Refuses: nothing. Every layout is one that an engine can have: chunked local has b = A and no
 * EAGLE, fine mode is as §3.3 says, a marked mamba group keeps its mark, equal spec classes are equal specs.
 * Does not do: shrink, or remember anything between calls.
 *
 * Plain random ends almost never agree between groups, so most caches are built around a position
 * that every group is made to serve, and are then disturbed by extra and missing ends.
 */

import type { GroupLayout, RankLayout, ReuseRule } from "../../src/prefix-index/layout.ts";
import { deriveDefaults, type ScenarioCache } from "./scenario-layout.ts";

/** A cache and the prompt it is asked for. */
export interface RandomCache extends ScenarioCache {
  readonly seed: number;
  readonly promptTokens: number;
}

/** A small seeded source of choices. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `low` to `high`, both included; `low` when the range is empty. */
  int(low: number, high: number): number {
    return high <= low ? low : low + Math.floor(this.next() * (high - low + 1));
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of the items, which must not be none. */
  pick<T>(items: readonly T[]): T {
    const item = items[this.int(0, items.length - 1)];
    if (item === undefined) throw new RangeError("nothing to pick from");
    return item;
  }
}

const blockFamilies: readonly (readonly number[])[] = [
  [1],
  [2],
  [4],
  [4],
  [8],
  [16],
  [1, 2, 4],
  [2, 4],
  [2, 4, 8],
  [4, 8],
  [4, 8, 16],
  [8, 16],
  [2, 6],
  [4, 12],
  [6, 12],
  [4, 6, 12],
];
const groupCounts = [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 5];
const rules: readonly ReuseRule[] = ["full", "full", "sliding_window", "sliding_window", "mamba"];

/** The cache of a seed. */
export function randomCache(seed: number): RandomCache {
  const dice = new Dice(seed);
  const layout = drawLayout(dice);
  const alignment = alignmentOf(layout);
  let promptTokens = dice.int(0, 100);
  if (dice.chance(0.5)) {
    promptTokens = alignment * dice.int(1, Math.max(1, Math.floor(96 / alignment)));
    promptTokens = Math.min(100, promptTokens + dice.pick([0, 0, 1, 1, layout.lookaheadTokens, 2]));
  }
  const ends = drawEnds(dice, layout, promptTokens);
  return { seed, layout, promptTokens, ends };
}

/** The layout that `randomCache` of the same seed has. */
export function randomLayout(seed: number): RankLayout {
  return drawLayout(new Dice(seed));
}

function alignmentOf(layout: RankLayout): number {
  return layout.isFine ? layout.hashBlockSizeTokens : layout.schedulerBlockSizeTokens;
}

function drawLayout(dice: Dice): RankLayout {
  const family = dice.pick(blockFamilies);
  const method = dice.pick(["none", "none", "none", "drop", "drop", "mark", "look_ahead"] as const);
  const isChunkAllowed = method === "none" && dice.chance(0.3);
  const groups: GroupLayout[] = [];
  const count = dice.pick(groupCounts);
  while (groups.length < count) groups.push(drawGroup(dice, family, isChunkAllowed, groups));
  const isPlain = groups.every(({ rule }) => rule === "full" || rule === "mamba");
  const isContextParallel = count > 1 && isPlain && dice.chance(0.2);
  const privateSizes = dice.chance(0.25) ? [dice.pick([1, 2, 4, 6, 8, 12])] : [];
  const finest = deriveDefaults(groups, []).hashBlockSizeTokens;
  const divisors = [1, 2, 4, 8].filter((unit) => finest % unit === 0);
  const hasState = groups.some(({ rule }) => rule === "mamba");
  const options = {
    isContextParallel,
    ...(count > 1 || privateSizes.length > 0
      ? { H: dice.chance(hasState ? 0.7 : 0.15) ? dice.pick(divisors) : greatestCommon(groups) }
      : {}),
  };
  const fitted = fitChunks(dice, groups, privateSizes, options);
  const derived = deriveDefaults(fitted, privateSizes, options);
  const isMarked = new Map<number, boolean>();
  for (const { specClass } of fitted) {
    // In "look_ahead" the marks stay, as in the engine, and must have no effect.
    isMarked.set(specClass, method === "mark" ? dice.chance(0.5) : method !== "none");
  }
  const canDrop = ({ rule }: GroupLayout): boolean => rule !== "chunked_local";
  const hasReplay = privateSizes.length > 0 && dice.chance(0.3);
  return {
    groups: fitted.map((group) => ({
      ...group,
      dropsBlock: canDrop(group) && isMarked.get(group.specClass) === true,
    })),
    ...derived,
    lookaheadTokens: method === "look_ahead" ? dice.int(1, 3) : 0,
    eagleBound: dice.chance(0.7) ? "hash_end" : "last_token",
    replayTokens: hasReplay ? dice.pick([4, 7, 8, 12, 16, 31]) : 0,
  };
}

function greatestCommon(groups: readonly GroupLayout[]): number {
  // A private group beside them keeps the coordinator a hybrid one, where H is the gcd.
  return deriveDefaults(groups, [1]).hashBlockSizeTokens;
}

function drawGroup(
  dice: Dice,
  family: readonly number[],
  isChunkAllowed: boolean,
  earlier: readonly GroupLayout[],
): GroupLayout {
  const groupId = (earlier.at(-1)?.groupId ?? -1) + (dice.chance(0.15) ? 2 : 1);
  // Class numbers are not in group order, so that nobody relies on it.
  const freshClass = 7 - earlier.length;
  if (earlier.length > 0 && dice.chance(0.3)) {
    const twin = dice.pick(earlier);
    return { ...twin, groupId, specClass: dice.chance(0.7) ? twin.specClass : freshClass };
  }
  const rule = isChunkAllowed && dice.chance(0.5) ? "chunked_local" : dice.pick(rules);
  const block = dice.pick(family);
  const blocks = dice.int(1, 3) * block;
  const windows = [1, 2, blocks, blocks + 1, blocks + 2, 2 * dice.int(0, blocks) + 1];
  return {
    groupId,
    rule,
    blockSizeTokens: block,
    windowTokens: rule === "sliding_window" ? dice.pick(windows) : 0,
    chunkTokens: rule === "chunked_local" ? blocks : 0,
    specClass: freshClass,
    dropsBlock: false,
  };
}

/** Gives chunked groups the block size that their engine demands: that of the hit alignment. */
function fitChunks(
  dice: Dice,
  groups: readonly GroupLayout[],
  privateSizes: readonly number[],
  options: { readonly H?: number; readonly isContextParallel: boolean },
): GroupLayout[] {
  const isChunk = ({ rule }: GroupLayout): boolean => rule === "chunked_local";
  const derived = deriveDefaults(groups, privateSizes, options);
  const others = groups.filter((group) => !isChunk(group));
  const unit = derived.hashBlockSizeTokens;
  const isFine =
    others.length > 0 && deriveDefaults(others, [1, ...privateSizes], { H: unit }).isFine;
  const block = isFine ? unit : derived.schedulerBlockSizeTokens;
  // A chunk is whole blocks, save for a few: there the text rounds the chunk's start down.
  const oddTokens = dice.chance(0.25) ? 1 : 0;
  return groups.map((group) => {
    if (!isChunk(group)) return group;
    const blocks = group.chunkTokens / group.blockSizeTokens;
    return { ...group, blockSizeTokens: block, chunkTokens: blocks * block + oddTokens };
  });
}

function drawEnds(dice: Dice, layout: RankLayout, promptTokens: number): Set<number>[] {
  const alignment = alignmentOf(layout);
  const reach = promptTokens + dice.int(0, 2 * alignment);
  const lastAligned = Math.floor(Math.max(0, promptTokens - 1) / alignment);
  const nearest = dice.int(dice.chance(0.7) ? Math.floor(lastAligned / 2) : 0, lastAligned);
  const target = nearest * alignment;
  const style = dice.pick(["serve", "serve", "serve", "dense", "noise"] as const);
  const density = style === "noise" ? dice.next() : 0.9 + dice.next() / 10;
  const sets = layout.groups.map((group) => {
    if (style !== "serve") return drawNoise(dice, layout, group, reach, density);
    const set = servingEnds(dice, layout, group, target);
    if (dice.chance(0.5)) {
      const extra = drawNoise(dice, layout, group, reach, dice.next());
      for (const end of extra) if (end > target || dice.chance(0.5)) set.add(end);
    }
    return set;
  });
  if (dice.chance(0.35)) {
    const set = dice.pick(sets);
    if (set.size > 0) set.delete(dice.pick([...set]));
  }
  if (dice.chance(0.03)) dice.pick(sets).clear();
  return sets;
}

function drawNoise(
  dice: Dice,
  layout: RankLayout,
  group: GroupLayout,
  reach: number,
  density: number,
): Set<number> {
  const unit = layout.hashBlockSizeTokens;
  const block = group.blockSizeTokens;
  // Only these two register entries inside a block; they may do so without fine mode.
  const isPartialKind = group.rule === "full" || group.rule === "mamba";
  const partialDensity = isPartialKind && unit < block ? density * dice.pick([0, 0.1, 0.5]) : 0;
  const set = new Set<number>();
  for (let end = unit; end <= reach; end += unit) {
    if (dice.chance(end % block === 0 ? density : partialDensity)) set.add(end);
  }
  return set;
}

/** Ends with which the group accepts `target`, mostly with what a drop gives up after it. */
function servingEnds(
  dice: Dice,
  layout: RankLayout,
  group: GroupLayout,
  target: number,
): Set<number> {
  const block = group.blockSizeTokens;
  const set = new Set<number>();
  const last = Math.floor(target / block) * block;
  const needed = Math.max(1, Math.ceil((group.windowTokens - 1) / block));
  const isAfter = group.dropsBlock && dice.chance(0.75);
  switch (group.rule) {
    case "full":
      for (let end = block; end <= last; end += block) set.add(end);
      if (target > last) set.add(dice.chance(0.7) ? target : last + block);
      if (isAfter) set.add(layout.isFine ? target + layout.hashBlockSizeTokens : last + block);
      break;
    case "sliding_window":
      for (let back = 0; back < needed; back += 1) set.add(last - back * block);
      if (isAfter) set.add(last + block);
      break;
    case "mamba":
      set.add(target);
      break;
    case "chunked_local": {
      const start = Math.floor(target / group.chunkTokens) * group.chunkTokens;
      for (let end = block; end <= target; end += block) if (end > start) set.add(end);
      break;
    }
  }
  return new Set([...set].filter((end) => end > 0));
}
