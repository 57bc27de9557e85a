/**
 * What it is: the stores of a simulated engine in vLLM's own wire form: spans with the hashes that are kept of them, and
 * partial entries with the tokens of one hash unit.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: decide what is stored.
 */
import { invariant } from "@kv-group-bridge/runtime";
import type { SimGroup, SimLayout } from "./engine-layout.ts";
import { TREE_BLOCK_TOKENS, treePath, treeTokens, treeTokensOf } from "./prompt-tree.ts";
import { type WireHash, wireHash, wireHashBefore } from "./tree-hashes.ts";

/**
 * A store of the blocks `span[0]` … `span[1]` (positions in the path of `leaf`, the second not included), with the hashes
 * of those that are in `kept`.
 */
export function storeOf(
  { hashing }: SimLayout,
  group: SimGroup,
  leaf: number,
  [from, to]: readonly [number, number],
  kept: readonly number[],
): unknown {
  const path = treePath(leaf);
  const named = path.slice(from, to).filter((block) => kept.includes(block));
  return {
    ...commonOf(
      group,
      named.map((block) => wireHash(hashing, block)),
    ),
    parent_block_hash: wireHash(hashing, path[from - 1] ?? 1),
    token_ids: treeTokens(leaf, from, to),
    block_size: group.stride * TREE_BLOCK_TOKENS,
  };
}

/** A store of the partial entry that ends with `block`: vLLM gives no more than the tokens of its last hash unit. */
export function tailOf({ hashing }: SimLayout, group: SimGroup, block: number): unknown {
  invariant(hashing !== undefined, "made-up hashes have no tails");
  const { unitTokens } = hashing;
  return {
    ...commonOf(group, [wireHash(hashing, block)]),
    parent_block_hash: wireHashBefore(hashing, block),
    token_ids: treeTokensOf(block).slice(-unitTokens),
    block_size: unitTokens,
  };
}

function commonOf(group: SimGroup, hashes: readonly WireHash[]): object {
  return {
    type: "BlockStored",
    block_hashes: hashes,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    // A store without hashes has none of these, as vLLM's.
    ...(hashes.length === 0 ? {} : { extra_keys: hashes.map(() => null) }),
    group_idx: group.groupId,
    kv_cache_spec_kind: group.kind,
    ...(group.windowTokens === undefined
      ? {}
      : { kv_cache_spec_sliding_window: group.windowTokens }),
  };
}
