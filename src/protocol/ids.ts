/**
 * What it is: branded identifiers, so that two numbers of different meaning cannot be swapped.
 * Owns: the only functions that make them.
 * Refuses: values outside their range (undefined is returned, never a clamped value).
 * Does not do: any I/O or formatting of prompts.
 */
import { invariant } from "@kv-group-bridge/runtime";

declare const brand: unique symbol;
type Brand<T, B extends string> = T & { readonly [brand]: B };

/** vLLM's group_idx: uint32. */
export type GroupId = Brand<number, "GroupId">;
/** Data-parallel rank as vLLM numbers it: uint32. */
export type DpRank = Brand<number, "DpRank">;
/** The engine's own sequence number: uint64, from 0 in each engine process. */
export type SequenceNumber = Brand<bigint, "SequenceNumber">;
/** One unbroken history of one rank, minted by the bridge: uint64, never 0. */
export type Epoch = Brand<bigint, "Epoch">;
/**
 * The engine's block identity as a latin1 string of its bytes (one char a byte), fit to be a Map key.
 * Integer hashes: 8 bytes big-endian of the value masked to 64 bits. Byte hashes: the last digest.
 */
export type BlockHash = Brand<string, "BlockHash">;

/** True for integers 0 … 2^32 − 1. */
export function isUint32(value: unknown): value is number {
  return typeof value === "number" && value >>> 0 === value && !Object.is(value, -0);
}

/** The group id, or undefined when `value` is not a uint32. */
export function parseGroupId(value: unknown): GroupId | undefined {
  return isUint32(value) ? (value as GroupId) : undefined;
}

/** The rank, or undefined when `value` is not a uint32. */
export function parseDpRank(value: unknown): DpRank | undefined {
  return isUint32(value) ? (value as DpRank) : undefined;
}

const MASK_64 = (1n << 64n) - 1n;

/** The sequence number, or undefined when `value` is not a uint64. */
export function parseSequenceNumber(value: bigint): SequenceNumber | undefined {
  return value >= 0n && value <= MASK_64 ? (value as SequenceNumber) : undefined;
}

/** The number of a process's first batch. */
export const FIRST_SEQUENCE = knownSequence(0n);

/** The number after `last`. */
export function successorOf(last: SequenceNumber): SequenceNumber {
  return knownSequence(last + 1n);
}

/** The number `batches` before, but never before the first. */
export function sequenceBefore(sequence: SequenceNumber, batches: number): SequenceNumber {
  const back = BigInt(batches);
  return sequence < back ? FIRST_SEQUENCE : knownSequence(sequence - back);
}

function knownSequence(value: bigint): SequenceNumber {
  const sequence = parseSequenceNumber(value);
  invariant(sequence !== undefined, "a sequence number is a uint64");
  return sequence;
}

/** The epoch, or undefined when `value` is not in 1 … 2^64 − 1. */
export function parseEpoch(value: bigint): Epoch | undefined {
  return value > 0n && value <= MASK_64 ? (value as Epoch) : undefined;
}

/** Reads an 8-byte big-endian sequence frame; undefined for any other width. */
export function parseSequenceFrame(frame: Uint8Array): SequenceNumber | undefined {
  if (frame.length !== 8) return undefined;
  const high = wordAt(frame, 0) >>> 0;
  const low = wordAt(frame, 4) >>> 0;
  // Most numbers are small, and a small one is made at once.
  const value = high < 0x20_0000 ? BigInt(high * 0x1_0000_0000 + low) : wideOf(high, low);
  return value as SequenceNumber;
}

function wideOf(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}

/** Smallest and largest integer that vLLM can send as a hash: signed (up to 0.10.1) and unsigned. */
const HASH_MIN = -(1n << 63n);

/**
 * The identity of an integer hash: its low 64 bits, big-endian. Undefined outside −2^63 … 2^64 − 1 and for
 * numbers that are not safe integers. Small integers arrive as `number`, wide ones as `bigint`: both give
 * the same identity.
 */
export function parseIntegerHash(value: number | bigint): BlockHash | undefined {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) return undefined;
    return hashOfWords(Math.floor(value / 0x1_0000_0000) >>> 0, value >>> 0);
  }
  if (value < HASH_MIN || value > MASK_64) return undefined;
  const bits = BigInt.asUintN(64, value);
  return hashOfWords(Number(bits >> 32n), Number(bits & 0xffffffffn));
}

/** `parseIntegerHash` of the uint64 whose 8 bytes stand at `at`, big-endian; all of them must be there. */
export function integerHashAt(bytes: Uint8Array, at: number): BlockHash {
  return hashOfWords(wordAt(bytes, at), wordAt(bytes, at + 4));
}

function wordAt(bytes: Uint8Array, at: number): number {
  const high = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  return (high << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
}

/** In one piece: a string that is joined from two costs twice as much. */
function hashOfWords(high: number, low: number): BlockHash {
  return String.fromCharCode(
    high >>> 24,
    (high >>> 16) & 255,
    (high >>> 8) & 255,
    high & 255,
    low >>> 24,
    (low >>> 16) & 255,
    (low >>> 8) & 255,
    low & 255,
  ) as BlockHash;
}

/**
 * The identity of a byte hash. `digestBytes` is the engine's digest size; a longer value that is a whole
 * number of digests (vLLM 0.20 to 0.23, groups coarser than the hash unit) is known by its last one.
 * Undefined for fewer than 8 bytes or more than `maxBytes`.
 */
export function parseByteHash(
  bytes: Uint8Array,
  limits: { readonly digestBytes: number; readonly maxBytes: number },
): BlockHash | undefined {
  if (bytes.length < 8 || bytes.length > limits.maxBytes) return undefined;
  const { digestBytes } = limits;
  const isJoined = bytes.length > digestBytes && bytes.length % digestBytes === 0;
  const from = bytes.byteOffset + (isJoined ? bytes.length - digestBytes : 0);
  const end = bytes.byteOffset + bytes.length;
  return Buffer.from(bytes.buffer, from, end - from).toString("latin1") as BlockHash;
}

/** True for a text that `parseIntegerHash` or `parseByteHash` could have given: what was written down is read again. */
export function isBlockHash(text: string): text is BlockHash {
  if (text.length < 8) return false;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) return false;
  return true;
}

/** The bytes of a block hash, for the ENGINE projection. */
export function blockHashBytes(hash: BlockHash): Uint8Array {
  const bytes = new Uint8Array(hash.length);
  for (let i = 0; i < hash.length; i++) bytes[i] = hash.charCodeAt(i);
  return bytes;
}
