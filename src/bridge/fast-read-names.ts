/**
 * What it is: the names of an event's fields, recognised from their bytes.
 * Owns: which names the fast reader knows, and their positions in the list form (vLLM up to 0.23).
 * Refuses: every other name, by giving up.
 * Does not do: read values.
 */
import type { FastCursor } from "./fast-read-cursor.ts";

/** A field's number; numbers are bits of a mask. */
export const FIELD = {
  type: 0,
  block_hashes: 1,
  parent_block_hash: 2,
  token_ids: 3,
  block_size: 4,
  lora_id: 5,
  medium: 6,
  lora_name: 7,
  extra_keys: 8,
  group_idx: 9,
  kv_cache_spec_kind: 10,
  kv_cache_spec_sliding_window: 11,
  locality: 12,
  ownership: 13,
  lookahead_token_ids: 14,
  /** Of the request that caused a store (vLLM 0.30 and later). Nothing reads it. */
  session_id: 15,
} as const;

/** No field: a name that is not known. */
const UNKNOWN = -1;

/** The fields of a store in the list form, the tag first. */
export const STORE_POSITIONS: readonly number[] = [
  FIELD.type,
  FIELD.block_hashes,
  FIELD.parent_block_hash,
  FIELD.token_ids,
  FIELD.block_size,
  FIELD.lora_id,
  FIELD.medium,
  FIELD.lora_name,
  FIELD.extra_keys,
  FIELD.group_idx,
  FIELD.kv_cache_spec_kind,
  FIELD.kv_cache_spec_sliding_window,
];

/** The fields of a removal in the list form, the tag first. */
export const REMOVAL_POSITIONS: readonly number[] = [
  FIELD.type,
  FIELD.block_hashes,
  FIELD.medium,
  FIELD.group_idx,
];

interface Name {
  readonly field: number;
  readonly bytes: Uint8Array;
}

/** By the length of the name, 0 … 31. */
const NAMES: readonly (readonly Name[])[] = namesByLength();

function namesByLength(): readonly (readonly Name[])[] {
  const lists: Name[][] = Array.from({ length: 32 }, () => []);
  for (const [name, field] of Object.entries(FIELD)) {
    lists[name.length]?.push({ field, bytes: Buffer.from(name, "latin1") });
  }
  return lists;
}

/** Takes the name that comes next; what it gives after giving up is no field. */
export function readFieldName(cursor: FastCursor): number {
  const { bytes } = cursor;
  const head = cursor.peek();
  const start = cursor.at + 1;
  const candidates = head >= 0xa0 && head < 0xc0 ? NAMES[head & 31] : undefined;
  if (candidates !== undefined) {
    for (const name of candidates) {
      if (!isAt(bytes, start, name.bytes)) continue;
      cursor.at = start + name.bytes.length;
      return name.field;
    }
  }
  cursor.giveUp();
  return UNKNOWN;
}

/** False beyond the end too. */
function isAt(bytes: Uint8Array, start: number, name: Uint8Array): boolean {
  for (let i = 0; i < name.length; i++) {
    if (bytes[start + i] !== name[i]) return false;
  }
  return true;
}
