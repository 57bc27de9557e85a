/**
 * What it is: a reader of the compact cache notation of the scenario tables, and the defaults that
 * the reference text gives to what a row does not say (S, H, fine mode, coordinator).
 * Owns: nothing.
 * Refuses: a term it cannot read, a partial mark on an end that is a block end, and the reverse: all
 * throw, because a table that is misread proves nothing.
 * Does not do: check that an engine could have the layout.
 *
 * Notation, terms joined by " + ":
 *   F4:4..16        full, b 4, every block end from 4 to 16     (MLA4 reads the same)
 *   S4/9:{12,16}    sliding window, b 4, W 9
 *   M8:{8,20p}      mamba; p marks an end inside a block
 *   C4/8:{}         chunked local, b 4, C 8
 *   F8':{4p}        a prime: a spec that differs from the unprimed one in something not shown
 *   private 6       a group that is never cached and only enters S
 */

import type { GroupLayout, RankLayout, ReuseRule } from "../../src/prefix-index/layout.ts";

/** What a row says beyond its notation; everything else follows from the text. */
export interface ScenarioOptions {
  readonly S?: number;
  readonly H?: number;
  readonly isFine?: boolean;
  /** Which groups drop a block: all that can, or those at these positions. */
  readonly drops?: "all" | readonly number[];
  readonly eagleBound?: RankLayout["eagleBound"];
  readonly lookaheadTokens?: number;
  readonly replayTokens?: number;
  /** Decode-context parallelism is on: fine mode asks for b >= H of a mamba group, not b > H. */
  readonly isContextParallel?: boolean;
}

/** A layout and what each of its groups holds. */
export interface ScenarioCache {
  readonly layout: RankLayout;
  readonly ends: readonly ReadonlySet<number>[];
}

/** The four values that follow from the block sizes, unless a row says otherwise. */
export type DerivedDefaults = Pick<
  RankLayout,
  "coordinator" | "schedulerBlockSizeTokens" | "hashBlockSizeTokens" | "isFine"
>;

/** S = lcm of all block sizes; H = gcd of the cacheable ones, S with one group; fine by §3.3. */
export function deriveDefaults(
  groups: readonly GroupLayout[],
  privateBlockSizes: readonly number[],
  options: ScenarioOptions = {},
): DerivedDefaults {
  const sizes = groups.map((group) => group.blockSizeTokens);
  const isUnitary = groups.length + privateBlockSizes.length === 1;
  const S = options.S ?? [...sizes, ...privateBlockSizes].reduce(leastCommonMultiple, 1);
  // With one group the engine ignores a finer unit.
  const H = isUnitary ? S : (options.H ?? sizes.reduce(greatestCommonDivisor, 0));
  const isPartialState = (group: GroupLayout): boolean =>
    group.rule === "mamba" &&
    (options.isContextParallel === true ? group.blockSizeTokens >= H : group.blockSizeTokens > H);
  const isSearchable = (group: GroupLayout): boolean =>
    group.rule === "full" || group.rule === "mamba" || group.blockSizeTokens === H;
  return {
    coordinator: isUnitary ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: S,
    hashBlockSizeTokens: H,
    isFine:
      options.isFine ?? (!isUnitary && groups.some(isPartialState) && groups.every(isSearchable)),
  };
}

/** Reads a cache; see the file header. Equal terms (without their ends) share a spec class. */
export function parseScenario(notation: string, options: ScenarioOptions = {}): ScenarioCache {
  const groups: GroupLayout[] = [];
  const ends: Set<number>[] = [];
  const privateBlockSizes: number[] = [];
  const specs: string[] = [];
  notation.split(" + ").forEach((term, groupId) => {
    const hidden = /^private (\d+)$/.exec(term);
    if (hidden !== null) {
      privateBlockSizes.push(Number(hidden[1]));
      return;
    }
    const [, letter, size, argument, prime, held] =
      /^(F|MLA|S|M|C)(\d+)(?:\/(\d+))?('?):(.+)$/.exec(term) ?? unreadable(term);
    const rule = ruleOf(letter ?? "", term);
    const spec = `${rule} ${size} ${argument ?? ""} ${prime}`;
    if (!specs.includes(spec)) specs.push(spec);
    const blockSizeTokens = Number(size);
    groups.push({
      groupId,
      rule,
      blockSizeTokens,
      windowTokens: rule === "sliding_window" ? Number(argument) : 0,
      chunkTokens: rule === "chunked_local" ? Number(argument) : 0,
      specClass: specs.indexOf(spec),
      dropsBlock: isDropping(rule, groups.length, options.drops),
    });
    ends.push(parseEnds(held ?? "", blockSizeTokens, term));
  });
  const layout: RankLayout = {
    groups,
    ...deriveDefaults(groups, privateBlockSizes, options),
    lookaheadTokens: options.lookaheadTokens ?? 0,
    eagleBound: options.eagleBound ?? "hash_end",
    replayTokens: options.replayTokens ?? 0,
  };
  return { layout, ends };
}

function isDropping(rule: ReuseRule, position: number, drops: ScenarioOptions["drops"]): boolean {
  if (rule === "mamba" || rule === "chunked_local" || drops === undefined) return false;
  return drops === "all" || drops.includes(position);
}

function ruleOf(letter: string, term: string): ReuseRule {
  switch (letter) {
    case "F":
    case "MLA":
      return "full";
    case "S":
      return "sliding_window";
    case "M":
      return "mamba";
    case "C":
      return "chunked_local";
    default:
      return unreadable(term);
  }
}

function parseEnds(text: string, blockSizeTokens: number, term: string): Set<number> {
  const ends = new Set<number>();
  const range = /^(\d+)\.\.(\d+)$/.exec(text);
  if (range !== null) {
    for (let end = Number(range[1]); end <= Number(range[2]); end += blockSizeTokens) ends.add(end);
    return ends;
  }
  const list = /^\{(.*)\}$/.exec(text)?.[1] ?? unreadable(term);
  for (const item of list.split(",").filter((part) => part !== "")) {
    const [, digits, mark] = /^(\d+)(p?)$/.exec(item) ?? unreadable(term);
    const end = Number(digits);
    if ((end % blockSizeTokens !== 0) !== (mark === "p")) unreadable(term);
    ends.add(end);
  }
  return ends;
}

function unreadable(term: string): never {
  throw new TypeError(`cannot read the cache term "${term}"`);
}

function greatestCommonDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestCommonDivisor(right, left % right);
}

function leastCommonMultiple(left: number, right: number): number {
  return (left / greatestCommonDivisor(left, right)) * right;
}
