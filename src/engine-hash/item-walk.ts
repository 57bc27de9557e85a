/**
 * What it is: which multimodal items go into the hash of each block of a prompt, block by block.
 * Owns: the position in the prompt's items.
 * Refuses: nothing.
 * Does not do: hash, or know what an item of unknown length covers (the caller stops before it).
 */
import type { HashedItem } from "./block-content.ts";

/** A multimodal item of a prompt. */
export interface PromptItem {
  readonly identifier: string;
  /** First placeholder token in the prompt. */
  readonly offset: number;
  /** Placeholder tokens; undefined = not known. */
  readonly length: number | undefined;
}

const NONE: readonly HashedItem[] = [];

/**
 * vLLM's own walk (v1/core/kv_cache_utils, `_gen_mm_extra_hash_keys` and the rewind of look-ahead hashing). Of items that do
 * not overlap it gives every one with a token in the block or its look-ahead. Of overlapping items (sound inside a video) it
 * stops at the first that goes on, and gives none beyond the end of the item that begins last: so must we.
 */
export class ItemWalk {
  private items: readonly PromptItem[] = [];
  private index = 0;

  /** Begins a prompt; items of equal offset keep their order. */
  reset(items: readonly PromptItem[]): void {
    this.items = items.toSorted((one, other) => one.offset - other.offset);
    this.index = 0;
  }

  /** The items of the block [from, to) with look-ahead up to `hashedTo`. Blocks are asked in their order, each once. */
  next(from: number, to: number, hashedTo: number): readonly HashedItem[] {
    const { items } = this;
    const last = items.at(-1);
    if (last === undefined) return NONE;
    let found: HashedItem[] | undefined;
    if (endOf(last) > from) {
      for (; this.index < items.length; this.index++) {
        const item = items[this.index];
        if (item === undefined || item.offset >= hashedTo) break;
        const end = endOf(item);
        if (end <= from) continue;
        found ??= [];
        found.push({ identifier: item.identifier, offset: item.offset - from });
        if (end > hashedTo) break;
      }
    }
    if (hashedTo > to) this.rewind(to);
    return found ?? NONE;
  }

  /** Items that the look-ahead has passed and the next block has not. */
  private rewind(to: number): void {
    for (; this.index > 0; this.index--) {
      const before = this.items[this.index - 1];
      if (before === undefined || endOf(before) <= to) break;
    }
  }
}

function endOf(item: PromptItem): number {
  return item.offset + (item.length ?? Number.POSITIVE_INFINITY);
}
