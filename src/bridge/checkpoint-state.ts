/**
 * What it is: what a rank's checkpoint says beside the blocks, as typed values, and why one is refused.
 * Owns: types, and the closed list of refusals.
 * Refuses: nothing.
 * Does not do: encode (checkpoint-head.ts does) or judge whether the engine is still the same one.
 */
import type { PublishedForm } from "@kv-group-bridge/engine-hash";
import type { DpRank, Epoch, ExtraKeyForm, GroupId, HashState } from "@kv-group-bridge/protocol";
import type { GateMemory } from "./gate-step.ts";
import type { FoundWay } from "./hash-search.ts";

/** What was learnt of one group. */
export interface GroupMemory {
  readonly groupId: GroupId;
  readonly kind: string | undefined;
  readonly windowTokens: number | undefined;
  readonly largestBlockTokens: number;
  readonly hasPartial: boolean;
  readonly isUngrouped: boolean;
  readonly isSeen: boolean;
}

/** What was learnt of an engine. */
export interface FactsMemory {
  readonly groups: readonly GroupMemory[];
  /** L; undefined = no store has told it yet. */
  readonly lookaheadTokens: number | undefined;
  /** Greatest common divisor of the block sizes seen; 0 = none yet. */
  readonly unitTokens: number;
  readonly hasTooManyGroups: boolean;
}

/** What was found of the way in which an engine names its blocks. */
export interface HashingMemory {
  readonly state: HashState;
  readonly way: FoundWay | undefined;
  readonly form: PublishedForm;
  readonly extraKeyForm: ExtraKeyForm | undefined;
  readonly isExtraKeyFormRefuted: boolean;
}

/** Whether an engine's stores name groups. */
export type Grouping = "unknown" | "ungrouped" | "grouped";

/** Everything of a rank but its blocks. */
export interface CheckpointHead {
  /** See `checkpointFingerprint`. */
  readonly fingerprint: string;
  readonly dpRank: DpRank;
  readonly epoch: Epoch;
  /** The process that wrote it; see kvgroup.v1.Start. */
  readonly instance: bigint;
  readonly gate: GateMemory;
  readonly isComplete: boolean;
  readonly facts: FactsMemory;
  readonly grouping: Grouping;
  readonly hashing: HashingMemory;
  /** Wall clock, for people: it decides nothing. */
  readonly writtenAtMs: number;
}

/** Where checkpoints are kept. */
export interface CheckpointSettings {
  readonly directory: string;
  readonly intervalMs: number;
}

/** Why a checkpoint is not taken. */
export const CHECKPOINT_REFUSALS = [
  /** Larger than a limit allows: the file itself, or what it holds. */
  "checkpoint_too_large",
  /** Not one, cut off, changed, or it contradicts itself. */
  "checkpoint_damaged",
  /** Written in another format, by an older or a newer bridge. */
  "checkpoint_version",
  /** Of another rank, or written under another configuration. */
  "checkpoint_foreign",
] as const;

/** One of `CHECKPOINT_REFUSALS`. */
export type CheckpointRefusalReason = (typeof CHECKPOINT_REFUSALS)[number];

/** A refusal; `detail` never holds what a checkpoint contains. */
export interface CheckpointRefusal {
  readonly reason: CheckpointRefusalReason;
  readonly detail: string;
}
