/**
 * What it is: one walk over a prompt's positions for all ranks, then the reuse rules per rank.
 * Owns: scratch that is reused between queries; nothing is allocated once the lists have grown.
 * Refuses: a prompt length that is no token count (our bug).
 * Does not do: change nodes or entries; hash (the reader does, position by position).
 */
import { invariant } from "@kv-group-bridge/runtime";
import { MAX_POSITION_TOKENS } from "./check-rank-layout.ts";
import type { GroupEnds } from "./end-list.ts";
import { MEDIA_COUNT } from "./holder-arena.ts";
import type { NodeStore } from "./node-store.ts";
import type { RankRoster } from "./rank-roster.ts";
import type { RankState } from "./rank-state.ts";
import { computeOwnPosition, computeReuse, type ReuseResult, ReuseScratch } from "./reuse-rules.ts";
import type { GroupPositions, ScoreBuffer } from "./score-buffer.ts";

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

/** The walker of one index. */
export class ScoreWalk {
  private readonly nodes: NodeStore;
  private readonly roster: RankRoster;
  private readonly scratch = new ReuseScratch();
  private readonly result: ReuseResult = { reusableTokens: 0, limitingGroupId: -1 };
  private walkNumber = 0;
  /** No rank can gain from a position beyond this one. */
  private horizon = 0;
  private visitedPositions = 0;
  private clashes = 0;

  constructor(nodes: NodeStore, roster: RankRoster) {
    this.nodes = nodes;
    this.roster = roster;
  }

  /** Scores all live ranks; see `PrefixIndex.score`. */
  score(reader: PrefixKeyReader, promptTokens: number, out: ScoreBuffer): void {
    const { bySlot, grids } = this.roster;
    this.begin(promptTokens);
    this.horizon = this.firstHorizon(promptTokens);
    grids.restart(-1);
    for (let at = grids.advance(); at <= promptTokens && at <= this.horizon; at = grids.advance()) {
      const node = this.lookUp(reader, at);
      if (node !== -1) this.credit(node, at);
    }
    out.restart(this.roster.count);
    out.visitedPositions = this.visitedPositions;
    out.clashes = this.clashes;
    for (let slot = 0; slot < bySlot.length; slot++) {
      const rank = bySlot[slot];
      if (rank !== undefined) this.answer(rank, promptTokens, out);
    }
  }

  /** Explains one rank with a layout; see `PrefixIndex.explain`. */
  explain(
    rank: RankState,
    reader: PrefixKeyReader,
    promptTokens: number,
    out: GroupPositions,
  ): void {
    const { grids } = this.roster;
    const { layout } = rank;
    invariant(layout !== undefined, "an explained rank has a layout");
    this.begin(promptTokens);
    rank.startWalk(this.walkNumber);
    grids.restart(rank.gridId);
    for (let at = grids.advance(); at <= promptTokens; at = grids.advance()) {
      const node = this.lookUp(reader, at);
      const index = node === -1 ? -1 : rank.places.get(node, 0);
      if (index === -1) continue;
      recordEnds(rank, this.nodes.holders.maskAt(node, index), at - rank.lookaheadTokens);
    }
    computeReuse(layout, promptTokens, rank.ends, this.scratch, this.result);
    out.reusableTokens = this.result.reusableTokens;
    out.limitingGroupId = this.result.limitingGroupId;
    out.count = rank.ends.length;
    for (let group = 0; group < rank.ends.length; group++) {
      const list = rank.ends[group] as GroupEnds;
      out.groupIds[group] = rank.groupIds[rank.endsByBit.indexOf(list)] as number;
      out.ownTokens[group] = computeOwnPosition(layout, promptTokens, group, list);
    }
  }

  private begin(promptTokens: number): void {
    invariant(
      Number.isInteger(promptTokens) && promptTokens >= 0 && promptTokens <= MAX_POSITION_TOKENS,
      "a prompt's length is a token count",
    );
    this.walkNumber += 1;
    this.visitedPositions = 0;
    this.clashes = 0;
  }

  /**
   * How far a walk goes when nobody holds anything. A rank without a lead group may gain anywhere.
   */
  private firstHorizon(promptTokens: number): number {
    const { bySlot } = this.roster;
    let horizon = 0;
    for (let slot = 0; slot < bySlot.length; slot++) {
      const rank = bySlot[slot];
      const layout = rank?.layout;
      if (rank === undefined || layout === undefined) continue;
      // An empty rank gains nothing (a chunk's start needs no entry).
      if (rank.entryCount === 0) continue;
      if (rank.leadBit === -1) return promptTokens;
      const reach = layout.reachTokens + layout.lookaheadTokens;
      if (reach > horizon) horizon = reach;
    }
    return horizon;
  }

  private lookUp(reader: PrefixKeyReader, positionTokens: number): number {
    reader.seek(positionTokens);
    this.visitedPositions += 1;
    const node = this.nodes.keys.find(reader.keyLow >>> 0, reader.keyHigh >>> 0);
    if (node === -1 || this.nodes.positions[node] === positionTokens) return node;
    this.clashes += 1;
    return -1;
  }

  /** Appends the end to the lists of every holder whose grid has this position. */
  private credit(node: number, positionTokens: number): void {
    const { words, starts, counts } = this.nodes.holders;
    const { bySlot } = this.roster;
    const { isDue } = this.roster.grids;
    const first = (starts[node] as number) * 2;
    const bound = first + (counts[node] as number) * 2;
    for (let word = first; word < bound; word += 2) {
      const tag = words[word] as number;
      if (tag % MEDIA_COUNT !== 0) continue;
      const rank = bySlot[tag / MEDIA_COUNT] as RankState;
      if (rank.gridId === -1 || isDue[rank.gridId] === 0) continue;
      if (rank.walkNumber !== this.walkNumber) rank.startWalk(this.walkNumber);
      const lead = recordEnds(
        rank,
        words[word + 1] as number,
        positionTokens - rank.lookaheadTokens,
      );
      if (lead > 0) this.raiseHorizon(rank, lead);
    }
  }

  private raiseHorizon(rank: RankState, leadEndTokens: number): void {
    const { layout } = rank;
    if (layout === undefined) return;
    const horizon = leadEndTokens + layout.reachTokens + layout.lookaheadTokens;
    if (horizon > this.horizon) this.horizon = horizon;
  }

  private answer(rank: RankState, promptTokens: number, out: ScoreBuffer): void {
    const { layout } = rank;
    if (layout === undefined) {
      out.addUnknown(rank.handle);
      return;
    }
    if (rank.walkNumber !== this.walkNumber) rank.startWalk(this.walkNumber);
    computeReuse(layout, promptTokens, rank.ends, this.scratch, this.result);
    out.addAnswer(rank.handle, this.result.reusableTokens, this.result.limitingGroupId);
  }
}

/**
 * Adds an end to the lists of a mask's groups; the lead group's chain end when that grew, else 0.
 */
function recordEnds(rank: RankState, mask: number, endTokens: number): number {
  const { endsByBit, leadBit } = rank;
  let lead = 0;
  for (let rest = mask | 0; rest !== 0; rest &= rest - 1) {
    const bit = 31 - Math.clz32(rest & -rest);
    const isLonger = (endsByBit[bit] as GroupEnds).record(endTokens);
    if (isLonger && bit === leadBit) lead = endTokens;
  }
  return lead;
}
