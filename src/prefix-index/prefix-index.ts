/**
 * What it is: the index of one keyspace: which rank holds which prefix, in which groups and media.
 * Owns: nodes and ranks, kept in step: every entry is one offset of one record, counted once in its
 * rank and in its node; a node without an entry is freed; ceilings on nodes and entries of a rank.
 * Refuses: stores at a ceiling, of a key known at another position, or of an unknown group
 * (counted); handles of retired ranks and runs of impossible shape (our bugs: InvariantViolation).
 * Does not do: evict, count copies, know wire strings; only medium 0 is scored.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { auditIndex } from "./audit-index.ts";
import { Chains } from "./chains.ts";
import { checkRankLayout, MAX_POSITION_TOKENS } from "./check-rank-layout.ts";
import { Entries } from "./entries.ts";
import { MAX_NODES } from "./key-table.ts";
import type { RankLayout } from "./layout.ts";
import { emptyOutcome, type RemoveOutcome, type StoreOutcome } from "./outcomes.ts";
import { RankRoster } from "./rank-roster.ts";
import type { RankHandle } from "./rank-state.ts";
import { MEDIA_COUNT } from "./record.ts";
import type { GroupPositions, ScoreBuffer } from "./score-buffer.ts";
import { type PrefixKeyReader, ScoreWalk } from "./score-walk.ts";

/** In `clear`: every group, or every medium. */
export const ALL = -1;

/** Bounds of an index. */
export interface PrefixIndexLimits {
  /** Most nodes (distinct keys) of the index, 1 ... 2^28 - 1. */
  readonly maxNodes: number;
  /** Most entries (group, medium, key) of one rank. */
  readonly maxEntriesPerRank: number;
}

/** The index. One writer; a query changes nothing but scratch. */
export class PrefixIndex {
  private readonly roster = new RankRoster();
  private readonly chains: Chains;
  private readonly walk: ScoreWalk;
  private readonly entries: Entries;

  constructor(limits: PrefixIndexLimits) {
    invariant(limits.maxNodes >= 1 && limits.maxNodes <= MAX_NODES, "maxNodes is 1 ... 2^28 - 1");
    invariant(limits.maxEntriesPerRank >= 1, "maxEntriesPerRank is at least 1");
    this.chains = new Chains(limits.maxNodes, this.roster);
    this.entries = new Entries(this.chains, this.roster, limits.maxEntriesPerRank);
    this.walk = new ScoreWalk(this.chains, this.roster);
  }

  /**
   * Adds an empty rank. Without a layout its entries are kept (with look-ahead 0) but not scored.
   */
  addRank(layout: RankLayout | undefined): RankHandle {
    requireSound(layout);
    const state = this.roster.add();
    this.roster.setLayout(state, layout);
    return state.handle;
  }

  /**
   * Replaces a rank's layout. False, and nothing changed, when the rank holds entries that would
   * change their meaning: another look-ahead, another set of groups, or (coming from no layout) a
   * named group that the layout lacks. `clear` the rank first, then it takes any layout.
   */
  setLayout(rank: RankHandle, layout: RankLayout | undefined): boolean {
    const state = this.roster.live(rank);
    requireSound(layout);
    if (!state.accepts(layout)) return false;
    this.roster.setLayout(state, layout);
    return true;
  }

  /** Frees everything of a rank and its handle. False when the handle was retired before. */
  retireRank(rank: RankHandle): boolean {
    const state = this.roster.find(rank);
    if (state === undefined) return false;
    this.clear(rank, ALL, ALL);
    this.roster.remove(state);
    return true;
  }

  /**
   * Whether the handle's rank has not been retired. Every other method but `retireRank` requires
   * it.
   */
  isLive(rank: RankHandle): boolean {
    return this.roster.find(rank) !== undefined;
  }

  /**
   * Stores a run of one group in one medium: key i (8 bytes little-endian at 8 * i) ends at
   * firstEndTokens + i * stepTokens. In a rank with look-ahead L the key is that of the prompt's
   * first end + L tokens. `parentKey`: the key a step before the first one, 8 bytes or none; a
   * hint that keeps runs together and changes no answer.
   */
  storeRun(
    rank: RankHandle,
    groupId: number,
    mediumId: number,
    keys: Uint8Array,
    firstEndTokens: number,
    stepTokens: number,
    parentKey?: Uint8Array,
  ): StoreOutcome {
    const state = this.roster.live(rank);
    const count = keyCount(keys);
    invariant(isMedium(mediumId), "a medium id is 0 ... 15");
    invariant(isTokenCount(firstEndTokens) && isTokenCount(stepTokens), "ends and steps are > 0");
    const outcome = emptyOutcome();
    if (count === 0) return outcome;
    const hint = parentKey === undefined || parentKey.length === 0 ? undefined : parentKey;
    invariant(hint === undefined || hint.length === 8, "a parent key is 8 bytes, or none");
    const firstPositionTokens = firstEndTokens + state.lookaheadTokens;
    const lastPositionTokens = firstPositionTokens + (count - 1) * stepTokens;
    const bit = lastPositionTokens > MAX_POSITION_TOKENS ? -2 : state.bitForStore(groupId);
    if (bit === -2) outcome.refusedPosition = count;
    else if (bit === -1) outcome.refusedGroup = count;
    else {
      // A step beyond every position is one of a single key.
      const step = Math.min(stepTokens, MAX_POSITION_TOKENS);
      const run = { keys, firstPositionTokens, stepTokens: step, parentKey: hint };
      this.entries.store(state, bit, mediumId, run, outcome);
    }
    return outcome;
  }

