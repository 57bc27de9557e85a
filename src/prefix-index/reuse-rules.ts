/**
 * What it is: vLLM's prefix-cache lookup over runs of ends: one function per rule and the joint
 * search.
 * Owns: nothing between calls; the result belongs to the caller, nothing is allocated once warm.
 * Refuses: nothing; any runs give an answer.
 * Does not do: know ranks, keys or media; say how sure the layout is.
 * Source: vLLM 0.33.0 v1/core/kv_cache_coordinator and v1/core/single_type_kv_cache_manager.
 */
import { unreachable } from "@kv-group-bridge/runtime";
import type { CompiledLayout, LookupClass } from "./compiled-layout.ts";
import type { EndRuns } from "./end-runs.ts";
import { floorTo, RUN_WORDS, word } from "./words.ts";

/** Filled by `computeReuse`. */
export interface ReuseResult {
  /** Prompt tokens that the engine would not compute again. */
  reusableTokens: number;
  /** The group that limited the answer (see `computeReuse`), or -1. */
  limitingGroupId: number;
}

/** Ends a group as its rule wants it: mamba's runs as they came, all others by blocks. */
export function closeGroup(layout: CompiledLayout, group: number, runs: EndRuns): void {
  const lookupClass = classOf(layout, group);
  if (lookupClass.rule === "mamba") runs.close(group);
  else runs.closeByBlocks(group, lookupClass.blockSizeTokens);
}

/**
 * What the engine would reuse of a prompt of `promptTokens`, given each group's ends in layout
 * order, each closed by `closeGroup`. Ends beyond the last hash end, floor((n - L) / H) * H, are
 * ignored. The answer is at most n - 1. `limitingGroupId` is the first member of the class that last
 * lowered the candidate below the largest position the prompt allows (n - 1 and the last hash end,
 * aligned); -1 when no class did. A replay window may set the answer to 0 afterwards without
 * changing it.
 * Source: vLLM 0.33.0 v1/core/kv_cache_coordinator, `find_longest_cache_hit` of both coordinators.
 */
