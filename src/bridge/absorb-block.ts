/**
 * What it is: tokens and items of a block → a prefix key's state.
 * Owns: nothing.
 * Refuses: nothing; an item outside the block is not absorbed.
 * Does not do: finish a key.
 */
import type { ItemStart, KeyedHasher, PrefixState } from "@kv-group-bridge/protocol";

/** Absorbs tokens[from … to − 1], and each item at the token where it starts. */
export function absorbBlock(
  state: PrefixState,
  hasher: KeyedHasher,
  items: readonly ItemStart[],
  tokens: Uint32Array,
  from: number,
  to: number,
): void {
  let position = from;
  const base = state.endTokens - from;
  for (const item of items) {
    const at = item.startTokens - base;
    if (at < position || at >= to) continue;
    state.absorb(tokens, position, at);
    state.absorbItem(hasher.itemWords(item));
    position = at;
  }
  state.absorb(tokens, position, to);
}
