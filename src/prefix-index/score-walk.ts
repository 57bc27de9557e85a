/**
 * What it is: one walk over a prompt's positions for all ranks, then the reuse rules per rank.
 * Owns: scratch that is reused between queries; nothing is allocated once the lists have grown.
 * Refuses: a prompt length that is no token count (our bug).
 * Does not do: change nodes or entries; hash (the reader does, position by position).
 */
import { invariant } from "@kv-group-bridge/runtime";
import { MAX_POSITION_TOKENS } from "./check-rank-layout.ts";
import type { GroupEnds } from "./end-list.ts";
import { MEDIA_BITS, MEDIA_COUNT } from "./holder-arena.ts";
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
    const { ends } = rank;
    invariant(ends !== undefined, "an explained rank has a layout");
    this.begin(promptTokens);
    ends.start(this.walkNumber);
    grids.restart(rank.gridId);
    for (let at = grids.advance(); at <= promptTokens; at = grids.advance()) {
      const node = this.lookUp(reader, at);
      const index = node === -1 ? -1 : rank.places.get(node, 0);
      if (index === -1) continue;
      ends.meet(at - rank.lookaheadTokens, this.nodes.holders.maskAt(node, index));
    }
    ends.finish();
    computeReuse(ends.layout, promptTokens, ends.lists, this.scratch, this.result);
    out.reusableTokens = this.result.reusableTokens;
    out.limitingGroupId = this.result.limitingGroupId;
    out.count = ends.lists.length;
    for (let group = 0; group < ends.lists.length; group++) {
      const list = ends.lists[group] as GroupEnds;
      out.groupIds[group] = rank.groupIds[ends.bits[group] as number] as number;
      out.ownTokens[group] = computeOwnPosition(ends.layout, promptTokens, group, list);
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
      if (layout.leadGroup === -1) return promptTokens;
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

  /** Notes the end for every holder whose grid has this position. */
  private credit(node: number, positionTokens: number): void {
    const { words, starts, counts } = this.nodes.holders;
    const { bySlot } = this.roster;
    const { isDue } = this.roster.grids;
    const first = (starts[node] as number) * 2;
    const bound = first + (counts[node] as number) * 2;
    for (let word = first; word < bound; word += 2) {
      const tag = words[word] as number;
      if ((tag & (MEDIA_COUNT - 1)) !== 0) continue;
      const rank = bySlot[tag >>> MEDIA_BITS] as RankState;
      const { ends } = rank;
      if (ends === undefined || isDue[rank.gridId] === 0) continue;
      if (ends.walkNumber !== this.walkNumber) ends.start(this.walkNumber);
      const mask = (words[word + 1] as number) | 0;
      if (!ends.meet(positionTokens - rank.lookaheadTokens, mask)) continue;
      const horizon = positionTokens + ends.layout.reachTokens;
      if (horizon > this.horizon) this.horizon = horizon;
    }
  }

  private answer(rank: RankState, promptTokens: number, out: ScoreBuffer): void {
    const { ends } = rank;
    if (ends === undefined) {
      out.addUnknown(rank.handle);
      return;
    }
    if (ends.walkNumber !== this.walkNumber) ends.start(this.walkNumber);
    ends.finish();
    computeReuse(ends.layout, promptTokens, ends.lists, this.scratch, this.result);
    out.addAnswer(rank.handle, this.result.reusableTokens, this.result.limitingGroupId);
  }
}
