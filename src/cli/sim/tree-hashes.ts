/**
 * What it is: the names that simulated engines give to the blocks of the tree: made up, or those that vLLM computes.
 * Owns: the chains of digests, computed once for each algorithm and hash unit.
 * Refuses: nothing.
 * Does not do: recognise anything (the bridge does).
 */
import { BlockHasher, DEFAULT_SEED_TEXT, seedDigest } from "@kv-group-bridge/engine-hash";
import type { Digest } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import {
  TREE_BLOCK_TOKENS,
  TREE_BLOCKS,
  treeHash,
  treeParent,
  treeTokensOf,
} from "./prompt-tree.ts";

/** How an engine with real hashes names blocks. Its seed is vLLM's own. */
export interface TreeHashing {
  readonly algorithm: "sha256" | "sha256_cbor";
  /** Whole digests are published, else their last 8 bytes as integers. */
  readonly isBytes: boolean;
  /** H: a divisor of a block of the tree. */
  readonly unitTokens: number;
}

/** Hash units that engines have. */
export const HASH_UNITS_TOKENS = [TREE_BLOCK_TOKENS, TREE_BLOCK_TOKENS / 2] as const;

/** A hash as it is published. */
export type WireHash = bigint | Uint8Array | null;

interface BlockDigests {
  /** One unit before the block's end. */
  readonly before: Digest;
  readonly end: Digest;
}

const INTEGER_BYTES = 8;
const chains = new Map<string, readonly (BlockDigests | undefined)[]>();

/** The hash of the prefix that ends with `block`; `hashing` undefined = made up. Block 1, the empty prefix, has none. */
export function wireHash(hashing: TreeHashing | undefined, block: number): WireHash {
  if (block === 1) return null;
  if (hashing === undefined) return treeHash(block);
  return published(hashing, digestsOf(hashing, block).end);
}

/** The hash of the prefix that ends one hash unit before the end of `block`. */
export function wireHashBefore(hashing: TreeHashing, block: number): WireHash {
  const isRoot = treeParent(block) === 1 && hashing.unitTokens === TREE_BLOCK_TOKENS;
  return isRoot ? null : published(hashing, digestsOf(hashing, block).before);
}

function published({ isBytes }: TreeHashing, digest: Digest): bigint | Uint8Array {
  const bytes = Buffer.from(digest, "latin1");
  return isBytes ? new Uint8Array(bytes) : bytes.readBigUInt64BE(bytes.length - INTEGER_BYTES);
}

function digestsOf(hashing: TreeHashing, block: number): BlockDigests {
  const name = `${hashing.algorithm}/${hashing.unitTokens}`;
  let chain = chains.get(name);
  if (chain === undefined) {
    chain = chainOf(hashing);
    chains.set(name, chain);
  }
  const found = chain[block];
  invariant(found !== undefined, "a block of the tree has a digest");
  return found;
}

function chainOf({ algorithm, unitTokens }: TreeHashing): readonly (BlockDigests | undefined)[] {
  const hasher = new BlockHasher(algorithm, "tagged");
  const root = seedDigest(algorithm, DEFAULT_SEED_TEXT);
  invariant(root !== undefined, "vLLM's seed has a digest");
  const chain: (BlockDigests | undefined)[] = [undefined, { before: root, end: root }];
  for (let block = 2; block < TREE_BLOCKS; block++) {
    const tokens = treeTokensOf(block);
    let before = root;
    let end = chain[treeParent(block)]?.end ?? root;
    for (let from = 0; from < tokens.length; from += unitTokens) {
      const unit = { tokens, from, to: from + unitTokens, ahead: [], aheadFrom: 0, aheadTo: 0 };
      const digest = hasher.digest(end, unit, undefined);
      invariant(digest !== undefined, "plain blocks have digests");
      before = end;
      end = digest;
    }
    chain.push({ before, end });
  }
  return chain;
}
