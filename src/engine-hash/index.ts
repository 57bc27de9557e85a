/**
 * What it is: the door of the package.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything of its own.
 */
export {
  BlockHasher,
  type BlockTokens,
  type HashedExtras,
  type HashedItem,
} from "./block-hasher.ts";
export { type PublishedForm, publishedHash } from "./published-hash.ts";
export { COMMON_SEED_TEXTS, DEFAULT_SEED_TEXT, seedDigest } from "./seeds.ts";
