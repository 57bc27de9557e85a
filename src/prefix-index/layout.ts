/**
 * What it is: the engine facts a reuse computation needs, as plain numbers.
 * Owns: nothing; all types are readonly.
 * Refuses: `checkRankLayout` names the first rule a layout breaks.
 * Does not do: derive a layout from an engine description (the gateway does), know any wire string.
 *
 * Words: n = prompt length in tokens; an entry (g, e) = group g holds a cached block whose chain
 * hash is that of the prompt's first e tokens; "end" = e, in tokens from the root.
 */

/** How a group accepts a resume position; one value per rule of the lookup, not per vLLM kind. */
export type ReuseRule = "full" | "sliding_window" | "mamba" | "chunked_local";

/**
 * One KV cache group that takes part in lookups. Private groups are not listed (they only enter S).
 */
export interface GroupLayout {
  /** vLLM's group_idx. Unique inside a layout. */
  readonly groupId: number;
  readonly rule: ReuseRule;
  /** b: effective block size in tokens, > 0. */
  readonly blockSizeTokens: number;
  /** W: the window in tokens, the current token included; > 0 for sliding_window, else 0. */
  readonly windowTokens: number;
  /** C: chunk size in tokens; > 0 for chunked_local, else 0. */
  readonly chunkTokens: number;
  /** Groups of equal number have an identical spec and are looked up together (intersection). */
  readonly specClass: number;
  /**
   * True when the engine marks this group for EAGLE-like speculation (drop mode): it gives up a
   * block. A marked mamba group (vLLM marks every group when none is flagged) never gives one up;
   * the mark only keeps its first search for a candidate from letting the other marked groups drop
   * again.
   */
  readonly dropsBlock: boolean;
}

/** Everything the lookup needs to know of one rank. */
export interface RankLayout {
  /** In the engine's group order. At least one, at most 32. */
  readonly groups: readonly GroupLayout[];
  /**
   * vLLM's coordinator: "unitary" when the engine has exactly one group (private groups counted),
   * else "hybrid". Only the hybrid one lets a dropping class look past the candidate.
   */
  readonly coordinator: "unitary" | "hybrid";
  /** S: least common multiple of all groups' block sizes, private groups included. */
  readonly schedulerBlockSizeTokens: number;
  /** H: hash unit in tokens. Every end is a multiple of H. */
  readonly hashBlockSizeTokens: number;
  /** Fine mode: hits are aligned to H instead of S. */
  readonly isFine: boolean;
  /** L: tokens after a block that its hash also covers; 0 without look-ahead hashing. */
  readonly lookaheadTokens: number;
  /** How far a dropping class of a hybrid may look: floor(n/H)*H, or n - 1 (up to vLLM 0.23). */
  readonly eagleBound: "hash_end" | "last_token";
  /** R: bounded replay window in tokens; an answer up to R counts as 0. 0 = none. */
  readonly replayTokens: number;
}
