/**
 * What it is: the reading of a block's extra keys as published (untagged): LoRA name, cache salt, images.
 * Owns: nothing.
 * Refuses: everything that it does not understand whole: such a block gets no place, because its hash covers
 * something that a query could not name.
 * Does not do: place blocks.
 */
import type { ItemStart } from "@kv-group-bridge/protocol";
import type { ExtraKey } from "./vllm-event.ts";

/** What a block's hash covers beside its tokens. */
export interface BlockExtras {
  /** Only in the first block of a prompt. */
  readonly cacheSalt: string | undefined;
  /** Items whose placeholder starts in the block or its look-ahead tokens, ascending; absolute starts. */
  readonly items: readonly ItemStart[];
}

/** Where the block stands and what its event says. */
export interface BlockContext {
  readonly startTokens: number;
  readonly endTokens: number;
  /** L: the hash covers these tokens after the end too, and so do the extra keys (vLLM 0.33.0). */
  readonly lookaheadTokens: number;
  readonly loraName: string | undefined;
}

const NO_ITEMS: readonly ItemStart[] = [];
/** A block with nothing extra. */
export const NO_EXTRAS: BlockExtras = { cacheSalt: undefined, items: NO_ITEMS };

/**
 * Reads one block's extra keys; undefined = not understood. vLLM's order is LoRA name, items, salt (first block
 * only), embedding digests (v1/core/kv_cache_utils, generate_block_hash_extra_keys). An item without an offset
 * (0.17, 0.18) cannot be put at its token.
 */
export function readBlockExtras(
  keys: readonly ExtraKey[] | undefined,
  context: BlockContext,
): BlockExtras | undefined {
  if (keys === undefined) return context.loraName === undefined ? NO_EXTRAS : undefined;
  let isLoraPending = context.loraName !== undefined;
  let cacheSalt: string | undefined;
  const items: ItemStart[] = [];
  for (const key of keys) {
    if (key.type === "opaque") return undefined;
    if (key.type === "text") {
      if (isLoraPending) {
        if (key.value !== context.loraName) return undefined;
        isLoraPending = false;
      } else if (context.startTokens === 0 && cacheSalt === undefined && key.value !== "") {
        cacheSalt = key.value;
      } else {
        return undefined;
      }
      continue;
    }
    if (key.offset === undefined) return undefined;
    const startTokens = context.startTokens + key.offset;
    if (startTokens < 0 || startTokens >= context.endTokens + context.lookaheadTokens) {
      return undefined;
    }
    // An item that began before this block is part of the parent's state already.
    if (startTokens >= context.startTokens) {
      items.push({ identifier: key.identifier, startTokens });
    }
  }
  if (isLoraPending) return undefined;
  items.sort((a, b) => a.startTokens - b.startTokens);
  for (let i = 1; i < items.length; i++) {
    if (items[i]?.startTokens === items[i - 1]?.startTokens) return undefined;
  }
  return { cacheSalt, items };
}
