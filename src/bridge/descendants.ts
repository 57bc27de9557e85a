/**
 * What it is: the blocks that stand or fall with a block whose place was taken by another hash.
 * Owns: nothing.
 * Refuses: nothing; where a chain is not known whole it answers with more blocks, never with fewer (withdrawing is safe).
 * Does not do: withdraw (the mirror does).
 */
import type { Block } from "./block.ts";

/**
 * `older` and every placed block whose chain leads through it, or may: below an adapter's name that is every block of
 * that name (vLLM hashes the adapter's path and publishes only its name). Linear in `all`; a replaced hash is rare.
 */
export function standingOn(older: Block, all: Iterable<Block>): readonly Block[] {
  const found: Block[] = [older];
  const ancestors = ancestorsOf(older);
  for (const block of all) {
    if (!block.isPlaced || block === older || block.loraName !== older.loraName) continue;
    if (older.loraName !== undefined || leadsThrough(block, older, ancestors)) found.push(block);
  }
  return found;
}

function ancestorsOf(block: Block): ReadonlySet<Block> {
  const ancestors = new Set<Block>();
  for (let at = block.parent; at !== undefined; at = at.parent) ancestors.add(at);
  return ancestors;
}

function leadsThrough(block: Block, older: Block, ancestors: ReadonlySet<Block>): boolean {
  if (block.endTokens <= older.endTokens) return false;
  let at: Block | undefined = block;
  while (at !== undefined && at.endTokens > older.endTokens) at = at.parent;
  // Undefined: the chain goes over the older block's end without a block there, or its begin is forgotten. What a
  // forgotten block stood on is not known either.
  return at === undefined || at.isForgotten || at === older || ancestors.has(at);
}
