/**
 * What it is: the small tree of prompts that a simulated engine is asked: every block has two successors.
 * Owns: tokens and made-up hashes of each block. Both are the same in every engine process, as vLLM's default
 * hash seed makes them.
 * Refuses: nothing.
 * Does not do: know caches.
 *
 *   block 1 is the empty prefix;  the successors of block b are 2b and 2b + 1;  a leaf has depth 6
 */
import { invariant } from "@kv-group-bridge/runtime";

/** Tokens of one block of the tree. */
export const TREE_BLOCK_TOKENS = 4;
/** Blocks of the longest prompt. */
export const TREE_DEPTH = 6;
const FIRST_LEAF = 2 ** TREE_DEPTH;
const MULTIPLIER = 0x9e3779b97f4a7c15n;
const MIXER = 0xbf58476d1ce4e5b9n;

/** Blocks of the path from the root to `block`, without the root; index 0 has depth 1. */
function pathTo(block: number): readonly number[] {
  const path: number[] = [];
  for (let at = block; at > 1; at = at >> 1) path.push(at);
  return path.reverse();
}

function hashOf(block: number): bigint {
  const spread = BigInt.asUintN(64, BigInt(block) * MULTIPLIER);
  return BigInt.asUintN(64, (spread ^ (spread >> 29n)) * MIXER);
}

/** The same two contents at every depth: only what stands before them tells blocks apart. */
function tokensOf(block: number): readonly number[] {
  const first = 1000 + (block & 1) * TREE_BLOCK_TOKENS;
  return Array.from({ length: TREE_BLOCK_TOKENS }, (_, index) => first + index);
}

const BLOCKS = Array.from({ length: 2 * FIRST_LEAF }, (_, block) => ({
  path: pathTo(block),
  hash: hashOf(block),
  tokens: tokensOf(block),
}));

function blockAt(block: number): (typeof BLOCKS)[number] {
  const found = BLOCKS[block];
  invariant(found !== undefined && block >= 1, "a block of the tree");
  return found;
}

/** The blocks up to and with `block`; index 0 has depth 1. */
export function treePath(block: number): readonly number[] {
  return blockAt(block).path;
}

/** The made-up hash of the prefix that ends with `block`. */
export function treeHash(block: number): bigint {
  return blockAt(block).hash;
}

/** Tokens of the blocks `from` ... `to` (positions in the path of `leaf`, `to` not included). */
export function treeTokens(leaf: number, from: number, to: number): readonly number[] {
  return treePath(leaf)
    .slice(from, to)
    .flatMap((block) => blockAt(block).tokens);
}

/** The tokens of one block. */
export function treeTokensOf(block: number): readonly number[] {
  return blockAt(block).tokens;
}

/** The block before it; 1 = it begins a prompt. */
export function treeParent(block: number): number {
  return blockAt(block).path.at(-2) ?? 1;
}

/** The `index`-th longest prompt. */
export function treeLeaf(index: number): number {
  invariant(index >= 0 && index < FIRST_LEAF, "a leaf of the tree");
  return FIRST_LEAF + index;
}

/** Blocks have numbers below this. */
export const TREE_BLOCKS = 2 * FIRST_LEAF;

/** How many leaves there are. */
export const TREE_LEAVES = FIRST_LEAF;
