/**
 * What it is: small builders of vLLM's events and batches in both wire forms, and of broken bytes.
 * Owns: the array lengths of the released revisions.
 * Refuses: nothing.
 * Does not do: imitate an engine; what it builds need not make sense.
 */
import { Encoder } from "@msgpack/msgpack";

/** Fields of an event under vLLM's names. */
export type WireFields = Readonly<Record<string, unknown>>;

/** Elements of a BlockStored list by the revision that sent so many (tag included). */
export const STORE_LENGTHS = {
  "0.9.0": 6,
  "0.10.2": 7,
  "0.14.0": 8,
  "0.17.0": 9,
  "0.20.0": 10,
  "0.22.0": 12,
} as const;

const STORE_ORDER = [
  "block_hashes",
  "parent_block_hash",
  "token_ids",
  "block_size",
  "lora_id",
  "medium",
  "lora_name",
  "extra_keys",
  "group_idx",
  "kv_cache_spec_kind",
  "kv_cache_spec_sliding_window",
] as const;

const STORE: WireFields = {
  block_hashes: [1],
  parent_block_hash: null,
  token_ids: [1, 2, 3, 4],
  block_size: 4,
  lora_id: null,
  medium: "GPU",
  lora_name: null,
};

/** A named store (from 0.24.0): one root block of 4 tokens, no group; `fields` replace or add. */
export function namedStore(fields: WireFields = {}): WireFields {
  return { type: "BlockStored", ...STORE, ...fields };
}

/** The same without some fields. */
export function without(event: WireFields, ...names: readonly string[]): WireFields {
  return Object.fromEntries(Object.entries(event).filter(([name]) => !names.includes(name)));
}

/** A positional store with `length` elements, tag included; absent fields are nil. */
export function listStore(fields: WireFields = {}, length: number = 12): readonly unknown[] {
  const all: WireFields = { ...STORE, ...fields };
  const list = ["BlockStored", ...STORE_ORDER.map((name) => all[name] ?? null)];
  return list.slice(0, length);
}

/** A named removal of hash 1 on the GPU. */
export function namedRemoval(fields: WireFields = {}): WireFields {
  return { type: "BlockRemoved", block_hashes: [1], medium: "GPU", ...fields };
}

/** A batch as from 0.9.1; rank 0. */
export function batchOf(...events: readonly unknown[]): readonly unknown[] {
  return [1.5, events, 0];
}

/** msgpack with exact 64-bit integers. */
export function encodeWire(value: unknown): Uint8Array {
  return new Encoder({ useBigInt64: true }).encode(value);
}

const RAW_MARK = "raw-bytes-";

/** Stands for bytes that the encoder would not write; see `encodeWith`. `index` is 0 … 9. */
export function raw(index: number): string {
  return `${RAW_MARK}${index}`;
}

/** Encodes `value` and puts `pieces[i]` in the place of `raw(i)`. */
export function encodeWith(value: unknown, ...pieces: readonly (readonly number[])[]): Uint8Array {
  let bytes = Buffer.from(encodeWire(value));
  for (const [index, piece] of pieces.entries()) {
    const mark = Buffer.from(encodeWire(raw(index)));
    const at = bytes.indexOf(mark);
    if (at < 0) throw new RangeError(`raw(${index}) is not in the value`);
    bytes = Buffer.concat([
      bytes.subarray(0, at),
      Buffer.from(piece),
      bytes.subarray(at + mark.length),
    ]);
  }
  return new Uint8Array(bytes);
}

/** An 8-byte big-endian sequence frame. */
export function sequenceFrame(sequence: bigint): Uint8Array {
  const frame = new Uint8Array(8);
  new DataView(frame.buffer).setBigUint64(0, BigInt.asUintN(64, sequence));
  return frame;
}

/** A digest of `size` bytes, all `fill` but the last, which is `last`. */
export function digest(fill: number, options: { size?: number; last?: number } = {}): Uint8Array {
  const bytes = new Uint8Array(options.size ?? 32).fill(fill);
  bytes[bytes.length - 1] = options.last ?? fill;
  return bytes;
}

/** 1 … `count`. */
export function tokens(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
