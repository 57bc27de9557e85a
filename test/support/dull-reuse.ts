/**
 * What it is: the dull twin of the reuse computation: how many prompt tokens a vLLM rank would take
 * from its cache, given the layout of its groups and the ends each group holds. It is the judge of
 * the fast prefix index, so it is written from the reference text and from nothing else.
 * Owns: nothing; every call starts from its arguments.
 * Refuses: nothing. A layout that no engine can have (a block size below 1, chunked local without a
 * chunk size) answers 0; a "unitary" layout that lists several groups is treated as hybrid.
 * Does not do: filter media, look at hashes, be fast. The rules it can be told to break
 * (`DullRules`) are there for planting mutants; the default breaks none.
 */

import type { GroupLayout, RankLayout } from "../../src/prefix-index/layout.ts";

/** The ends that one group holds; a function of this shape can be judged against `dullReuse`. */
export type ReuseFunction = (
  layout: RankLayout,
  promptTokens: number,
  ends: readonly ReadonlySet<number>[],
) => number;

/** One switch per rule that a layout cannot express. */
export interface DullRules {
  /** The last token is always computed again: no position beyond n - 1. */
  readonly keepsLastToken: boolean;
  /** A hit is a multiple of S (of H in fine mode), not only of the group's own block. */
  readonly alignsHits: boolean;
  /** How the classes' answers become one. */
  readonly combines: "fixed_point" | "one_pass" | "best" | "lowest";
  /** One full class + one other class: a single pass. */
  readonly stopsSimpleHybrid: boolean;
  /** Full classes are searched before the others. */
  readonly putsFullFirst: boolean;
  /** A full class is searched once and afterwards only caps. */
  readonly searchesFullOnce: boolean;
  /** Groups of one spec class: an entry exists only if every member has it. */
  readonly intersectsMembers: boolean;
  /** A full class stops at its first missing block. */
  readonly stopsAtHoles: boolean;
  /** A full class goes on inside a block to its largest partial entry, in fine mode. */
  readonly extendsPartially: boolean;
  /** Added to the number of blocks a window needs. */
  readonly windowErrorBlocks: number;
  /** A run from the root that is shorter than the window is enough. */
  readonly acceptsShortRuns: boolean;
  /** A recurrent state serves its own position only. */
  readonly needsExactState: boolean;
  /** A class drops once per candidate: "always" drops in every pass, "once" never again. */
  readonly drops: "once_per_candidate" | "always" | "once";
}

/** The engine's rules. */
export const engineRules: DullRules = {
  keepsLastToken: true,
  alignsHits: true,
  combines: "fixed_point",
  stopsSimpleHybrid: true,
  putsFullFirst: true,
  searchesFullOnce: true,
  intersectsMembers: true,
  stopsAtHoles: true,
  extendsPartially: true,
  windowErrorBlocks: 0,
  acceptsShortRuns: true,
  needsExactState: true,
  drops: "once_per_candidate",
};

/** Groups of one spec, looked up together. */
interface SpecClass {
  readonly group: GroupLayout;
  readonly entries: ReadonlySet<number>;
  readonly drops: boolean;
  readonly alignmentTokens: number;
}

/**
 * Tokens that the rank would reuse for a prompt of `promptTokens` tokens. `ends[i]` is what
 * `layout.groups[i]` holds of this prompt; a missing set is an empty one, ends beyond the prompt's
 * last hash do not exist. Never below 0, never above max(0, promptTokens - 1).
 */
export function dullReuse(
  layout: RankLayout,
  promptTokens: number,
  ends: readonly ReadonlySet<number>[],
  rules: DullRules = engineRules,
): number {
  if (promptTokens < 2 || layout.groups.length === 0 || !layout.groups.every(isPossible)) return 0;
  const classes = specClasses(layout, promptTokens, ends, rules);
  const only = layout.groups.length === 1 ? classes[0] : undefined;
  const bound = rules.keepsLastToken ? promptTokens - 1 : promptTokens;
  const answer =
    only !== undefined && layout.coordinator === "unitary"
      ? find(only, bound, only.drops && canDrop(only), rules)
      : hybridAnswer(layout, promptTokens, bound, classes, rules);
  return answer <= layout.replayTokens ? 0 : answer;
}

