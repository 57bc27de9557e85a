/**
 * What it is: one walk over a prompt's positions for all ranks, then the reuse rules per rank. Where
 * the prompt has a chain's node, the walk follows the chain: it compares the next keys in a row and
 * probes the key table only where no chain goes on.
 * Owns: scratch that is reused between queries; nothing is allocated once it has grown.
 * Refuses: a prompt length that is no token count (our bug).
 * Does not do: change nodes or entries; hash (the reader does, position by position).
 */
import { invariant } from "@kv-group-bridge/runtime";
import { ChainCursor, MATCH, MISMATCH, PAST } from "./chain-cursor.ts";
import { LIST_ADDRESS, LIST_COUNT } from "./chain-store.ts";
import type { Chains } from "./chains.ts";
import { MAX_POSITION_TOKENS } from "./check-rank-layout.ts";
import { EndRuns } from "./end-runs.ts";
import { EVERY_RANK, FoundEnds } from "./found-ends.ts";
import type { PooledLayout } from "./layout-pool.ts";
import { baseOf, HOLDERS, NEXT, NONE, ORDINAL, PAGE_NODES } from "./page-store.ts";
import { ANYWHERE, LANE_WORDS, LAYOUT, NO_RANK, type RankRoster } from "./rank-roster.ts";
import type { RankHandle, RankState } from "./rank-state.ts";
import { indexOf } from "./record-arena.ts";
import { closeGroup, computeOwnPosition, computeReuse, type ReuseResult } from "./reuse-rules.ts";
import type { GroupPositions, ScoreBuffer } from "./score-buffer.ts";
import { word } from "./words.ts";

/** The prompt's keys, computed as the walk asks for them. */
export interface PrefixKeyReader {
  /**
   * Moves to a position in tokens, > the last one and <= the prompt's length; the key is then
   * readable.
   */
  seek(positionTokens: number): void;
  /** Low 32 bits of the key at the position. */
  readonly keyLow: number;
  /** High 32 bits of the key at the position. */
  readonly keyHigh: number;
}

/**
 * Chains followed at the same time; a chain more than these takes the place of the one followed
 * longest, which the key table then finds again.
 */
export const MAX_CURSORS = 16;

/** The walker of one index. */
export class ScoreWalk {
  private readonly chains: Chains;
  private readonly roster: RankRoster;
  private readonly found: FoundEnds;
  private readonly runs = new EndRuns();
  private readonly result: ReuseResult = { reusableTokens: 0, limitingGroupId: -1 };
  /** The first `cursorCount` are in use, oldest first. */
  private readonly cursors: ChainCursor[];
  private cursorCount = 0;
  private visitedPositions = 0;
  private clashes = 0;
  private queryNumber = 0;
  /** Whether the reader already stands at the position that `follow` stopped at. */
  private isRead = false;

  constructor(chains: Chains, roster: RankRoster) {
    this.chains = chains;
    this.roster = roster;
    this.found = new FoundEnds(roster);
    this.cursors = Array.from({ length: MAX_CURSORS }, () => new ChainCursor(chains));
  }

  /** Scores all live ranks; see `PrefixIndex.score`. */
  score(reader: PrefixKeyReader, promptTokens: number, out: ScoreBuffer): void {
    const { roster } = this;
    const reach = roster.firstReachTokens;
    this.walk(reader, promptTokens, reach === ANYWHERE ? promptTokens : reach, EVERY_RANK);
    out.restart(roster.count);
    out.visitedPositions = this.visitedPositions;
    out.clashes = this.clashes;
    this.answerAll(promptTokens, out);
  }

  /** Explains one rank with a layout; see `PrefixIndex.explain`. */
  explain(
    rank: RankState,
    reader: PrefixKeyReader,
    promptTokens: number,
    out: GroupPositions,
  ): void {
    const { layout } = rank;
    invariant(layout !== undefined, "an explained rank has a layout");
    this.walk(reader, promptTokens, promptTokens, rank.slot);
    this.computeFor(rank.slot, layout, promptTokens);
    out.reusableTokens = this.result.reusableTokens;
    out.limitingGroupId = this.result.limitingGroupId;
    const { bits } = layout;
    out.count = bits.length;
    for (let group = 0; group < bits.length; group++) {
      out.groupIds[group] = rank.groupIds[word(bits, group)] ?? -1;
      out.ownTokens[group] = computeOwnPosition(layout.compiled, promptTokens, group, this.runs);
    }
  }

