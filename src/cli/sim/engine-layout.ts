/**
 * What it is: the groups of a simulated engine, the sizes of their blocks, and how it names blocks.
 * Owns: nothing after it was drawn.
 * Refuses: nothing.
 * Does not do: hold blocks (engine-process.ts does), or look prompts up (engine-lookup.ts does).
 */

import { TREE_BLOCK_TOKENS } from "./prompt-tree.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";
import { HASH_UNITS_TOKENS, type TreeHashing } from "./tree-hashes.ts";

/** What the groups are. `stride`: blocks of the tree in one block of the group. */
export interface SimGroup {
  readonly groupId: number;
  readonly kind: "full_attention" | "sliding_window" | "mamba";
  readonly stride: number;
  readonly windowTokens: number | undefined;
}

/** What one seed decides of its engines. */
export interface SimLayout {
  readonly hasSliding: boolean;
  readonly hasMamba: boolean;
  /** Blocks of the sliding window that must be held. */
  readonly windowBlocks: number;
  /** Only the blocks that a later lookup needs are stored, as vLLM does by default. */
  readonly isSparse: boolean;
  /** Blocks of the tree in one block of the group. */
  readonly fullStride: number;
  readonly mambaStride: number;
  /** Hits inside blocks. */
  readonly isFine: boolean;
  /** Undefined = its hashes are made up. */
  readonly hashing: TreeHashing | undefined;
}

/** The groups of a layout. */
export function groupsOf(layout: SimLayout): readonly SimGroup[] {
  const groups: SimGroup[] = [
    { groupId: 0, kind: "full_attention", stride: layout.fullStride, windowTokens: undefined },
  ];
  if (layout.hasSliding) {
    const windowTokens = layout.windowBlocks * TREE_BLOCK_TOKENS;
    groups.push({ groupId: groups.length, kind: "sliding_window", stride: 1, windowTokens });
  }
  if (layout.hasMamba) {
    const stride = layout.mambaStride;
    groups.push({ groupId: groups.length, kind: "mamba", stride, windowTokens: undefined });
  }
  return groups;
}

/** S in blocks of the tree: the least common multiple of all strides. */
export function schedulerStride(groups: readonly SimGroup[]): number {
  let stride = 1;
  while (!groups.every((group) => stride % group.stride === 0)) stride++;
  return stride;
}

/** Partial entries are stored: the full group's blocks are larger than the hash unit. */
export function hasTails({ hashing, fullStride }: SimLayout): boolean {
  return hashing !== undefined && fullStride > 1;
}

/** Draws a layout. Half of the engines have hashes that can be recomputed. */
export function drawLayout(dice: SeededRandomness): SimLayout {
  const drawn = {
    hasSliding: dice.chance(0.6),
    hasMamba: dice.chance(0.4),
    windowBlocks: dice.between(2, 3),
    isSparse: dice.chance(0.5),
  };
  const narrow = { fullStride: 1, mambaStride: 2, isFine: false };
  if (dice.chance(0.5)) return { ...drawn, ...narrow, hashing: undefined };
  const algorithm = dice.chance(0.5) ? ("sha256" as const) : ("sha256_cbor" as const);
  const isBytes = dice.chance(0.4);
  const unitTokens = dice.pick(HASH_UNITS_TOKENS);
  const hashing = { algorithm, isBytes, unitTokens };
  if (dice.chance(0.2)) return { ...drawn, ...narrow, hashing };
  // As in vLLM: a recurrent block above the hash unit means hits inside blocks, unless a window's block is above it too.
  if (dice.chance(0.35)) {
    const hasMamba = drawn.hasMamba && unitTokens < TREE_BLOCK_TOKENS;
    const wide = { fullStride: dice.between(2, 3), mambaStride: 2, isFine: false };
    return { ...drawn, ...wide, hasSliding: true, hasMamba, hashing };
  }
  // The spans of a window's blocks tell every end, and blocks of two leave no end inside whose parent nobody tells.
  return {
    ...drawn,
    hasSliding: drawn.hasSliding && dice.chance(0.4),
    hasMamba: true,
    fullStride: dice.pick([2, 3, 3]),
    mambaStride: dice.pick([2, 3, 3]),
    isFine: true,
    hashing: { ...hashing, unitTokens: TREE_BLOCK_TOKENS },
  };
}
