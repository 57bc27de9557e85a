/**
 * What it is: the unit in which bridge and gateway count what hashing costs: one hash of 64 tokens.
 * Owns: that number.
 * Refuses: nothing.
 * Does not do: bound anything (its callers do).
 */

/** Up to so many tokens a hash costs as much as any; each further 64 as much again (bench/engine-hash.mjs). */
const TOKENS_PER_WORK = 64;

/** What one hash costs. `coveredTokens`: its block, its look-ahead, and the characters of its extra keys. */
export function hashWork(coveredTokens: number): number {
  return Math.max(1, coveredTokens / TOKENS_PER_WORK);
}