function isPossible(group: GroupLayout): boolean {
  return group.blockSizeTokens > 0 && (group.rule !== "chunked_local" || group.chunkTokens > 0);
}

/** Rounds down to a multiple. */
function floorTo(tokens: number, unitTokens: number): number {
  return Math.floor(tokens / unitTokens) * unitTokens;
}

function specClasses(
  layout: RankLayout,
  promptTokens: number,
  ends: readonly ReadonlySet<number>[],
  rules: DullRules,
): SpecClass[] {
  const lookahead = layout.lookaheadTokens;
  const hashEnd = floorTo(promptTokens - lookahead, layout.hashBlockSizeTokens);
  const members = new Map<number, number[]>();
  layout.groups.forEach((group, position) => {
    members.set(group.specClass, [...(members.get(group.specClass) ?? []), position]);
  });
  const classes: SpecClass[] = [];
  for (const positions of members.values()) {
    const groups = layout.groups.filter((_, position) => positions.includes(position));
    const group = groups[0];
    if (group === undefined) continue;
    const held = positions.map((position) => ends[position] ?? new Set<number>());
    const entries = new Set<number>();
    for (const end of held.flatMap((set) => [...set])) {
      const isHeld = rules.intersectsMembers
        ? held.every((set) => set.has(end))
        : held.some((set) => set.has(end));
      if (isHeld && end > 0 && end <= hashEnd) entries.add(end);
    }
    // One marked member makes the whole class drop: its members share blocks' fate and lookup.
    // With look-ahead hashes nothing drops: the hash has already seen the token the drop protects.
    const drops = lookahead === 0 && groups.some((member) => member.dropsBlock);
    classes.push({ group, entries, drops, alignmentTokens: alignmentOf(layout, group, rules) });
  }
  if (!rules.putsFullFirst) return classes;
  const isFull = (spec: SpecClass): boolean => spec.group.rule === "full";
  return [...classes.filter(isFull), ...classes.filter((spec) => !isFull(spec))];
}

function alignmentOf(layout: RankLayout, group: GroupLayout, rules: DullRules): number {
  const isSingle = layout.coordinator === "unitary" && layout.groups.length === 1;
  if (isSingle) return group.blockSizeTokens;
  if (layout.isFine) return layout.hashBlockSizeTokens;
  return rules.alignsHits ? layout.schedulerBlockSizeTokens : group.blockSizeTokens;
}

function hybridAnswer(
  layout: RankLayout,
  promptTokens: number,
  bound: number,
  classes: readonly SpecClass[],
  rules: DullRules,
): number {
  const dropBound =
    layout.eagleBound === "hash_end" ? floorTo(promptTokens, layout.hashBlockSizeTokens) : bound;
  if (rules.combines === "best" || rules.combines === "lowest") {
    const alone = classes.map((spec) => find(spec, bound, spec.drops && canDrop(spec), rules));
    return rules.combines === "best" ? Math.max(...alone) : Math.min(...alone);
  }
  const isSimple = classes.length === 2 && classes[0]?.group.rule === "full";
  const stopsAtOnce = rules.combines === "one_pass" || (isSimple && rules.stopsSimpleHybrid);
  const fullHits = new Map<SpecClass, number>();
  const dropped = new Set<SpecClass>();
  let candidate = bound;
  for (;;) {
    const before = candidate;
    for (const spec of classes) {
      const fullHit = fullHits.get(spec);
      if (fullHit !== undefined) {
        candidate = Math.min(candidate, fullHit);
        continue;
      }
      const isAffected = spec.drops && !dropped.has(spec);
      const isDropping = isAffected && canDrop(spec);
      const limit = isDropping
        ? Math.min(candidate + dropUnit(layout, spec.group), dropBound)
        : candidate;
      const found = find(spec, limit, isDropping, rules);
      // "A non-dropping class lowers L": any lookup made without a drop, also that of a class whose
      // drop is spent. The drops made so far were checked for a longer candidate than this one.
      if (isAffected && rules.drops !== "always") dropped.add(spec);
      else if (found < candidate && rules.drops !== "once") dropped.clear();
      candidate = found;
      if (spec.group.rule === "full" && rules.searchesFullOnce) fullHits.set(spec, found);
    }
    if (candidate >= before || stopsAtOnce) return candidate;
  }
}

