/**
 * What it is: the judge of a rank's layout, from engine facts that may be configured by hand.
 * Owns: nothing.
 * Refuses: by naming the first rule that is broken; vLLM itself refuses to start with most of them.
 * Does not do: repair a layout or fill in defaults.
 */
import type { GroupLayout, RankLayout } from "./layout.ts";

/** Groups of one rank that an index can tell apart: one bit each. */
export const MAX_GROUPS = 32;

/**
 * The largest prompt position, in tokens, that an index stores or scores; sums of two stay small
 * integers.
 */
export const MAX_POSITION_TOKENS = 0x3fff_ffff;

/**
 * The first rule that `layout` breaks, in words for a log, or undefined when it is sound.
 * Source of the rules: vLLM 0.33.0 v1/core/kv_cache_coordinator (block sizes are multiples of the
 * hash unit and divide the scheduler block; one group means one block size; fine hits need searches
 * inside a block) and v1/core/single_type_kv_cache_manager (chunked local attention: own block size
 * is the hit alignment, no EAGLE). A unitary layout may name a finer hash unit: vLLM ignores it and
 * so does the index.
 */
export function checkRankLayout(layout: RankLayout): string | undefined {
  const { groups } = layout;
  if (groups.length < 1 || groups.length > MAX_GROUPS) return "a layout has 1 to 32 groups";
  if (!isPositive(layout.schedulerBlockSizeTokens)) return "S is not a positive integer";
  if (!isPositive(layout.hashBlockSizeTokens)) return "H is not a positive integer";
  if (layout.schedulerBlockSizeTokens % layout.hashBlockSizeTokens !== 0) {
    return "S is not a multiple of H";
  }
  if (!isCount(layout.lookaheadTokens)) return "the look-ahead is not an integer >= 0";
  if (!isCount(layout.replayTokens)) return "the replay window is not an integer >= 0";
  for (const group of groups) {
    const broken = checkGroup(layout, group);
    if (broken !== undefined) return broken;
  }
  return layout.coordinator === "unitary" ? checkUnitary(layout) : undefined;
}

function checkUnitary(layout: RankLayout): string | undefined {
  if (layout.groups.length !== 1) return "a unitary layout has exactly one group";
  if (layout.isFine) return "a unitary layout has no fine mode";
  if (layout.groups[0]?.blockSizeTokens !== layout.schedulerBlockSizeTokens) {
    return "S of a unitary layout is its group's block size";
  }
  return undefined;
}

function checkGroup(layout: RankLayout, group: GroupLayout): string | undefined {
  const { blockSizeTokens: block, rule } = group;
  if (group.groupId >>> 0 !== group.groupId) return "a group id is not a uint32";
  if (!isPositive(block)) return "a block size is not a positive integer";
  if (block % layout.hashBlockSizeTokens !== 0) return "a block size is not a multiple of H";
  if (layout.schedulerBlockSizeTokens % block !== 0) return "S is not a multiple of a block size";
  if (rule === "sliding_window" ? !isPositive(group.windowTokens) : group.windowTokens !== 0) {
    return "a window is a positive integer for sliding_window, else 0";
  }
  if (rule === "chunked_local" ? !isPositive(group.chunkTokens) : group.chunkTokens !== 0) {
    return "a chunk size is a positive integer for chunked_local, else 0";
  }
  if (layout.isFine && rule === "sliding_window" && block !== layout.hashBlockSizeTokens) {
    return "fine mode needs sliding windows of block size H";
  }
  if (rule === "chunked_local") {
    const alignment = layout.isFine ? layout.hashBlockSizeTokens : layout.schedulerBlockSizeTokens;
    if (block !== alignment) return "chunked local attention needs its block size as alignment";
    if (group.dropsBlock || layout.lookaheadTokens > 0)
      return "chunked local attention has no EAGLE";
  }
  return checkAgainstOthers(layout, group);
}

function checkAgainstOthers(layout: RankLayout, group: GroupLayout): string | undefined {
  for (const other of layout.groups) {
    if (other === group) continue;
    if (other.groupId === group.groupId) return "two groups have one id";
    if (other.specClass !== group.specClass) continue;
    const isSameSpec =
      other.rule === group.rule &&
      other.blockSizeTokens === group.blockSizeTokens &&
      other.windowTokens === group.windowTokens &&
      other.chunkTokens === group.chunkTokens;
    if (!isSameSpec) return "groups of one spec class differ";
  }
  return undefined;
}

function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_POSITION_TOKENS;
}

function isPositive(value: number): boolean {
  return isCount(value) && value > 0;
}
