/**
 * What it is: the bounds of recomputing an engine's own block hashes.
 * Owns: the numbers.
 * Refuses: nothing.
 * Does not do: read configuration; see limits.ts.
 */
import { type Limit, limit } from "./limit.ts";

/** Part of `LIMITS`. */
export const HASHING_LIMITS = {
  hashSearchHashes: limit(
    2_000,
    "hashes",
    "what one batch may cost while algorithm, seed and unit are searched, or checked: about two milliseconds",
    "the search goes on with the next batch; a store that costs more by itself is tried with fewer units",
  ),
  hashSearchRounds: limit(
    16,
    "rounds",
    "a store whose hashes cover more than can be seen makes every way fail: others are tried",
    "such stores are tried no more and the state is not_found; those of another sort are (keys shown or not)",
  ),
  hashTokens: limit(
    8_192,
    "tokens",
    "what one hash covers, look-ahead included: below one frame of a pickle; published models have 1,600",
    "such hashes are not recomputed; their blocks stay unplaced",
  ),
  hashUnitsPerBlock: limit(
    512,
    "hash units",
    "units tried for one block: engines have 64 (DeepSeek-V4) to 100 (large recurrent blocks)",
    "smaller units are not tried: such an engine's way is not found",
  ),
  hashCheckStores: limit(
    64,
    "stores",
    "one in so many is recomputed where nothing needs it, so that a change of the engine shows",
    "the stores between are not recomputed",
  ),
  hashesPerBatch: limit(
    4_096,
    "hashes",
    "what one batch may cost, in hashes of 64 tokens: about five milliseconds",
    "the rest goes on with the next batch; until then those blocks are unplaced",
  ),
  hashBacklogTokens: limit(
    4_194_304,
    "tokens",
    "spans that wait for that; each counts 256 more, and what its hashes and keys take",
    "a further span is not recomputed and counted; its blocks stay unplaced",
  ),
  hashRetryStores: limit(
    1_024,
    "stores",
    "stores of one batch that are tried again at its end, when its other stores have told more",
    "a further one is not tried again",
  ),
  hashRetryRounds: limit(
    4,
    "rounds",
    "one store's places may be what another one waits for, whatever their order in the batch",
    "what is still without a place stays so",
  ),
  fineEnds: limit(
    16_384,
    "hashes",
    "ends that no event names, which partial entries and later spans name as parents",
    "the oldest one is forgotten; what names it stays unplaced",
  ),
  recentSalts: limit(
    1_024,
    "prompts",
    "begins of salted prompts whose salt another group's store of the same prompt does not show",
    "the oldest one is forgotten; such a store stays unplaced",
  ),
  saltsPerPrompt: limit(
    4,
    "salts",
    "salts of prompts that begin alike",
    "the oldest one is forgotten",
  ),
} as const satisfies Record<string, Limit>;
