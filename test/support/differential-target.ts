/**
 * What it is: the judge's bench. `compareReuse` holds a computation of reuse against the dull twin,
 * `compareIndex` a whole index against the dull index, both on seeded random input.
 * Owns: nothing between calls.
 * Refuses: nothing. A candidate that throws disagrees; what it threw is part of the report.
 * Does not do: shrink. Every report carries one seed that brings back the same case.
 *
 * A test is three lines:
 *   const found = compareReuse(candidate, [1, 2, 3], 20_000);
 *   expect(found).toBeUndefined();
 */

import type { RankLayout } from "../../src/prefix-index/layout.ts";
import { type ComparableIndex, DullIndex, type KeyRun, scoringMedium } from "./dull-index.ts";
import { dullReuse, type ReuseFunction } from "./dull-reuse.ts";
import { Dice, randomCache, randomLayout } from "./random-caches.ts";

/** The first cache on which a candidate and the dull twin differ. */
export interface ReuseDisagreement {
  /** `randomCache(seed)` is this case. */
  readonly seed: number;
  /** How many caches were tried, this one included. */
  readonly triedCount: number;
  readonly layout: RankLayout;
  readonly ends: readonly (readonly number[])[];
  readonly promptTokens: number;
  readonly expectedTokens: number;
  /** The candidate's answer, or the text of what it threw. */
  readonly actual: number | string;
  /** The case in the notation of the scenario tables. */
  readonly notation: string;
}

/** Tries `count` caches for each of `seeds`; undefined when the candidate always agrees. */
export function compareReuse(
  candidate: ReuseFunction,
  seeds: readonly number[],
  count: number,
): ReuseDisagreement | undefined {
  let triedCount = 0;
  for (const first of seeds) {
    for (let step = 0; step < count; step += 1) {
      const seed = caseSeed(first, step);
      const { layout, promptTokens, ends } = randomCache(seed);
      const expectedTokens = dullReuse(layout, promptTokens, ends);
      const actual = outcome(() => candidate(layout, promptTokens, ends));
      triedCount += 1;
      if (actual === expectedTokens) continue;
      const held = ends.map((set) => [...set].sort((left, right) => left - right));
      const notation = describeCache(layout, promptTokens, held);
      const answers = { expectedTokens, actual, notation };
      return { seed, triedCount, layout, ends: held, promptTokens, ...answers };
    }
  }
  return undefined;
}

/** The first score on which an index and the dull index differ, with what led to it. */
export interface IndexDisagreement {
  /** Seed of the stream of operations. */
  readonly seed: number;
  /** How many streams were tried, this one included. */
  readonly triedCount: number;
  /** The operations up to the differing score, one line each. */
  readonly operations: readonly string[];
  readonly expected: string;
  readonly actual: string;
}

/** Runs `count` streams of operations, each on a fresh candidate, and compares every score. */
export function compareIndex(
  createCandidate: () => ComparableIndex,
  firstSeed: number,
  count: number,
): IndexDisagreement | undefined {
  for (let step = 0; step < count; step += 1) {
    const seed = caseSeed(firstSeed, step);
    const found = runStream(seed, createCandidate());
    if (found !== undefined) return { seed, triedCount: step + 1, ...found };
  }
  return undefined;
}

function caseSeed(first: number, step: number): number {
  return (Math.imul(first, 0x9e3779b1) + step) >>> 0;
}

function outcome(compute: () => number): number | string {
  try {
    return compute();
  } catch (error) {
    return String(error);
  }
}

const letters = { full: "F", sliding_window: "S", mamba: "M", chunked_local: "C" } as const;

function describeCache(
  layout: RankLayout,
  promptTokens: number,
  ends: readonly (readonly number[])[],
): string {
  const terms = layout.groups.map((group, position) => {
    const block = group.blockSizeTokens;
    const argument = group.windowTokens + group.chunkTokens;
    const name = `${letters[group.rule]}${block}${argument > 0 ? `/${argument}` : ""}`;
    const held = (ends[position] ?? []).map((end) => `${end}${end % block === 0 ? "" : "p"}`);
    return `${name}#${group.specClass}${group.dropsBlock ? "-drop" : ""}:{${held.join(",")}}`;
  });
  const mode = layout.isFine ? "fine" : "aligned";
  return [
    `n ${promptTokens}: ${terms.join(" + ")}, ${layout.coordinator} ${mode}`,
    `S ${layout.schedulerBlockSizeTokens}, H ${layout.hashBlockSizeTokens}`,
    `L ${layout.lookaheadTokens}, R ${layout.replayTokens}, ${layout.eagleBound}`,
  ].join(", ");
}