  /** Removes keys of one group in one medium, wherever they end. */
  removeKeys(rank: RankHandle, groupId: number, mediumId: number, keys: Uint8Array): RemoveOutcome {
    const state = this.roster.live(rank);
    const count = keyCount(keys);
    invariant(isMedium(mediumId), "a medium id is 0 ... 15");
    const bit = state.bitOf(groupId);
    const removed = bit === -1 ? 0 : this.entries.remove(state, bit, mediumId, keys);
    return { removed, absent: count - removed };
  }

  /** Removes all entries of a scope; returns how many. ALL stands for every group or medium. */
  clear(rank: RankHandle, groupId: number, mediumId: number): number {
    const state = this.roster.live(rank);
    invariant(mediumId === ALL || isMedium(mediumId), "a medium id is 0 ... 15, or ALL");
    const bit = groupId === ALL ? -1 : state.bitOf(groupId);
    if (groupId !== ALL && bit === -1) return 0;
    // Entries are found by going through the rank's chains: not for a scope that holds none.
    if (groupId !== ALL && this.groupEntryCount(rank, groupId, mediumId) === 0) return 0;
    return this.entries.clear(state, groupId === ALL ? -1 : 1 << bit, mediumId);
  }

  /**
   * Scores all live ranks in one walk: positions e + L of every distinct (hash unit, look-ahead) of
   * the ranks, ascending, each at most once and none beyond `promptTokens`. It stops when no rank
   * can gain any more: beyond every unbroken chain of full blocks by a block and the widest block.
   */
  score(reader: PrefixKeyReader, promptTokens: number, out: ScoreBuffer): void {
    this.walk.score(reader, promptTokens, out);
  }

  /**
   * One rank's answer and each group's own largest position. Walks the whole prompt on the rank's
   * grid, with a reader of its own. False, and `out` is untouched, when the rank has no layout.
   */
  explain(
    rank: RankHandle,
    reader: PrefixKeyReader,
    promptTokens: number,
    out: GroupPositions,
  ): boolean {
    const state = this.roster.live(rank);
    if (state.layout === undefined) return false;
    this.walk.explain(state, reader, promptTokens, out);
    return true;
  }

  /** Entries that a group holds now, in one medium or in ALL; 0 for an unknown group. */
  groupEntryCount(rank: RankHandle, groupId: number, mediumId: number): number {
    const state = this.roster.live(rank);
    invariant(mediumId === ALL || isMedium(mediumId), "a medium id is 0 ... 15, or ALL");
    const bit = state.bitOf(groupId);
    if (bit === -1) return 0;
    let total = 0;
    for (let medium = 0; medium < MEDIA_COUNT; medium++) {
      if (mediumId !== ALL && mediumId !== medium) continue;
      total += state.entryCounts[bit * MEDIA_COUNT + medium] ?? 0;
    }
    return total;
  }

  /**
   * Whether a group ever held an entry. `clear` does not undo it; a layout that lacks a group named
   * before starts all of them anew.
   */
  hasEverStored(rank: RankHandle, groupId: number): boolean {
    const state = this.roster.live(rank);
    const bit = state.bitOf(groupId);
    return bit !== -1 && (state.everStoredMask & (1 << bit)) !== 0;
  }

  /** Sizes now. `bytes` is that of all typed arrays that hold entries, free room included. */
  gauges(): { nodes: number; entries: number; ranks: number; bytes: number } {
    let bytes = this.chains.sizeBytes + this.walk.sizeBytes;
    for (const state of this.roster.bySlot) {
      if (state !== undefined) bytes += state.sizeBytes;
    }
    const nodes = this.chains.keys.count;
    return { nodes, entries: this.entries.count, ranks: this.roster.count, bytes };
  }

  /** Recomputes every invariant from the raw arrays; throws InvariantViolation. Slow, allocates. */
  audit(): void {
    auditIndex(this.chains, this.roster, this.entries);
  }
}

function requireSound(layout: RankLayout | undefined): void {
  if (layout === undefined) return;
  const broken = checkRankLayout(layout);
  invariant(broken === undefined, `a layout is checked before it is given: ${broken ?? ""}`);
}

function keyCount(keys: Uint8Array): number {
  invariant(keys.length % 8 === 0, "a run's keys are 8 bytes each");
  return keys.length / 8;
}

function isMedium(mediumId: number): boolean {
  return Number.isInteger(mediumId) && mediumId >= 0 && mediumId < MEDIA_COUNT;
}

function isTokenCount(tokens: number): boolean {
  return Number.isSafeInteger(tokens) && tokens > 0;
}
