/**
 * What it is: a rank's layout turned into what one lookup needs, once per `setLayout`.
 * Owns: the order of the classes and the numbers derived from the layout.
 * Refuses: a layout that `checkRankLayout` refuses (our bug: the caller checks).
 * Does not do: look anything up.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { checkRankLayout } from "./check-rank-layout.ts";
import type { GroupLayout, RankLayout, ReuseRule } from "./layout.ts";

/**
 * Groups of identical spec: they are searched together, and an end counts when every member has it.
 */
export interface LookupClass {
  readonly rule: ReuseRule;
  /** b in tokens. */
  readonly blockSizeTokens: number;
  /** Blocks that a window needs: max(1, ceil((W - 1) / b)); 0 for other rules. */
  readonly windowBlocks: number;
  /** The same with a drop: max(1, ceil((W - 1) / b) + 1); 0 for other rules. */
  readonly windowBlocksWithDrop: number;
  /** C in tokens; 0 for other rules. */
  readonly chunkTokens: number;
  /**
   * EAGLE drop mode is on for this class (a member is marked and there are no look-ahead hashes).
   */
  readonly dropsBlock: boolean;
  /**
   * How far beyond the candidate a drop may look, in tokens: H where a search inside blocks is
   * possible.
   */
  readonly marginTokens: number;
  /** Indices into `RankLayout.groups`, ascending. */
  readonly members: Int32Array;
  /** The group named when this class limits the answer. */
  readonly firstGroupId: number;
}

/** A layout ready for lookups. */
export interface CompiledLayout {
  /** Full classes first, otherwise by first member. */
  readonly classes: readonly LookupClass[];
  /** Class index of each group of the layout. */
  readonly classOfGroup: Int32Array;
  /** A: what every answer is a multiple of, in tokens. */
  readonly alignmentTokens: number;
  /** H: the grid of ends, in tokens (the block size when unitary). */
  readonly hashBlockSizeTokens: number;
  /** L in tokens. */
  readonly lookaheadTokens: number;
  readonly isUnitary: boolean;
  /** Unitary, or one full class and one other: the engine makes exactly one pass. */
  readonly isSinglePass: boolean;
  /** A dropping class is bounded by the last hash end, else by n - 1. */
  readonly isBoundedByHashEnd: boolean;
  /** R in tokens. */
  readonly replayTokens: number;
  /** Group index of the first member of the first full class, -1 without one. */
  readonly leadGroup: number;
  /** No lookup reads an end this many tokens beyond the lead group's unbroken chain. */
  readonly reachTokens: number;
}

/**
 * Compiles a sound layout. Order of classes as in vLLM 0.33.0 v1/core/kv_cache_coordinator
 * (`verify_and_split_kv_cache_groups`): by first member, then full attention moved to the front.
 */
export function compileLayout(layout: RankLayout): CompiledLayout {
  invariant(checkRankLayout(layout) === undefined, "a layout is checked before it is compiled");
  const isUnitary = layout.coordinator === "unitary";
  const membersOfSpec = new Map<number, number[]>();
  for (const [index, group] of layout.groups.entries()) {
    const members = membersOfSpec.get(group.specClass);
    if (members === undefined) membersOfSpec.set(group.specClass, [index]);
    else members.push(index);
  }
  const classes: LookupClass[] = [];
  for (const members of membersOfSpec.values()) classes.push(compileClass(layout, members));
  classes.sort((a, b) => Number(a.rule !== "full") - Number(b.rule !== "full"));
  const classOfGroup = new Int32Array(layout.groups.length);
  let widestBlock = 0;
  for (const [index, lookupClass] of classes.entries()) {
    for (const member of lookupClass.members) classOfGroup[member] = index;
    widestBlock = Math.max(widestBlock, lookupClass.blockSizeTokens);
  }
  const first = classes[0];
  invariant(first !== undefined, "a layout has a class");
  const hash = isUnitary ? first.blockSizeTokens : layout.hashBlockSizeTokens;
  const coarse = isUnitary ? first.blockSizeTokens : layout.schedulerBlockSizeTokens;
  const hasLead = first.rule === "full";
  return {
    classes,
    classOfGroup,
    alignmentTokens: layout.isFine ? hash : coarse,
    hashBlockSizeTokens: hash,
    lookaheadTokens: layout.lookaheadTokens,
    isUnitary,
    isSinglePass: isUnitary || (classes.length === 2 && hasLead),
    isBoundedByHashEnd: layout.eagleBound === "hash_end",
    replayTokens: layout.replayTokens,
    leadGroup: hasLead ? (first.members[0] ?? -1) : -1,
    reachTokens: first.blockSizeTokens + widestBlock,
  };
}

function compileClass(layout: RankLayout, members: readonly number[]): LookupClass {
  const groups: GroupLayout[] = [];
  for (const member of members) {
    const group = layout.groups[member];
    invariant(group !== undefined, "a member is a group of the layout");
    groups.push(group);
  }
  const first = groups[0];
  invariant(first !== undefined, "a class has a member");
  const block = first.blockSizeTokens;
  const isWindow = first.rule === "sliding_window";
  const earlierBlocks = Math.ceil((first.windowTokens - 1) / block);
  const canSearchInside =
    first.rule === "full" && layout.isFine && block > layout.hashBlockSizeTokens;
  return {
    rule: first.rule,
    blockSizeTokens: block,
    windowBlocks: isWindow ? Math.max(1, earlierBlocks) : 0,
    windowBlocksWithDrop: isWindow ? Math.max(1, earlierBlocks + 1) : 0,
    chunkTokens: first.chunkTokens,
    dropsBlock: layout.lookaheadTokens === 0 && groups.some((group) => group.dropsBlock),
    marginTokens: canSearchInside ? layout.hashBlockSizeTokens : block,
    members: Int32Array.from(members),
    firstGroupId: first.groupId,
  };
}