/** Prompts share prefixes: each is the common one with its tokens replaced from some point on. */
function drawPrompts(dice: Dice): string[] {
  const common = "a".repeat(110);
  const branch = (letter: string): string => {
    const shared = dice.int(0, 60);
    return common.slice(0, shared) + letter.repeat(110 - shared);
  };
  return [common, branch("b"), branch("c")];
}

interface Stored {
  readonly rank: number;
  readonly groupId: number;
  readonly medium: string;
  readonly key: string;
}

/** Ranks live in slots; each side has its own id for the rank in a slot. */
interface Slot {
  readonly dull: number;
  readonly candidate: number;
  layout: RankLayout;
}

function runStream(
  seed: number,
  candidate: ComparableIndex,
): Pick<IndexDisagreement, "operations" | "expected" | "actual"> | undefined {
  const dice = new Dice(seed);
  const dull = new DullIndex();
  const prompts = drawPrompts(dice);
  const slots: Slot[] = [];
  const stored: Stored[] = [];
  const operations: string[] = [];
  const addRank = (slot: number): void => {
    const layout = randomLayout(dice.int(0, 0xffffffff));
    slots[slot] = { layout, dull: dull.addRank(layout), candidate: candidate.addRank(layout) };
    operations.push(`rank ${slot} = ${describeCache(layout, 0, [])}`);
  };
  const each = (slot: Slot, act: (index: ComparableIndex, rank: number) => void): void => {
    act(dull, slot.dull);
    act(candidate, slot.candidate);
  };
  for (let slot = 0; slot < 2; slot += 1) addRank(slot);
  for (let step = 0; step < 40; step += 1) {
    const number = dice.int(0, slots.length - 1);
    const slot = slots[number];
    if (slot === undefined) continue;
    const { groupId } = dice.pick(slot.layout.groups);
    const medium = dice.chance(0.85) ? scoringMedium : "CPU";
    const roll = dice.int(0, 99);
    if (roll < 30) {
      const prompt = dice.pick(prompts);
      for (const [position, group] of slot.layout.groups.entries()) {
        if (!dice.chance(position === 0 ? 0.9 : 0.5)) continue;
        const runs = randomRunsOf(dice, slot.layout, group.blockSizeTokens, prompt);
        for (const run of runs) {
          each(slot, (index, rank) => index.storeRun(rank, group.groupId, medium, run));
          for (const key of run.keys) {
            stored.push({ rank: number, groupId: group.groupId, medium, key });
          }
          const ends = `${run.firstEndTokens} + ${run.stepTokens} x ${run.keys.length}`;
          const hint = run.parent === undefined ? "" : " with a parent";
          operations.push(`run ${number} ${group.groupId} ${medium} ${ends}${hint} of ${prompt}`);
        }
      }
    } else if (roll < 60) {
      const prompt = dice.pick(prompts);
      const cache = randomCacheOf(dice, slot.layout);
      slot.layout.groups.forEach((group, position) => {
        for (const end of cache[position] ?? []) {
          const key = prompt.slice(0, end + slot.layout.lookaheadTokens);
          each(slot, (index, rank) => index.store(rank, group.groupId, medium, key, end));
          stored.push({ rank: number, groupId: group.groupId, medium, key });
        }
      });
      operations.push(`store ${number} ${medium} ${JSON.stringify(cache)} of ${prompt}`);
    } else if (roll < 70 && stored.length > 0) {
      // A stretch of what was stored lately, in order or thinned out: holes and cut ends.
      const from = dice.int(Math.max(0, stored.length - 60), stored.length - 1);
      const share = dice.pick([0.1, 0.5, 1]);
      const gone = stored.slice(from, from + dice.int(1, 30)).filter(() => dice.chance(share));
      for (const entry of dice.chance(0.5) ? gone : gone.reverse()) {
        const owner = slots[entry.rank];
        if (owner === undefined) continue;
        each(owner, (index, rank) => index.remove(rank, entry.groupId, entry.medium, entry.key));
        operations.push(`remove ${entry.rank} ${entry.groupId} ${entry.medium} ${entry.key}`);
      }
    } else if (roll < 88 && stored.length > 0) {
      const entry = dice.pick(stored);
      const owner = slots[entry.rank];
      const at = dice.chance(0.8) ? entry.medium : medium;
      if (owner !== undefined) {
        each(owner, (index, rank) => index.remove(rank, entry.groupId, at, entry.key));
      }
      operations.push(`remove ${entry.rank} ${entry.groupId} ${at} ${entry.key}`);
    } else if (roll < 95) {
      const group = dice.chance(0.6) ? groupId : undefined;
      const where = dice.chance(0.5) ? medium : undefined;
      each(slot, (index, rank) => index.clear(rank, group, where));
      operations.push(`clear ${number} ${group ?? "all groups"} ${where ?? "all media"}`);
    } else if (roll < 97) {
      // The same groups under another bound: an engine description may be corrected while running.
      slot.layout = { ...slot.layout, replayTokens: dice.pick([0, 8]) };
      each(slot, (index, rank) => index.setLayout(rank, slot.layout));
      operations.push(`layout ${number} R ${slot.layout.replayTokens}`);
    } else {
      each(slot, (index, rank) => index.retireRank(rank));
      operations.push(`retire ${number}`);
      addRank(number);
    }
    const prompt = dice.pick(prompts);
    const promptTokens = dice.int(0, 100);
    const expected = scoresOf(dull, slots, "dull", prompt, promptTokens);
    const actual = scoresOf(candidate, slots, "candidate", prompt, promptTokens);
    if (expected === actual) continue;
    operations.push(`score ${promptTokens} tokens of ${prompt}`);
    return { operations, expected, actual };
  }
  return undefined;
}

