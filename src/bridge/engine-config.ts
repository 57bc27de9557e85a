/**
 * What it is: what an operator (or a trace's header) states about an engine, typed. Undefined = not stated:
 * then the bridge learns it from events or derives it by vLLM's rule, and says so.
 * Owns: types only; the zod schema that yields them is in config.ts.
 * Refuses: nothing.
 * Does not do: learn (engine-facts.ts does).
 */
import type { EagleBound, GroupId, HashAlgorithm } from "@kv-group-bridge/protocol";

/** One group as stated. */
export interface GroupConfig {
  readonly groupId: GroupId;
  /** vLLM's kv_cache_spec_kind. */
  readonly kind: string | undefined;
  /** Effective block size in tokens (with decode context parallelism). */
  readonly blockSizeTokens: number | undefined;
  readonly windowTokens: number | undefined;
  readonly chunkTokens: number | undefined;
  readonly isPrivate: boolean;
  readonly dropsBlock: boolean;
  readonly specClass: number | undefined;
}

/**
 * How removals are announced: "per_copy" = once for each physical copy (vLLM up to 0.33), "last_copy" = only
 * when the last copy goes.
 */
export type RemovalRule = "per_copy" | "last_copy";

/** What is stated of the engine's block hashes. Undefined = found out from what the engine publishes. */
export interface HashingConfig {
  /** False = nothing is ever recomputed. */
  readonly isRecognised: boolean;
  readonly algorithm: HashAlgorithm | undefined;
  /** The engine's PYTHONHASHSEED. */
  readonly seedText: string | undefined;
  /** Paths of LoRA adapters by name. */
  readonly loraPaths: ReadonlyMap<string, string>;
}

/** Nothing stated. */
export const UNSTATED_HASHING: HashingConfig = {
  isRecognised: true,
  algorithm: undefined,
  seedText: undefined,
  loraPaths: new Map(),
};

/** An engine as stated. */
export interface EngineConfig {
  readonly vllmVersion: string | undefined;
  readonly groups: readonly GroupConfig[];
  /** True = `groups` is the whole roster. */
  readonly isRosterComplete: boolean;
  readonly schedulerBlockSizeTokens: number | undefined;
  readonly hashBlockSizeTokens: number | undefined;
  readonly isFine: boolean | undefined;
  /** Undefined = learnt from lookahead_token_ids. */
  readonly lookaheadTokens: number | undefined;
  readonly eagleBound: EagleBound | undefined;
  readonly replayTokens: number | undefined;
  readonly retentionInterval: number | undefined;
  /** Bytes of one digest where hashes are published as bytes; 32 for the sha256 family, 16 for xxhash. */
  readonly digestBytes: number | undefined;
  readonly unsupportedReason: string | undefined;
  readonly removalRule: RemovalRule;
  readonly hashing: HashingConfig;
}

/** Nothing stated. */
export const UNSTATED_ENGINE: EngineConfig = {
  vllmVersion: undefined,
  groups: [],
  isRosterComplete: false,
  schedulerBlockSizeTokens: undefined,
  hashBlockSizeTokens: undefined,
  isFine: undefined,
  lookaheadTokens: undefined,
  eagleBound: undefined,
  replayTokens: undefined,
  retentionInterval: undefined,
  digestBytes: undefined,
  unsupportedReason: undefined,
  removalRule: "per_copy",
  hashing: UNSTATED_HASHING,
};