/** Only attention over a prefix or a window gives up a block; chunked local excludes EAGLE. */
function canDrop(spec: SpecClass): boolean {
  return spec.group.rule === "full" || spec.group.rule === "sliding_window";
}

function dropUnit(layout: RankLayout, group: GroupLayout): number {
  const hashUnit = layout.hashBlockSizeTokens;
  const isInside = group.rule === "full" && layout.isFine && group.blockSizeTokens > hashUnit;
  return isInside ? hashUnit : group.blockSizeTokens;
}

/** The largest position up to `limit` that the class accepts, after its drop; 0 if none. */
function find(spec: SpecClass, limit: number, isDropping: boolean, rules: DullRules): number {
  switch (spec.group.rule) {
    case "full":
      return findFull(spec, limit, isDropping, rules);
    case "sliding_window":
      return findWindow(spec, limit, isDropping, rules);
    case "mamba":
      return findState(spec, limit, rules);
    case "chunked_local":
      return findChunk(spec, limit);
  }
}

function findFull(spec: SpecClass, limit: number, isDropping: boolean, rules: DullRules): number {
  const { entries, alignmentTokens } = spec;
  const block = spec.group.blockSizeTokens;
  let whole = 0;
  for (let end = block; end <= limit; end += block) {
    if (entries.has(end)) whole = end;
    else if (rules.stopsAtHoles) break;
  }
  let hit = whole;
  if (alignmentTokens < block && rules.extendsPartially) {
    for (const end of entries) {
      const isInside = end > whole && end < whole + block;
      if (isInside && end <= limit && end % alignmentTokens === 0 && end > hit) hit = end;
    }
  }
  if (isDropping && hit > 0) hit -= Math.min(alignmentTokens, block);
  return floorTo(hit, alignmentTokens);
}

function findWindow(spec: SpecClass, limit: number, isDropping: boolean, rules: DullRules): number {
  const { entries, alignmentTokens } = spec;
  const block = spec.group.blockSizeTokens;
  // A window of 1 needs no earlier token; the search still ends on one cached block, which may be the dropped one.
  const windowBlocks = Math.ceil((spec.group.windowTokens - 1) / block) + rules.windowErrorBlocks;
  const neededBlocks = Math.max(1, windowBlocks + (isDropping ? 1 : 0));
  let end = floorTo(limit, block);
  while (end > 0) {
    const resume = isDropping ? end - block : end;
    if (!entries.has(end) || resume % alignmentTokens !== 0) {
      end -= block;
      continue;
    }
    let runBlocks = 0;
    while (runBlocks < neededBlocks && entries.has(end - runBlocks * block)) runBlocks += 1;
    if (runBlocks >= neededBlocks) return resume;
    const missing = end - runBlocks * block;
    if (missing <= 0 && rules.acceptsShortRuns) {
      // Rounded before and after the drop: with b < S this can lose one S more than the drop.
      const aligned = floorTo(end, alignmentTokens);
      return isDropping ? floorTo(Math.max(0, aligned - block), alignmentTokens) : aligned;
    }
    end = missing - block;
  }
  return 0;
}

function findState(spec: SpecClass, limit: number, rules: DullRules): number {
  const { entries, alignmentTokens } = spec;
  if (!rules.needsExactState) {
    return floorTo(Math.min(limit, Math.max(0, ...entries)), alignmentTokens);
  }
  const step = Math.min(spec.group.blockSizeTokens, alignmentTokens);
  let best = 0;
  for (const end of entries) {
    if (end <= limit && end % step === 0 && end % alignmentTokens === 0 && end > best) best = end;
  }
  return best;
}

function findChunk(spec: SpecClass, limit: number): number {
  const block = spec.group.blockSizeTokens;
  const chunk = spec.group.chunkTokens;
  let end = floorTo(floorTo(limit, chunk), block);
  while (end + block <= limit && spec.entries.has(end + block)) end += block;
  return end;
}
