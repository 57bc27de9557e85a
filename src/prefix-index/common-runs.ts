/**
 * What it is: the ends that all groups of a class have, as runs by blocks.
 * Owns: two buffers, used again from call to call; nothing is allocated once they have grown.
 * Refuses: nothing; every member is closed by blocks of the same size.
 * Does not do: apply rules; look at ends inside blocks.
 */
import { RUN_WORDS, resized, word } from "./words.ts";

/** Runs by group in one array; `EndRuns` is one. */
export interface RunsByGroup {
  readonly words: Int32Array;
  readonly starts: Int32Array;
  readonly counts: Int32Array;
}

/** Runs of one step, ascending: `count` of them from words[start]. Valid until the next `find`. */
export class CommonRuns {
  words: Int32Array = new Int32Array(0);
  start = 0;
  count = 0;
  private target = new Int32Array(0);
  private spare = new Int32Array(0);

  /** Finds the runs that all members have; those of the group itself when it is the only one. */
  find(members: Int32Array, blockTokens: number, runs: RunsByGroup): void {
    const first = word(members, 0);
    this.words = runs.words;
    this.start = word(runs.starts, first);
    this.count = word(runs.counts, first);
    for (let i = 1; i < members.length && this.count > 0; i++) {
      this.intersect(word(members, i), blockTokens, runs);
    }
  }

  /** Keeps what a group has too. */
  private intersect(group: number, blockTokens: number, runs: RunsByGroup): void {
    const { words, start } = this;
    const otherStart = word(runs.starts, group);
    const otherCount = word(runs.counts, group);
    const most = (this.count + otherCount) * RUN_WORDS;
    if (this.target.length < most) this.target = resized(this.target, most * 2);
    const { target } = this;
    let used = 0;
    for (let i = 0, k = 0; i < this.count && k < otherCount; ) {
      const at = start + i * RUN_WORDS;
      const other = otherStart + k * RUN_WORDS;
      const first = Math.max(word(words, at), word(runs.words, other));
      const last = Math.min(word(words, at + 1), word(runs.words, other + 1));
      if (first <= last) {
        target[used] = first;
        target[used + 1] = last;
        target[used + 2] = blockTokens;
        used += RUN_WORDS;
      }
      if (word(words, at + 1) < word(runs.words, other + 1)) i += 1;
      else k += 1;
    }
    this.target = this.spare;
    this.spare = target;
    this.words = target;
    this.start = 0;
    this.count = used / RUN_WORDS;
  }
}