export function computeReuse(
  layout: CompiledLayout,
  promptTokens: number,
  runs: EndRuns,
  out: ReuseResult,
): void {
  const { classes } = layout;
  const hashEnd = lastHashEnd(layout, promptTokens);
  let length = Math.max(0, promptTokens - 1);
  const allowed = floorTo(Math.min(length, hashEnd), layout.alignmentTokens);
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
      const found = findEnd(layout, lookupClass, lookupClass.members, runs, bound, hashEnd, drops);
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
 * none. Allocates.
 */
export function computeOwnPosition(
  layout: CompiledLayout,
  promptTokens: number,
  group: number,
  runs: EndRuns,
): number {
  const lookupClass = classOf(layout, group);
  const last = promptTokens - 1;
  if (last <= 0) return 0;
  const drops = lookupClass.dropsBlock;
  const bound = searchBound(layout, lookupClass, last, drops, promptTokens);
  const hashEnd = lastHashEnd(layout, promptTokens);
  return findEnd(layout, lookupClass, Int32Array.of(group), runs, bound, hashEnd, drops);
}

function classOf(layout: CompiledLayout, group: number): LookupClass {
  return layout.classes[word(layout.classOfGroup, group)] as LookupClass;
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

/** The search of one class; an end counts when every one of `members` has it. */
function findEnd(
  layout: CompiledLayout,
  lookupClass: LookupClass,
  members: Int32Array,
  runs: EndRuns,
  bound: number,
  hashEnd: number,
  drops: boolean,
): number {
  const readable = Math.min(bound, hashEnd);
  const alignment = layout.alignmentTokens;
  switch (lookupClass.rule) {
    case "full":
      return findFull(lookupClass, members, alignment, runs, readable, drops);
    case "sliding_window":
      return findSlidingWindow(lookupClass, members, alignment, runs, readable, drops);
    case "mamba":
      return findMamba(members, alignment, runs, readable);
    case "chunked_local":
      return findChunkedLocal(lookupClass, members, runs, bound, readable);
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
  members: Int32Array,
  alignment: number,
  runs: EndRuns,
  bound: number,
  drops: boolean,
): number {
  const block = lookupClass.blockSizeTokens;
  let hit = floorTo(bound, block);
  for (let i = 0; i < members.length && hit > 0; i++) {
    const group = word(members, i);
    const at = word(runs.starts, group);
    const isFromRoot = word(runs.counts, group) > 0 && word(runs.words, at) === block;
    hit = isFromRoot ? Math.min(hit, word(runs.words, at + 1)) : 0;
  }
  if (alignment < block) {
    const last = Math.min(bound, hit + block - 1);
    hit = Math.max(hit, largestCommon(members, alignment, runs, last, true));
  }
  if (drops && hit > 0) hit -= Math.min(alignment, block);
  return floorTo(hit, alignment);
}

/** The largest aligned end <= bound that all members have, anywhere or inside a block alone; 0 when none. */
function largestCommon(
  members: Int32Array,
  alignment: number,
  runs: EndRuns,
  bound: number,
  isInside: boolean,
): number {
  let end = bound;
  for (let agreed = 0; agreed < members.length && end > 0; ) {
    for (let i = 0; i < members.length && agreed < members.length && end > 0; i++) {
      const member = word(members, i);
      const found = isInside
        ? runs.largestInside(member, alignment, end)
        : runs.largest(member, alignment, end);
      agreed = found === end ? agreed + 1 : 1;
      end = found;
    }
  }
  return end;
}

/**
 * Sliding window: enough cached blocks in a row end at an aligned position, or all blocks from the
 * root do and they are fewer. With a drop one block more is needed and the last one is given up. A
 * short run from the root is rounded down before and after its drop, as the engine does, and can
 * lose one S more.
 */
function findSlidingWindow(
  lookupClass: LookupClass,
  members: Int32Array,
  alignment: number,
  runs: EndRuns,
  bound: number,
  drops: boolean,
): number {
  const block = lookupClass.blockSizeTokens;
  const need = drops ? lookupClass.windowBlocksWithDrop : lookupClass.windowBlocks;
  const given = drops ? block : 0;
  const list = runs.common;
  list.find(members, block, runs);
  const { words } = list;
  for (let at = list.start + (list.count - 1) * RUN_WORDS; at >= list.start; at -= RUN_WORDS) {
    const first = word(words, at);
    if (first > bound) continue;
    const last = Math.min(word(words, at + 1), floorTo(bound, block));
    // The largest end of the run whose position is aligned; S is a multiple of b.
    const end = floorTo(last - given, alignment) + given;
    if (end < first) continue;
    if ((end - first) / block + 1 >= need) return end - given;
    if (first === block) {
      const aligned = floorTo(end, alignment);
      return drops ? floorTo(Math.max(0, aligned - block), alignment) : aligned;
    }
  }
  return 0;
}

/** Mamba: a state ends exactly at the position. It never drops. */
function findMamba(members: Int32Array, alignment: number, runs: EndRuns, bound: number): number {
  if (members.length === 1) return runs.largest(word(members, 0), alignment, bound);
  return largestCommon(members, alignment, runs, bound, false);
}

/**
 * Chunked local: all blocks from the start of the bound's chunk are cached; the start itself needs
 * none. `bound` is the candidate, `readable` the last end that may be read.
 */
function findChunkedLocal(
  lookupClass: LookupClass,
  members: Int32Array,
  runs: EndRuns,
  bound: number,
  readable: number,
): number {
  const block = lookupClass.blockSizeTokens;
  const start = floorTo(floorTo(bound, lookupClass.chunkTokens), block);
  let hit = Math.max(start, floorTo(readable, block));
  for (let i = 0; i < members.length && hit > start; i++) {
    const group = word(members, i);
    const from = word(runs.starts, group);
    let reached = start;
    for (let k = 0; k < word(runs.counts, group); k++) {
      const at = from + k * RUN_WORDS;
      const isNext = word(runs.words, at) <= start + block && word(runs.words, at + 1) > start;
      if (isNext) reached = word(runs.words, at + 1);
    }
    hit = Math.min(hit, reached);
  }
  return hit;
}
