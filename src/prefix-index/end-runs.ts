/**
 * What it is: the only form in which the reuse rules see a cache: per group of one rank the ends that
 * are cached of one prompt, as runs first, first + step ... last (tokens).
 * Owns: one buffer for all groups, used again from rank to rank; nothing is allocated once it has
 * grown, but when runs of one group interleave.
 * Refuses: nothing; runs of one group may come in any order but share no end.
 * Does not do: apply rules.
 */
import { CommonRuns } from "./common-runs.ts";
import { floorTo, RUN_WORDS, resized, word } from "./words.ts";

const FIRST_RUNS = 128;
const GROUPS = 32;

/**
 * Runs by group. A group is opened, filled and closed before the next one. Closed by blocks, its
 * runs are whole: of step b, on multiples of b, ascending, and no run continues the one before it;
 * all other ends are its inside runs, in no promised order.
 */
export class EndRuns {
  words = new Int32Array(FIRST_RUNS * RUN_WORDS);
  /** Index of the first word of each group's runs; inside runs follow them. */
  readonly starts = new Int32Array(GROUPS);
  readonly counts = new Int32Array(GROUPS);
  readonly insideCounts = new Int32Array(GROUPS);
  /** For classes of several groups. */
  readonly common = new CommonRuns();
  private used = 0;
  private blocks = new Int32Array(0);
  private insides = new Int32Array(0);
  private blockWords = 0;
  private insideWords = 0;

  /** Forgets all groups. */
  restart(): void {
    this.used = 0;
  }

  /** Begins a group. */
  open(group: number): void {
    this.starts[group] = this.used;
    this.counts[group] = 0;
    this.insideCounts[group] = 0;
  }

  /** Adds a run to the open group. */
  add(firstTokens: number, lastTokens: number, stepTokens: number): void {
    const at = this.used;
    if (at + RUN_WORDS > this.words.length) this.words = resized(this.words, at * 2);
    this.words[at] = firstTokens;
    this.words[at + 1] = lastTokens;
    this.words[at + 2] = stepTokens;
    this.used = at + RUN_WORDS;
  }

  /** Turns the order of the open group's runs around. */
  reverse(group: number): void {
    const { words } = this;
    let low = word(this.starts, group);
    let high = this.used - RUN_WORDS;
    for (; low < high; low += RUN_WORDS, high -= RUN_WORDS) {
      for (let i = 0; i < RUN_WORDS; i++) {
        const other = word(words, low + i);
        words[low + i] = word(words, high + i);
        words[high + i] = other;
      }
    }
  }

  /** Ends a group whose runs stay as they came. */
  close(group: number): void {
    this.counts[group] = (this.used - word(this.starts, group)) / RUN_WORDS;
  }

  /** Ends a group whose runs are wanted by blocks. */
  closeByBlocks(group: number, blockTokens: number): void {
    const { words } = this;
    const start = word(this.starts, group);
    let end = start;
    let last = 0;
    for (let at = start; at < this.used; at += RUN_WORDS) {
      const first = word(words, at);
      const runLast = word(words, at + 1);
      const isPlain = first === runLast || word(words, at + 2) === blockTokens;
      if (!isPlain || first <= last || first % blockTokens !== 0) {
        // What is joined already stays joined.
        words.copyWithin(end, at, this.used);
        this.used -= at - end;
        this.sortOut(group, blockTokens);
        return;
      }
      if (first === last + blockTokens && end > start) {
        words[end - 2] = runLast;
      } else {
        words[end] = first;
        words[end + 1] = runLast;
        words[end + 2] = blockTokens;
        end += RUN_WORDS;
      }
      last = runLast;
    }
    this.used = end;
    this.counts[group] = (end - start) / RUN_WORDS;
  }

  /** The largest of a group's inside ends that is <= bound and a multiple of `alignment`, or 0. */
  largestInside(group: number, alignmentTokens: number, boundTokens: number): number {
    const from = word(this.starts, group) + word(this.counts, group) * RUN_WORDS;
    const count = word(this.insideCounts, group);
    return this.largestOf(from, count, alignmentTokens, boundTokens);
  }

