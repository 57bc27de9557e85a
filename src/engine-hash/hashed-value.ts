/**
 * What it is: the third member of what vLLM hashes for a block: its extra keys and its look-ahead, as a plain value that
 * every encoder can write.
 * Owns: the order and the form of extra keys (vLLM v1/core/kv_cache_utils, `generate_block_hash_extra_keys`).
 * Refuses: a LoRA adapter without a path in the tagged form, texts without a UTF-8 form.
 * Does not do: decide what belongs to a block (the caller does), or encode.
 */
import type { ExtraKeyForm } from "@kv-group-bridge/protocol";
import type { BlockTokens, HashedExtras } from "./block-content.ts";
import { hasUtf8Form } from "./byte-writer.ts";

/**
 * A text constant of vLLM's source. It is one Python object wherever it occurs, so a pickle refers back to it; other texts
 * came in with a request and are objects of their own even when equal.
 */
export class Tag {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What is hashed beside parent and tokens; a list is a Python tuple, null is None. Numbers are safe integers. */
export type HashedValue = null | number | string | Tag | readonly HashedValue[];

const LORA = new Tag("lora");
const ITEM = new Tag("mm");
const SALT = new Tag("cache_salt");

/**
 * The extra keys and look-ahead of one block; null when there is neither. Undefined = cannot be reproduced: the tagged form
 * needs the LoRA path, and a text with a lone surrogate never comes through vLLM's own encoding.
 */
export function hashedValueOf(
  form: ExtraKeyForm,
  block: BlockTokens,
  extras: HashedExtras | undefined,
): HashedValue | undefined {
  const keys = extras === undefined ? null : extraKeysOf(form, extras);
  if (keys === undefined || block.aheadFrom >= block.aheadTo) return keys;
  const value: HashedValue[] = [keys];
  for (let i = block.aheadFrom; i < block.aheadTo; i++) value.push(block.ahead[i] ?? 0);
  return value;
}

function extraKeysOf(form: ExtraKeyForm, extras: HashedExtras): HashedValue | undefined {
  const isTagged = form === "tagged";
  const keys: HashedValue[] = [];
  const { loraName, loraPath, items, cacheSalt } = extras;
  if (loraName !== undefined) {
    if (!hasUtf8Form(loraName)) return undefined;
    if (!isTagged) keys.push(loraName);
    else if (loraPath === undefined || !hasUtf8Form(loraPath)) return undefined;
    else keys.push([LORA, loraName, loraPath]);
  }
  for (const { identifier, offset } of items) {
    if (!hasUtf8Form(identifier) || !Number.isSafeInteger(offset)) return undefined;
    keys.push(isTagged ? [ITEM, identifier, offset] : [identifier, offset]);
  }
  if (cacheSalt !== undefined && cacheSalt !== "") {
    if (!hasUtf8Form(cacheSalt)) return undefined;
    keys.push(isTagged ? [SALT, cacheSalt] : cacheSalt);
  }
  return keys.length === 0 ? null : keys;
}
