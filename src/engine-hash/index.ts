/**
 * What it is: the door of the package.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything of its own.
 */
export type { BlockTokens, HashedExtras, HashedItem } from "./block-content.ts";
export { BlockHasher } from "./block-hasher.ts";
export { hashWork } from "./hash-work.ts";
export type { PromptItem } from "./item-walk.ts";
export {
  type BlockDigest,
  blockHashes,
  type HashedPrompt,
  PromptHashes,
} from "./prompt-hashes.ts";
export { type PublishedForm, publishedHash } from "./published-hash.ts";
export { COMMON_SEED_TEXTS, DEFAULT_SEED_TEXT, seedDigest } from "./seeds.ts";