  /** The largest end of a group closed as it came, <= bound and a multiple of `alignment`, or 0. */
  largest(group: number, alignmentTokens: number, boundTokens: number): number {
    const from = word(this.starts, group);
    return this.largestOf(from, word(this.counts, group), alignmentTokens, boundTokens);
  }

  /** Bytes of all buffers. */
  get sizeBytes(): number {
    return (this.words.length + this.blocks.length + this.insides.length) * 4;
  }

  private largestOf(from: number, count: number, alignment: number, bound: number): number {
    const { words } = this;
    let largest = 0;
    for (let at = from; at < from + count * RUN_WORDS; at += RUN_WORDS) {
      const first = word(words, at);
      if (first > bound) continue;
      let end = word(words, at + 1);
      if (end <= largest) continue;
      const step = word(words, at + 2);
      if (end > bound) end = first + floorTo(bound - first, step);
      while (end > largest && end % alignment !== 0) end -= step;
      if (end >= first && end > largest) largest = end;
    }
    return largest;
  }

  /** The slow way: runs of other steps, of ends inside blocks, or out of order. */
  private sortOut(group: number, blockTokens: number): void {
    const start = word(this.starts, group);
    this.blockWords = 0;
    this.insideWords = 0;
    for (let at = start; at < this.used; at += RUN_WORDS) {
      const first = word(this.words, at);
      const last = word(this.words, at + 1);
      const step = word(this.words, at + 2);
      if (first === last || step === blockTokens) this.sortRun(first, last, step, blockTokens);
      else for (let end = first; end <= last; end += step) this.sortRun(end, end, 1, blockTokens);
    }
    if (!this.isInOrder()) this.putInOrder(blockTokens);
    this.used = start;
    let last = 0;
    for (let i = 0; i < this.blockWords; i += RUN_WORDS) {
      const first = word(this.blocks, i);
      const runLast = word(this.blocks, i + 1);
      if (first === last + blockTokens && this.used > start) this.words[this.used - 2] = runLast;
      else this.add(first, runLast, blockTokens);
      last = runLast;
    }
    this.counts[group] = (this.used - start) / RUN_WORDS;
    for (let i = 0; i < this.insideWords; i += RUN_WORDS) {
      this.add(word(this.insides, i), word(this.insides, i + 1), word(this.insides, i + 2));
    }
    this.insideCounts[group] = this.insideWords / RUN_WORDS;
  }

  private sortRun(first: number, last: number, step: number, blockTokens: number): void {
    if (first % blockTokens === 0) {
      this.blocks = withRun(this.blocks, this.blockWords, first, last, step);
      this.blockWords += RUN_WORDS;
    } else {
      this.insides = withRun(this.insides, this.insideWords, first, last, step);
      this.insideWords += RUN_WORDS;
    }
  }

  private isInOrder(): boolean {
    for (let i = RUN_WORDS; i < this.blockWords; i += RUN_WORDS) {
      if (word(this.blocks, i) <= word(this.blocks, i - 2)) return false;
    }
    return true;
  }

  /** Runs that interleave become single ends in order. */
  private putInOrder(blockTokens: number): void {
    const ends: number[] = [];
    for (let i = 0; i < this.blockWords; i += RUN_WORDS) {
      const last = word(this.blocks, i + 1);
      for (let end = word(this.blocks, i); end <= last; end += blockTokens) ends.push(end);
    }
    ends.sort((a, b) => a - b);
    this.blockWords = 0;
    for (const end of ends) this.sortRun(end, end, 1, blockTokens);
  }
}

function withRun(
  words: Int32Array<ArrayBuffer>,
  at: number,
  first: number,
  last: number,
  step: number,
): Int32Array<ArrayBuffer> {
  const room = at + RUN_WORDS > words.length ? resized(words, Math.max(48, at * 2)) : words;
  room[at] = first;
  room[at + 1] = last;
  room[at + 2] = step;
  return room;
}
