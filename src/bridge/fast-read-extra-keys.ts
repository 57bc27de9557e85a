/**
 * What it is: `extra_keys` straight from the bytes.
 * Owns: the lists of nothing, one a length: most stores have no extra key, and nobody changes a list.
 * Refuses: by giving up: entries without a key or with too many, keys of any other form than text and item.
 * Does not do: go with the hashes (the store does).
 */
import { LIMITS } from "@kv-group-bridge/protocol";
import type { ExtraKeyLists } from "./extra-keys.ts";
import type { FastCursor } from "./fast-read-cursor.ts";
import type { ExtraKey } from "./vllm-event.ts";

/** Longest list of nothing that is shared, in blocks. */
const SHARED_BLOCKS = 256;

const NOTHING: ExtraKeyLists[] = Array.from({ length: SHARED_BLOCKS + 1 }, (_, blocks) =>
  nothing(blocks),
);

function nothing(blocks: number): (readonly ExtraKey[] | undefined)[] {
  return Array.from<readonly ExtraKey[] | undefined>({ length: blocks }).fill(undefined);
}

/** One entry a block; undefined entry = nil. */
export function readExtraKeys(cursor: FastCursor): ExtraKeyLists {
  const count = cursor.listHeader();
  let i = 0;
  while (i < count && cursor.takeNil()) i += 1;
  if (i === count && count <= SHARED_BLOCKS) return NOTHING[count] ?? [];
  const blocks = nothing(count);
  for (; i < count && !cursor.isLost; i++) {
    if (!cursor.takeNil()) blocks[i] = readBlock(cursor);
  }
  return blocks;
}

function readBlock(cursor: FastCursor): readonly ExtraKey[] {
  const count = cursor.listHeader();
  if (count === 0 || count > LIMITS.extraKeysPerBlock.value) cursor.giveUp();
  const keys: ExtraKey[] = [];
  for (let i = 0; i < count && !cursor.isLost; i++) keys.push(readKey(cursor));
  return keys;
}

/** `"text"`, `["item"]` or `["item", offset]`. */
function readKey(cursor: FastCursor): ExtraKey {
  const head = cursor.peek();
  if (head !== 0x91 && head !== 0x92) return { type: "text", value: cursor.text() };
  cursor.at += 1;
  const identifier = cursor.text();
  return { type: "item", identifier, offset: head === 0x91 ? undefined : cursor.int33() };
}
