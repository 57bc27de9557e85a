/**
 * What it is: what an operator (or a trace's header) states about an engine, typed. Undefined = not stated:
 * then the bridge learns it from events or derives it by vLLM's rule, and says so.
 * Owns: types only; the zod schema that yields them is in config.ts.
 * Refuses: nothing.
 * Does not do: learn (engine-facts.ts does).
 */
import type { EagleBound, GroupId } from "@kv-group-bridge/protocol";

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
};
