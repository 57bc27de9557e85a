/**
 * What it is: what a mirror is given and what it tells: its sink, its bounds and rules, what it is restored from.
 * Owns: types, the default bounds, and what an engine's configuration makes of them.
 * Refuses: nothing.
 * Does not do: hold anything.
 */
import {
  type BlockHash,
  type GroupId,
  LIMITS,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import type { Block, Slot } from "./block.ts";
import type { EngineConfig, RemovalRule } from "./engine-config.ts";

/** What the mirror tells. "Stored" and "removed" are transitions: a count left 0 or came back to it. */
export interface MirrorSink {
  /** A placed block is held in `slot` now. */
  stored(slot: Slot, block: Block): void;
  /** A block, placed or not, is held in `slot` no more. */
  removed(slot: Slot, block: Block): void;
  /** A block without a place, but with a tail, is held in `slot` at the end of a batch. */
  unplacedStored(slot: Slot, block: Block): void;
  /** What was told of a block without a place in `slot` is void: it is held no more, or has a place now. */
  unplacedRemoved(slot: Slot, block: Block): void;
  /** Everything in the scope is gone. Undefined = every group, every medium. */
  cleared(groupId: GroupId | undefined, medium: string | undefined): void;
  /** Something was refused or is worth counting. */
  refused(reason: RefusalReason): void;
}

/** What is known of the group of a store. */
export interface StoreFacts {
  /** L. */
  readonly lookaheadTokens: number;
  /** The group's block size in the GPU; undefined = not known, or the store is not in the GPU. */
  readonly wholeBlockTokens: number | undefined;
}

/** How the entries of all stores so far got their places. */
export interface PlacedCounts {
  /** By the very store, which is dense and has an anchor. */
  readonly dense: number;
  /** By the place that another store gave to an equal hash. */
  readonly equalHash: number;
  /** By recomputing the engine's hashes. */
  readonly recomputed: number;
  /** Gone before they had one. */
  readonly gone: number;
}

/** What a mirror is restored from: everything that makes it go on as the one that was written down. */
export interface MirrorMemory {
  /** By index. */
  readonly slots: readonly Slot[];
  /** By hash, in order of appearance, numbered from 1. The mirror's own from then on. */
  readonly blocks: Map<BlockHash, Block>;
  /** The placed ones by the text of their keys; the mirror's own too. */
  readonly byKey: Map<string, Block>;
  /** Those of the blocks that nothing holds, the one unneeded for longest first. */
  readonly unheld: readonly Block[];
}

/** Bounds and rules of one mirror. */
export interface MirrorOptions {
  readonly maxBlocks: number;
  readonly maxHistory: number;
  readonly maxMedia: number;
  readonly removalRule: RemovalRule;
}

/** The bounds of `LIMITS`. */
export const MIRROR_DEFAULTS: MirrorOptions = {
  maxBlocks: LIMITS.mirrorBlocks.value,
  maxHistory: LIMITS.historyBlocks.value,
  maxMedia: LIMITS.mediaPerRank.value,
  removalRule: "per_copy",
};

/** The bounds and rules of the mirror of an engine. */
export function mirrorOptions(options: {
  readonly engine: EngineConfig;
  readonly mirror?: Partial<MirrorOptions>;
}): MirrorOptions {
  return { ...MIRROR_DEFAULTS, removalRule: options.engine.removalRule, ...options.mirror };
}