/** Runs of one group of a prompt: one after the other as an engine stores them, or any piece. */
function randomRunsOf(dice: Dice, layout: RankLayout, block: number, prompt: string): KeyRun[] {
  const { lookaheadTokens } = layout;
  const keyAt = (end: number): string => prompt.slice(0, end + lookaheadTokens);
  const step = dice.chance(0.85) ? block : block * dice.pick([2, 3, 4]);
  const last = dice.int(1, 100);
  const runs: KeyRun[] = [];
  let end = dice.chance(0.6) ? step : step * dice.int(1, Math.max(1, Math.floor(last / step)));
  while (end <= last && end + lookaheadTokens <= prompt.length) {
    const most = Math.floor((Math.min(last, prompt.length - lookaheadTokens) - end) / step) + 1;
    const count = dice.chance(0.5) ? most : dice.int(1, most);
    const keys = Array.from({ length: count }, (_, i) => keyAt(end + i * step));
    const isTold = end > step && dice.chance(0.8);
    const parent = isTold ? keyAt(end - step) : undefined;
    runs.push({ keys, firstEndTokens: end, stepTokens: step, parent });
    end += count * step;
    if (dice.chance(0.2)) end += step;
  }
  return runs;
}

function randomCacheOf(dice: Dice, layout: RankLayout): number[][] {
  const { length } = layout.groups;
  const reach = dice.int(1, 100);
  const density = dice.pick([0.3, 0.9, 1, 1]);
  const chosen = dice.chance(0.6) ? -1 : dice.int(0, length - 1);
  return layout.groups.map((group, position) => {
    const ends: number[] = [];
    if (chosen >= 0 && chosen !== position) return ends;
    for (let end = group.blockSizeTokens; end <= reach; end += group.blockSizeTokens) {
      if (dice.chance(density)) ends.push(end);
    }
    return ends;
  });
}

function scoresOf(
  index: ComparableIndex,
  slots: readonly Slot[],
  side: "dull" | "candidate",
  prompt: string,
  promptTokens: number,
): string {
  try {
    const scores = index.score((position) => prompt.slice(0, position), promptTokens);
    const known = slots.map((slot) => scores.get(slot[side]) ?? "none");
    return `${known.join(" ")} of ${scores.size} ranks`;
  } catch (error) {
    return String(error);
  }
}
