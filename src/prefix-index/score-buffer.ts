/**
 * What it is: the answers of one query, one line per live rank, in a buffer that the caller owns.
 * Owns: typed arrays that grow only when the index has more ranks than before.
 * Refuses: reading a line beyond `count` (our bug).
 * Does not do: rank or sort; ties stay ties.
 */
import { invariant } from "@kv-group-bridge/runtime";
import type { RankHandle } from "./rank-state.ts";

const HAS_LAYOUT = 1;

/** Lines 0 ... count - 1, in no promised order. Valid until the next `score` with this buffer. */
export class ScoreBuffer {
  private ranks = new Float64Array(0);
  private reusable = new Uint32Array(0);
  private limiting = new Float64Array(0);
  private flags = new Uint8Array(0);
  /** Lines filled. */
  count = 0;
  /** Positions looked up by the query: one lookup each, for all ranks together. */
  visitedPositions = 0;
  /** Keys met at another position than they were stored at: not credited. */
  clashes = 0;

  /** The rank of a line. */
  rankAt(line: number): RankHandle {
    this.check(line);
    return this.ranks[line] as RankHandle;
  }

  /** Prompt tokens that the rank would reuse on the GPU; 0 when it has no layout. */
  reusableTokensAt(line: number): number {
    this.check(line);
    return this.reusable[line] as number;
  }

  /** The group that limited the answer, or -1 (see `computeReuse`). */
  limitingGroupIdAt(line: number): number {
    this.check(line);
    return this.limiting[line] as number;
  }

  /** False when the rank has no layout: its 0 means "unknown", not "nothing". */
  hasLayoutAt(line: number): boolean {
    this.check(line);
    return ((this.flags[line] as number) & HAS_LAYOUT) !== 0;
  }

  /** For the index: empties the buffer and makes room for `capacity` lines. */
  restart(capacity: number): void {
    this.count = 0;
    this.visitedPositions = 0;
    this.clashes = 0;
    if (capacity <= this.ranks.length) return;
    this.ranks = new Float64Array(capacity);
    this.reusable = new Uint32Array(capacity);
    this.limiting = new Float64Array(capacity);
    this.flags = new Uint8Array(capacity);
  }

  /** For the index: adds the line of a rank without a layout. */
  addUnknown(rank: RankHandle): void {
    this.add(rank, 0, -1, 0);
  }

  /** For the index: adds the line of a rank with a layout. */
  addAnswer(rank: RankHandle, reusableTokens: number, limitingGroupId: number): void {
    this.add(rank, reusableTokens, limitingGroupId, HAS_LAYOUT);
  }

  /** The arrays, to see that they are the same ones from query to query. */
  get arrays(): readonly ArrayBufferView[] {
    return [this.ranks, this.reusable, this.limiting, this.flags];
  }

  private add(rank: RankHandle, tokens: number, limitingGroupId: number, flags: number): void {
    const line = this.count;
    invariant(line < this.ranks.length, "a score buffer has a line for every rank");
    this.ranks[line] = rank;
    this.reusable[line] = tokens;
    this.limiting[line] = limitingGroupId;
    this.flags[line] = flags;
    this.count = line + 1;
  }

  private check(line: number): void {
    invariant(line >= 0 && line < this.count, "a line of the score buffer is filled");
  }
}

/** One rank's answer with each group's own largest acceptable position; filled by `explain`. */
export class GroupPositions {
  /** Group ids in layout order, 0 ... count - 1. */
  readonly groupIds = new Float64Array(32);
  /** The largest position, in tokens, that each group accepts by itself. */
  readonly ownTokens = new Uint32Array(32);
  /** Groups filled. */
  count = 0;
  /** The joint answer in tokens. */
  reusableTokens = 0;
  /** The group that limited the joint answer, or -1. */
  limitingGroupId = -1;
}
