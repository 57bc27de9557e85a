/**
 * What it is: the dull twin of the prefix index: ranks, what each of their groups holds in each
 * medium, and the score of a prompt for every rank. Maps and loops, written from the contract.
 * Owns: per rank one set of entries for every (group, medium). An entry is a prefix key with its
 * end; storing it again or removing what is absent changes nothing.
 * Refuses: silently, everything addressed to a rank that does not exist or was retired, and a store
 * of a key that the same group and medium already hold at another end (one key has one place).
 * Does not do: count copies, bound memory, order anything. `IndexRules` plants mutants; the default
 * breaks no rule.
 */

import type { RankLayout } from "../../src/prefix-index/layout.ts";
import { dullReuse, type ReuseFunction } from "./dull-reuse.ts";

/** The only medium whose entries count for a score. */
export const scoringMedium = "GPU";

/** One switch per rule of the index. */
export interface IndexRules {
  readonly reuse: ReuseFunction;
  readonly forgetsEveryThirdRemoval: boolean;
  readonly removesInAllGroups: boolean;
  readonly removesInAllMedia: boolean;
  readonly ignoresClears: boolean;
  readonly clearsAllGroups: boolean;
  readonly scoresAllMedia: boolean;
  readonly looksAheadInKeys: boolean;
  readonly forgetsRetirement: boolean;
}

/** The rules of the contract. */
export const contractRules: IndexRules = {
  reuse: dullReuse,
  forgetsEveryThirdRemoval: false,
  removesInAllGroups: false,
  removesInAllMedia: false,
  ignoresClears: false,
  clearsAllGroups: false,
  scoresAllMedia: false,
  looksAheadInKeys: true,
  forgetsRetirement: false,
};

/** Keys that are told together. */
export interface KeyRun {
  readonly keys: readonly string[];
  readonly firstEndTokens: number;
  readonly stepTokens: number;
  readonly parent: string | undefined;
}

/** What an index must offer to be compared with `DullIndex`; rank ids are its own. */
export interface ComparableIndex {
  addRank(layout: RankLayout): number;
  setLayout(rank: number, layout: RankLayout): void;
  retireRank(rank: number): void;
  store(rank: number, groupId: number, medium: string, key: string, endTokens: number): void;
  /**
   * As `store` for keys that end at firstEndTokens, firstEndTokens + stepTokens ... `parent`: the key
   * a step before, if it is told; a hint without meaning.
   */
  storeRun(rank: number, groupId: number, medium: string, run: KeyRun): void;
  remove(rank: number, groupId: number, medium: string, key: string): void;
  clear(rank: number, groupId?: number, medium?: string): void;
  score(
    promptKeyAt: (positionTokens: number) => string,
    promptTokens: number,
  ): ReadonlyMap<number, number>;
}

interface Rank {
  layout: RankLayout;
  /** Entries of one group in one medium: key to end. */
  readonly caches: Map<string, Cache>;
}

interface Cache {
  readonly groupId: number;
  readonly medium: string;
  readonly ends: Map<string, number>;
}

/** See the file header. Ids of retired ranks are not used again. */
export class DullIndex implements ComparableIndex {
  readonly #rules: IndexRules;
  readonly #ranks = new Map<number, Rank>();
  #nextRank = 0;
  #removalCount = 0;

  constructor(rules: IndexRules = contractRules) {
    this.#rules = rules;
  }

  /** Adds an empty rank and returns its id. */
  addRank(layout: RankLayout): number {
    const rank = this.#nextRank;
    this.#nextRank += 1;
    this.#ranks.set(rank, { layout, caches: new Map() });
    return rank;
  }

  /** Replaces the engine facts; the entries stay, also those of groups no longer listed. */
  setLayout(rank: number, layout: RankLayout): void {
    const found = this.#ranks.get(rank);
    if (found !== undefined) found.layout = layout;
  }

  /** Forgets the rank and everything it holds. */
  retireRank(rank: number): void {
    if (!this.#rules.forgetsRetirement) this.#ranks.delete(rank);
  }

  /** The group holds, in this medium, the block of `key`, which ends at `endTokens`. */
  store(rank: number, groupId: number, medium: string, key: string, endTokens: number): void {
    const caches = this.#ranks.get(rank)?.caches;
    if (caches === undefined) return;
    const name = `${groupId} ${medium}`;
    const cache = caches.get(name) ?? { groupId, medium, ends: new Map<string, number>() };
    caches.set(name, cache);
    if (!cache.ends.has(key)) cache.ends.set(key, endTokens);
  }

  /** See `ComparableIndex`. */
  storeRun(rank: number, groupId: number, medium: string, run: KeyRun): void {
    for (const [i, key] of run.keys.entries()) {
      this.store(rank, groupId, medium, key, run.firstEndTokens + i * run.stepTokens);
    }
  }

  /** The group no longer holds the block of `key` in this medium. */
  remove(rank: number, groupId: number, medium: string, key: string): void {
    this.#removalCount += 1;
    if (this.#rules.forgetsEveryThirdRemoval && this.#removalCount % 3 === 0) return;
    for (const cache of this.#ranks.get(rank)?.caches.values() ?? []) {
      const isGroup = this.#rules.removesInAllGroups || cache.groupId === groupId;
      const isMedium = this.#rules.removesInAllMedia || cache.medium === medium;
      if (isGroup && isMedium) cache.ends.delete(key);
    }
  }

  /** Empties one group or all, in one medium or all. The rank stays, and so do its groups. */
  clear(rank: number, groupId?: number, medium?: string): void {
    if (this.#rules.ignoresClears) return;
    for (const cache of this.#ranks.get(rank)?.caches.values() ?? []) {
      const isGroup =
        this.#rules.clearsAllGroups || groupId === undefined || cache.groupId === groupId;
      const isMedium = medium === undefined || cache.medium === medium;
      if (isGroup && isMedium) cache.ends.clear();
    }
  }

  /**
   * Reusable tokens for every rank that exists, 0 included. `promptKeyAt(p)` is the prefix key after
   * the prompt's first p tokens; it is asked for 1 <= p <= promptTokens only.
   */
  score(
    promptKeyAt: (positionTokens: number) => string,
    promptTokens: number,
  ): ReadonlyMap<number, number> {
    const scores = new Map<number, number>();
    for (const [rank, { layout, caches }] of this.#ranks) {
      const ends = layout.groups.map((group) => {
        const held = [...caches.values()].filter((cache) => cache.groupId === group.groupId);
        const counting = held.filter(
          (cache) => this.#rules.scoresAllMedia || cache.medium === scoringMedium,
        );
        return this.#matchingEnds(counting, layout.lookaheadTokens, promptKeyAt, promptTokens);
      });
      scores.set(rank, this.#rules.reuse(layout, promptTokens, ends));
    }
    return scores;
  }

  /** The block ending at e is the prompt's when its key is the prompt's key after e + L tokens. */
  #matchingEnds(
    caches: readonly Cache[],
    lookaheadTokens: number,
    promptKeyAt: (positionTokens: number) => string,
    promptTokens: number,
  ): Set<number> {
    const matching = new Set<number>();
    const ahead = this.#rules.looksAheadInKeys ? lookaheadTokens : 0;
    for (const cache of caches) {
      for (const [key, end] of cache.ends) {
        const position = end + ahead;
        if (end < 1 || position > promptTokens) continue;
        if (promptKeyAt(position) === key) matching.add(end);
      }
    }
    return matching;
  }
}