  /** Bytes of the scratch. */
  get sizeBytes(): number {
    return this.found.sizeBytes + this.runs.sizeBytes;
  }

  /** Finds the runs of one rank, or of all. */
  private walk(
    reader: PrefixKeyReader,
    promptTokens: number,
    horizonTokens: number,
    onlySlot: number,
  ): void {
    invariant(
      Number.isInteger(promptTokens) && promptTokens >= 0 && promptTokens <= MAX_POSITION_TOKENS,
      "a prompt's length is a token count",
    );
    const { found } = this;
    const { grids, bySlot } = this.roster;
    this.queryNumber += 1;
    this.visitedPositions = 0;
    this.clashes = 0;
    this.cursorCount = 0;
    this.isRead = false;
    found.restart(horizonTokens, onlySlot);
    const step = grids.restart(onlySlot === EVERY_RANK ? -1 : (bySlot[onlySlot]?.gridId ?? -1));
    let at = grids.advance();
    while (at <= promptTokens && at <= found.horizonTokens) {
      this.visit(reader, at);
      if (step === 0) at = grids.advance();
      else if (this.isOnlyAt(at, step)) {
        at = this.follow(reader, Math.min(promptTokens, found.horizonTokens));
      } else at += step;
    }
    for (let i = 0; i < this.cursorCount; i++) this.close(this.cursorAt(i), true);
    this.cursorCount = 0;
  }

  /** Whether one chain is followed, has matched right here, and goes on by the walk's own steps. */
  private isOnlyAt(positionTokens: number, stepTokens: number): boolean {
    if (this.cursorCount !== 1) return false;
    const cursor = this.cursorAt(0);
    return cursor.stepTokens === stepTokens && cursor.lastTokens === positionTokens;
  }

  /** Looks one position up, in the chains followed or in the key table. */
  private visit(reader: PrefixKeyReader, positionTokens: number): void {
    if (!this.isRead) {
      reader.seek(positionTokens);
      this.visitedPositions += 1;
    }
    this.isRead = false;
    const low = reader.keyLow | 0;
    const high = reader.keyHigh | 0;
    let isFound = false;
    for (let i = 0; i < this.cursorCount; ) {
      const cursor = this.cursorAt(i);
      const state = cursor.compare(positionTokens, low, high);
      if (state === MATCH) isFound = true;
      if (state === MISMATCH || state === PAST) this.close(cursor, false);
      if (state === MISMATCH || state === PAST || (state === MATCH && cursor.isAtEnd)) {
        this.dropCursor(i);
      } else i += 1;
    }
    if (isFound) return;
    const node = this.chains.keys.find(low, high);
    if (node === NONE) return;
    if (this.chains.positionOf(node) === positionTokens) this.open(node, positionTokens);
    else this.clashes += 1;
  }

  /**
   * Goes on along the only chain followed, while its next nodes are the prompt's. Returns the
   * position to visit next.
   */
  private follow(reader: PrefixKeyReader, limitTokens: number): number {
    const { pages } = this.chains;
    const cursor = this.cursorAt(0);
    const step = cursor.stepTokens;
    let { page, ordinal, slot, lastTokens } = cursor;
    let chunk = pages.chunkOf(page);
    let base = baseOf(page);
    let seeks = 0;
    while (lastTokens + step <= limitTokens) {
      let next = slot + 1;
      if (next === PAGE_NODES) {
        const nextPage = word(chunk, base + NEXT);
        // At the end of the chain or at a hole of whole pages.
        if (nextPage === NONE || pages.get(nextPage, ORDINAL) !== ordinal + 1) break;
        page = nextPage;
        chunk = pages.chunkOf(page);
        base = baseOf(page);
        ordinal += 1;
        next = 0;
      }
      if (word(chunk, base + HOLDERS + next) === 0) break;
      reader.seek(lastTokens + step);
      seeks += 1;
      const isSame =
        word(chunk, base + next * 2) === (reader.keyLow | 0) &&
        word(chunk, base + next * 2 + 1) === (reader.keyHigh | 0);
      if (!isSame) {
        this.isRead = true;
        break;
      }
      slot = next;
      lastTokens += step;
    }
    this.visitedPositions += seeks;
    cursor.page = page;
    cursor.ordinal = ordinal;
    cursor.slot = slot;
    cursor.lastTokens = lastTokens;
    return lastTokens + step;
  }

