/**
 * What it is: short ways to write layouts, ends, keys and readers in the tests of the prefix index.
 * Owns: a toy key, mixed from a prompt number and a position; two prompts share no key.
 * Refuses: a reader asked for positions that do not ascend.
 * Does not do: hash tokens.
 */
import {
  type CompiledLayout,
  closeGroup,
  EndRuns,
  type GroupLayout,
  type PrefixIndex,
  type RankHandle,
  type RankLayout,
} from "../../../src/prefix-index/dist/index.js";

/** A group by its rule and numbers; id and class are its place unless given. */
export type GroupSpec = Partial<GroupLayout> & Pick<GroupLayout, "rule" | "blockSizeTokens">;

export function full(blockSizeTokens: number, more: Partial<GroupLayout> = {}): GroupSpec {
  return { rule: "full", blockSizeTokens, ...more };
}

export function sliding(
  b: number,
  windowTokens: number,
  more: Partial<GroupLayout> = {},
): GroupSpec {
  return { rule: "sliding_window", blockSizeTokens: b, windowTokens, ...more };
}

export function mamba(blockSizeTokens: number, more: Partial<GroupLayout> = {}): GroupSpec {
  return { rule: "mamba", blockSizeTokens, ...more };
}

export function chunked(b: number, chunkTokens: number): GroupSpec {
  return { rule: "chunked_local", blockSizeTokens: b, chunkTokens };
}

/** A layout with S = lcm, H = gcd and no extras; one group is unitary. */
export function layoutOf(specs: readonly GroupSpec[], more: Partial<RankLayout> = {}): RankLayout {
  const blocks = specs.map((spec) => spec.blockSizeTokens);
  return {
    groups: specs.map((spec, index) => ({
      groupId: index,
      windowTokens: 0,
      chunkTokens: 0,
      specClass: index,
      dropsBlock: false,
      ...spec,
    })),
    coordinator: specs.length === 1 ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: blocks.reduce((a, b) => (a / gcd(a, b)) * b),
    hashBlockSizeTokens: blocks.reduce(gcd),
    isFine: false,
    lookaheadTokens: 0,
    eagleBound: "hash_end",
    replayTokens: 0,
    ...more,
  };
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** Ends of all groups as the rules take them: each end a run of its own. */
export function runsOf(layout: CompiledLayout, ends: readonly (readonly number[])[]): EndRuns {
  const runs = new EndRuns();
  for (const [group, list] of ends.entries()) {
    runs.open(group);
    for (const end of list) runs.add(end, end, 1);
    closeGroup(layout, group, runs);
  }
  return runs;
}

/** first, first + step ... last. */
export function range(first: number, last: number, step: number): number[] {
  const ends: number[] = [];
  for (let end = first; end <= last; end += step) ends.push(end);
  return ends;
}

/** One 32-bit half of the toy key. */
export function keyWord(prompt: number, position: number, half: 0 | 1): number {
  let word = Math.imul(prompt * 2 + half + 1, 0x9e3779b1) ^ Math.imul(position, 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 16), 0x7feb352d);
  word = Math.imul(word ^ (word >>> 15), 0x846ca68b);
  return (word ^ (word >>> 16)) >>> 0;
}

/** The wire form of a prompt's keys at the given positions. */
export function keysAt(prompt: number, positions: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(positions.length * 8);
  const view = new DataView(bytes.buffer);
  for (const [i, position] of positions.entries()) {
    view.setUint32(i * 8, keyWord(prompt, position, 0), true);
    view.setUint32(i * 8 + 4, keyWord(prompt, position, 1), true);
  }
  return bytes;
}

/** Reads a prompt's toy keys; remembers what it was asked for. */
export class PromptReader {
  private readonly prompt: number;
  readonly visited: number[] = [];
  keyLow = 0;
  keyHigh = 0;

  constructor(prompt: number) {
    this.prompt = prompt;
  }

  seek(positionTokens: number): void {
    const last = this.visited.at(-1) ?? 0;
    if (positionTokens <= last) throw new RangeError("positions ascend");
    this.visited.push(positionTokens);
    this.keyLow = keyWord(this.prompt, positionTokens, 0);
    this.keyHigh = keyWord(this.prompt, positionTokens, 1);
  }
}

/** Stores ends of a prompt one by one, so that any list of ends can be written. */
export function store(
  index: PrefixIndex,
  rank: RankHandle,
  ends: readonly number[],
  { prompt = 1, group = 0, medium = 0, lookahead = 0 } = {},
): void {
  for (const end of ends) {
    const keys = keysAt(prompt, [end + lookahead]);
    const outcome = index.storeRun(rank, group, medium, keys, end, 1);
    if (outcome.stored + outcome.alreadyHeld !== 1) throw new RangeError("a store was refused");
  }
}
