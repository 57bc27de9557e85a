/**
 * What it is: the reading of block hashes, the same for every encoding and every integer width.
 * Owns: nothing.
 * Refuses: lists that are too long, values that are no hash, integers and bytes mixed in one event.
 * Does not do: decide what a bad hash costs.
 */
import {
  type BlockHash,
  LIMITS,
  ok,
  parseByteHash,
  parseIntegerHash,
  type Result,
  refuse,
} from "@kv-group-bridge/protocol";
import type { EventForm } from "./event-form.ts";

/** What the engine tells us outside of the events. */
export interface HashOptions {
  /** Size of one digest in bytes: 32 for every SHA-256 algorithm, 16 for xxh3-128. Default 32. */
  readonly digestBytes?: number | undefined;
}

/** The hashes of one event. */
export interface HashList {
  readonly hashes: readonly BlockHash[];
  /** Undefined = there is none. */
  readonly encoding: HashEncoding | undefined;
}

type HashEncoding = "integer" | "bytes";

/** Bytes of a digest where nothing is stated. */
export const DEFAULT_DIGEST_BYTES = 32;

function encodingOf(value: unknown): HashEncoding | undefined {
  if (typeof value === "bigint" || typeof value === "number") return "integer";
  return value instanceof Uint8Array ? "bytes" : undefined;
}

function parseHash(value: unknown, options: HashOptions): BlockHash | undefined {
  if (typeof value === "bigint" || typeof value === "number") return parseIntegerHash(value);
  if (!(value instanceof Uint8Array)) return undefined;
  const digestBytes = options.digestBytes ?? DEFAULT_DIGEST_BYTES;
  return parseByteHash(value, { digestBytes, maxBytes: LIMITS.hashBytes.value });
}

/**
 * Reads `block_hashes`. Refused with hashes_invalid, too_many_hashes, hash_invalid or hashes_mixed.
 */
export function parseHashes(form: EventForm, options: HashOptions): Result<HashList> {
  const list = form.fields.block_hashes;
  const path = `${form.path}.block_hashes`;
  if (!Array.isArray(list)) return refuse("hashes_invalid", path);
  if (list.length > LIMITS.hashesPerEvent.value) return refuse("too_many_hashes", path);
  const encoding = encodingOf(list[0]);
  const hashes: BlockHash[] = [];
  for (let i = 0; i < list.length; i++) {
    const element: unknown = list[i];
    const hash = parseHash(element, options);
    if (hash === undefined) return refuse("hash_invalid", path);
    if (encodingOf(element) !== encoding) return refuse("hashes_mixed", path);
    hashes.push(hash);
  }
  return ok({ hashes, encoding });
}

/**
 * Reads `parent_block_hash`; undefined = nil, the root (0 is a hash). An absent one is refused:
 * vLLM always sends it, and an unknown parent is never a root. Refused with parent_invalid,
 * hashes_mixed or parent_is_own_hash.
 */
export function parseParent(
  form: EventForm,
  own: HashList,
  options: HashOptions,
): Result<BlockHash | undefined> {
  const value = form.fields.parent_block_hash;
  if (value === null) return ok(undefined);
  const path = `${form.path}.parent_block_hash`;
  const parent = parseHash(value, options);
  if (parent === undefined) return refuse("parent_invalid", path);
  if (own.encoding !== undefined && encodingOf(value) !== own.encoding) {
    return refuse("hashes_mixed", path);
  }
  return own.hashes.includes(parent) ? refuse("parent_is_own_hash", path) : ok(parent);
}