  /** Begins to follow a chain, and collects what ranks hold of it from a node on. */
  private open(node: number, positionTokens: number): void {
    if (this.cursorCount === MAX_CURSORS) {
      this.close(this.cursorAt(0), false);
      this.dropCursor(0);
    }
    const cursor = this.cursorAt(this.cursorCount);
    cursor.open(node, positionTokens);
    cursor.from = this.found.count;
    const { facts, lists } = this.chains;
    const count = facts.get(cursor.chain, LIST_COUNT);
    const address = facts.get(cursor.chain, LIST_ADDRESS);
    const from = indexOf(address);
    if (count > 0) {
      this.found.collect(lists.arena.chunkOf(address), from, from + count * 2, cursor);
    }
    cursor.to = this.found.count;
    if (!cursor.isAtEnd) this.cursorCount += 1;
  }

  /** Ends the following of a chain: what lies beyond the last match is not the prompt's. */
  private close(cursor: ChainCursor, isOver: boolean): void {
    this.found.cut(cursor.from, cursor.to, cursor.lastTokens, isOver);
  }

  /** Closes the gap in the cursors; their order stays. */
  private dropCursor(index: number): void {
    const gone = this.cursorAt(index);
    for (let i = index + 1; i < this.cursorCount; i++) this.cursors[i - 1] = this.cursorAt(i);
    this.cursorCount -= 1;
    this.cursors[this.cursorCount] = gone;
  }

  private cursorAt(index: number): ChainCursor {
    return this.cursors[index] as ChainCursor;
  }

  /** Adds a line for every live rank. */
  private answerAll(promptTokens: number, out: ScoreBuffer): void {
    const { lanes, handles, layouts, bySlot } = this.roster;
    const { found, queryNumber, result } = this;
    for (let slot = 0; slot < bySlot.length; slot++) {
      const layoutId = word(lanes, slot * LANE_WORDS + LAYOUT);
      if (layoutId === NO_RANK) continue;
      const handle = handles[slot] as RankHandle;
      const layout = layouts.byId[layoutId];
      if (layout === undefined) {
        out.addUnknown(handle);
      } else if (found.hasAny(slot)) {
        // Many ranks hold the same of a prompt: what was computed for one of them is not again.
        if (layout.foundQuery !== queryNumber || !found.isSame(slot, layout.foundSlot)) {
          this.computeFor(slot, layout, promptTokens);
          layout.keepFound(queryNumber, slot, result);
        }
        out.addAnswer(handle, layout.foundTokens, layout.foundLimitingGroupId);
      } else {
        if (layout.emptyQuery !== queryNumber) {
          this.computeFor(slot, layout, promptTokens);
          layout.keepEmpty(queryNumber, result);
        }
        out.addAnswer(handle, layout.emptyTokens, layout.emptyLimitingGroupId);
      }
    }
  }

  private computeFor(slot: number, layout: PooledLayout, promptTokens: number): void {
    const { runs, found } = this;
    const { compiled, bits } = layout;
    runs.restart();
    for (let group = 0; group < bits.length; group++) {
      runs.open(group);
      found.writeTo(slot, word(bits, group), group, runs);
      closeGroup(compiled, group, runs);
    }
    computeReuse(compiled, promptTokens, runs, this.result);
  }
}
