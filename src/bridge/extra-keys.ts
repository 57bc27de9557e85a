/**
 * What it is: the reading of `extra_keys`: what each block's hash covers beside its tokens.
 * Owns: nothing.
 * Refuses: a list that does not go with the hashes, texts that are too long.
 * Does not do: understand. An unknown structure is kept as "opaque", so that its block never passes
 * for plain text.
 */
import { LIMITS, ok, type Result, refuse } from "@kv-group-bridge/protocol";
import type { EventForm } from "./event-form.ts";
import { narrowInteger } from "./integers.ts";
import type { ExtraKey } from "./vllm-event.ts";

/** One entry a hash; undefined entry = nil, nothing extra. */
export type ExtraKeyLists = readonly (readonly ExtraKey[] | undefined)[];

const OPAQUE: ExtraKey = { type: "opaque" };
const OPAQUE_BLOCK: readonly ExtraKey[] = [OPAQUE];

/**
 * Reads `extra_keys`; undefined = absent or nil (vLLM up to 0.16, events without hashes, offloading
 * connectors). A block with more than `LIMITS.extraKeysPerBlock` keys is opaque, and so is one
 * whose entry is there but empty. Refused with extra_keys_invalid or text_too_long.
 */
export function parseExtraKeys(
  form: EventForm,
  hashCount: number,
): Result<ExtraKeyLists | undefined> {
  const value = form.fields.extra_keys;
  if (value === undefined || value === null) return ok(undefined);
  const path = `${form.path}.extra_keys`;
  if (!Array.isArray(value) || value.length !== hashCount) {
    return refuse("extra_keys_invalid", path);
  }
  const blocks: (readonly ExtraKey[] | undefined)[] = [];
  for (let i = 0; i < value.length; i++) {
    const entry: unknown = value[i];
    if (entry === null) {
      blocks.push(undefined);
      continue;
    }
    if (!Array.isArray(entry)) return refuse("extra_keys_invalid", path);
    const keys = parseBlock(entry, path);
    if (!keys.ok) return keys;
    blocks.push(keys.value);
  }
  return ok(blocks);
}

function parseBlock(entry: readonly unknown[], path: string): Result<readonly ExtraKey[]> {
  if (entry.length === 0 || entry.length > LIMITS.extraKeysPerBlock.value) return ok(OPAQUE_BLOCK);
  const keys: ExtraKey[] = [];
  for (const element of entry) {
    const key = parseExtraKey(element);
    const text = key.type === "text" ? key.value : key.type === "item" ? key.identifier : "";
    if (text.length > LIMITS.textBytes.value) return refuse("text_too_long", path);
    keys.push(key);
  }
  return ok(keys);
}

/**
 * `"text"`, `["item", offset]` (from 0.19.0), `["item"]` (0.17.0, 0.18.x); anything else is opaque.
 */
function parseExtraKey(element: unknown): ExtraKey {
  if (typeof element === "string") return { type: "text", value: element };
  if (!Array.isArray(element) || element.length === 0 || element.length > 2) return OPAQUE;
  const identifier: unknown = element[0];
  if (typeof identifier !== "string") return OPAQUE;
  if (element.length === 1) return { type: "item", identifier, offset: undefined };
  const offset = narrowInteger(element[1]);
  if (typeof offset !== "number" || !Number.isSafeInteger(offset)) return OPAQUE;
  return { type: "item", identifier, offset };
}
