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
