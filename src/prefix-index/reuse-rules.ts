/**
 * What it is: vLLM's prefix-cache lookup over lists of ends: one function per rule and the joint
 * search.
 * Owns: nothing between calls; scratch and result belong to the caller, nothing is allocated once
 * warm.
 * Refuses: nothing; any ascending lists give an answer.
 * Does not do: know ranks, keys or media; say how sure the layout is.
 * Source: vLLM 0.33.0 v1/core/kv_cache_coordinator and v1/core/single_type_kv_cache_manager.
 */
import { unreachable } from "@kv-group-bridge/runtime";
import type { CompiledLayout, LookupClass } from "./compiled-layout.ts";
import { type EndList, GrowingEndList } from "./end-list.ts";

/** Filled by `computeReuse`. */
export interface ReuseResult {
  /** Prompt tokens that the engine would not compute again. */
  reusableTokens: number;
  /** The group that limited the answer (see `computeReuse`), or -1. */
  limitingGroupId: number;
}

/** Reusable buffers of `computeReuse`; one may serve all ranks in turn. */
export class ReuseScratch {
  /** Intersections of the members' ends, by class index. */
  readonly merged: readonly GrowingEndList[] = Array.from(
    { length: 32 },
    () => new GrowingEndList(),
  );
}

/**
 * What the engine would reuse of a prompt of `promptTokens`, given each group's ends in layout
 * order. Ends beyond the last hash end, floor((n - L) / H) * H, are ignored. The answer is at most
 * n - 1. `limitingGroupId` is the first member of the class that last lowered the candidate below
 * the largest position the prompt allows (n - 1 and the last hash end, aligned); -1 when no class
 * did. A replay window may set the answer to 0 afterwards without changing it.
 * Source: vLLM 0.33.0 v1/core/kv_cache_coordinator, `find_longest_cache_hit` of both coordinators.
 */
export function computeReuse(
  layout: CompiledLayout,
  promptTokens: number,
  ends: readonly EndList[],
  scratch: ReuseScratch,
  out: ReuseResult,
): void {
  const { classes } = layout;
  const hashEnd = lastHashEnd(layout, promptTokens);
  let length = Math.max(0, promptTokens - 1);
  const allowed = floorTo(Math.min(length, hashEnd), layout.alignmentTokens);
  mergeMembers(classes, ends, scratch);
  out.limitingGroupId = -1;
  /** Bit per class: its drop is done for the present candidate. */
  let dropped = 0;
  for (let isFirstPass = true; length > 0; isFirstPass = false) {
    let current = length;
    for (let index = 0; index < classes.length && current > 0; index++) {
      const lookupClass = classes[index] as LookupClass;
      // A full class is searched once: from then on the candidate is at most what it found.
      if (lookupClass.rule === "full" && !isFirstPass) continue;
      const drops = lookupClass.dropsBlock && (dropped & (1 << index)) === 0;
      const bound = searchBound(layout, lookupClass, current, drops, promptTokens);
      const list = endsOfClass(lookupClass, index, ends, scratch);
      const found = findEnd(layout, lookupClass, list, bound, hashEnd, drops);
      if (drops) dropped |= 1 << index;
      else if (found < current) dropped = 0;
      if (found < current && found < allowed) out.limitingGroupId = lookupClass.firstGroupId;
      current = found;
    }
    if (current >= length) break;
    length = current;
    if (layout.isSinglePass) break;
  }
  out.reusableTokens = length <= layout.replayTokens ? 0 : length;
}

/**
 * The largest position one group accepts by itself, for explanations: the first search of the joint
 * lookup with this group alone (drop and margin included, the replay window not). 0 when it accepts
 * none.
 */
export function computeOwnPosition(
  layout: CompiledLayout,
  promptTokens: number,
  group: number,
  ends: EndList,
): number {
  const lookupClass = layout.classes[layout.classOfGroup[group] as number] as LookupClass;
  const last = promptTokens - 1;
  if (last <= 0) return 0;
  const drops = lookupClass.dropsBlock;
  const bound = searchBound(layout, lookupClass, last, drops, promptTokens);
  const hashEnd = lastHashEnd(layout, promptTokens);
  return findEnd(layout, lookupClass, ends, bound, hashEnd, drops);
}

/** The last position whose hash the prompt has: floor((n - L) / H) * H. */
function lastHashEnd(layout: CompiledLayout, promptTokens: number): number {
  const hashed = promptTokens - layout.lookaheadTokens;
  return hashed <= 0 ? 0 : floorTo(hashed, layout.hashBlockSizeTokens);
}

/**
 * How far a class may look. A class that drops in a hybrid sees one margin more than the candidate,
 * so that the drop lands on it; never beyond the engine's own bound. A mamba state is never
 * dropped.
 */
function searchBound(
  layout: CompiledLayout,
  lookupClass: LookupClass,
  candidate: number,
  drops: boolean,
  promptTokens: number,
): number {
  if (!drops || layout.isUnitary || lookupClass.rule === "mamba") return candidate;
  const limit = layout.isBoundedByHashEnd ? lastHashEnd(layout, promptTokens) : promptTokens - 1;
  return Math.min(candidate + lookupClass.marginTokens, limit);
}

