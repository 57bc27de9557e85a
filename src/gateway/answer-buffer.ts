/**
 * What it is: the answers of one query in lines that are used again.
 * Owns: the lines; they grow with the number of ranks and never shrink.
 * Refuses: reading a line beyond `count` (our caller's bug).
 * Does not do: sort by quality; ties stay ties.
 */
import { invariant } from "@kv-group-bridge/runtime";
import type { AnswerReason, AnswerState } from "./answer.ts";

/** The answer of one rank. */
export interface RankAnswer {
  /** The worker's name. */
  readonly worker: string;
  /** The rank as vLLM numbers it. */
  readonly dpRank: number;
  /**
   * Prompt tokens that the rank would take from its GPU cache; 0 and meaningless when `unknown`.
   */
  readonly reusableTokens: number;
  readonly state: AnswerState;
  /** Why the state is not `exact`; empty exactly then. */
  readonly reasons: readonly AnswerReason[];
  /** The group that lowered the common answer last; undefined = none did. */
  readonly limitingGroupId: number | undefined;
}

interface Line {
  worker: string;
  dpRank: number;
  reusableTokens: number;
  state: AnswerState;
  reasons: readonly AnswerReason[];
  limitingGroupId: number | undefined;
}

/** Lines 0 … count − 1, by worker name, then rank. Valid until the next query with this buffer. */
export class AnswerBuffer {
  /** Lines filled. */
  count = 0;
  private readonly lines: Line[] = [];

  /** A line. The object is used again by the next query: copy what is to be kept. */
  at(line: number): RankAnswer {
    const found = line < this.count ? this.lines[line] : undefined;
    invariant(found !== undefined, "a line of the answer buffer is filled");
    return found;
  }

  /** For the gateway: a line more, to be filled. */
  next(): Line {
    let line = this.lines[this.count];
    if (line === undefined) {
      line = {
        worker: "",
        dpRank: 0,
        reusableTokens: 0,
        state: "unknown",
        reasons: [],
        limitingGroupId: undefined,
      };
      this.lines.push(line);
    }
    this.count++;
    return line;
  }
}
