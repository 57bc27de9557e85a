/**
 * What it is: the bounds of blocks that a gateway is told without a place.
 * Owns: the numbers.
 * Refuses: nothing.
 * Does not do: read configuration; see limits.ts.
 */
import { type Limit, limit } from "./limit.ts";

/** Part of `LIMITS`. */
export const UNPLACED_LIMITS = {
  unplacedBlocksPerRank: limit(
    65_536,
    "blocks",
    "one partial entry of each prompt that an engine still holds, found ones included",
    "further ones are dropped and counted; answers are lower bounds",
  ),
  unplacedBlocks: limit(
    1_000_000,
    "blocks",
    "those of all ranks of a gateway: about half a gigabyte",
    "as unplacedBlocksPerRank",
  ),
  tailsPerBucket: limit(
    32,
    "tail keys",
    "tail keys with the same low half: with keys that are random, more than 4 are never seen",
    "as unplacedBlocksPerRank",
  ),
  hashesPerQuery: limit(
    32_768,
    "hashes",
    "of 64 tokens: a prompt of 500,000 tokens in units of 16, about 30 ms; or usual prompts under several schemes",
    "blocks that would take more are not looked for, and answers of their ranks are lower bounds",
  ),
} as const satisfies Record<string, Limit>;