function findEnd(
  layout: CompiledLayout,
  lookupClass: LookupClass,
  ends: EndList,
  bound: number,
  hashEnd: number,
  drops: boolean,
): number {
  const readable = Math.min(bound, hashEnd);
  const alignment = layout.alignmentTokens;
  switch (lookupClass.rule) {
    case "full":
      return findFull(lookupClass, alignment, ends, readable, drops);
    case "sliding_window":
      return findSlidingWindow(lookupClass, alignment, ends, readable, drops);
    case "mamba":
      return findMamba(alignment, ends, readable);
    case "chunked_local":
      return findChunkedLocal(lookupClass, ends, bound, readable);
    default:
      return unreachable(lookupClass.rule, "a rule has a finder");
  }
}

/**
 * Full attention: every block end from the root is cached. In fine mode (alignment below the block
 * size) the largest cached end strictly inside the next block extends the chain: such an entry
 * stands for its block up to there. A drop gives up one alignment unit, at most a block.
 */
function findFull(
  lookupClass: LookupClass,
  alignment: number,
  ends: EndList,
  bound: number,
  drops: boolean,
): number {
  const { tokens, count } = ends;
  const block = lookupClass.blockSizeTokens;
  let chain = 0;
  let inside = 0;
  for (let i = 0; i < count; i++) {
    const end = tokens[i] as number;
    if (end > bound || end > chain + block) break;
    if (end === chain + block) chain = end;
    else if (end > chain && end % alignment === 0) inside = end;
  }
  let hit = alignment < block && inside > chain ? inside : chain;
  if (drops && hit > 0) hit -= Math.min(alignment, block);
  return floorTo(hit, alignment);
}

/**
 * Sliding window: enough cached blocks in a row end at an aligned position, or all blocks from the
 * root do and they are fewer. With a drop one block more is needed and the last one is given up. A
 * short run from the root is rounded down before and after its drop, as the engine does, and can
 * lose one S more.
 */
function findSlidingWindow(
  lookupClass: LookupClass,
  alignment: number,
  ends: EndList,
  bound: number,
  drops: boolean,
): number {
  const { tokens } = ends;
  const block = lookupClass.blockSizeTokens;
  const need = drops ? lookupClass.windowBlocksWithDrop : lookupClass.windowBlocks;
  let i = countUpTo(ends, bound) - 1;
  while (i >= 0) {
    const end = tokens[i] as number;
    const position = drops ? end - block : end;
    i -= 1;
    if (end % block !== 0 || position % alignment !== 0) continue;
    let run = 1;
    let missing = end - block;
    while (run < need && missing > 0) {
      while (i >= 0 && (tokens[i] as number) > missing) i -= 1;
      if (i < 0 || tokens[i] !== missing) break;
      run += 1;
      missing -= block;
      i -= 1;
    }
    if (run === need) return position;
    if (missing === 0) {
      const aligned = floorTo(end, alignment);
      return drops ? floorTo(Math.max(0, aligned - block), alignment) : aligned;
    }
  }
  return 0;
}

/** Mamba: a state ends exactly at the position. It never drops. */
function findMamba(alignment: number, ends: EndList, bound: number): number {
  for (let i = countUpTo(ends, bound) - 1; i >= 0; i--) {
    const end = ends.tokens[i] as number;
    if (end % alignment === 0) return end;
  }
  return 0;
}

/**
 * Chunked local: all blocks from the start of the bound's chunk are cached; the start itself needs
 * none. `bound` is the candidate, `readable` the last end that may be read.
 */
function findChunkedLocal(
  lookupClass: LookupClass,
  ends: EndList,
  bound: number,
  readable: number,
): number {
  const block = lookupClass.blockSizeTokens;
  let hit = floorTo(floorTo(bound, lookupClass.chunkTokens), block);
  for (let i = countUpTo(ends, hit); i < ends.count; i++) {
    const end = ends.tokens[i] as number;
    if (end > readable || end > hit + block) break;
    if (end === hit + block) hit = end;
  }
  return hit;
}

/** Number of ends at or below `bound`. */
function countUpTo(ends: EndList, bound: number): number {
  let low = 0;
  let high = ends.count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ends.tokens[middle] as number) <= bound) low = middle + 1;
    else high = middle;
  }
  return low;
}

function endsOfClass(
  lookupClass: LookupClass,
  index: number,
  ends: readonly EndList[],
  scratch: ReuseScratch,
): EndList {
  const { members } = lookupClass;
  if (members.length === 1) return ends[members[0] as number] as EndList;
  return scratch.merged[index] as EndList;
}

/** For each class of several groups: the ends that every member has. */
function mergeMembers(
  classes: readonly LookupClass[],
  ends: readonly EndList[],
  scratch: ReuseScratch,
): void {
  for (let index = 0; index < classes.length; index++) {
    const { members } = classes[index] as LookupClass;
    if (members.length === 1) continue;
    const merged = scratch.merged[index] as GrowingEndList;
    const first = ends[members[0] as number] as EndList;
    merged.count = 0;
    merged.reserve(first.count);
    for (let i = 0; i < first.count; i++) merged.tokens[i] = first.tokens[i] as number;
    merged.count = first.count;
    for (let member = 1; member < members.length; member++) {
      keepCommon(merged, ends[members[member] as number] as EndList);
    }
  }
}

function keepCommon(merged: GrowingEndList, other: EndList): void {
  let kept = 0;
  let j = 0;
  for (let i = 0; i < merged.count; i++) {
    const end = merged.tokens[i] as number;
    while (j < other.count && (other.tokens[j] as number) < end) j += 1;
    if (j < other.count && other.tokens[j] === end) {
      merged.tokens[kept] = end;
      kept += 1;
    }
  }
  merged.count = kept;
}

function floorTo(value: number, unit: number): number {
  return value - (value % unit);
}
