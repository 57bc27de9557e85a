/**
 * What it is: one linear pass over msgpack bytes before a general decoder may see them.
 * Owns: the guarantee that decoding costs memory in proportion to the bytes: no length is claimed
 * beyond the bytes left, nesting and counts are bounded, the input is one value and is used up.
 * Refuses: everything else; the decoder allocates arrays from claimed lengths and nests without a
 * bound, so 100 hostile bytes cost a gigabyte there.
 * Does not do: judge meaning. What msgpack can say and no field of an event may hold (extension
 * types, floats, strings that are not UTF-8) is made recognisable instead of refused, so that it
 * costs one event, not the batch:
 *
 *     a3 ff fe fd          a string of 3 bytes, not UTF-8
 *     93 c3 c3 c3          becomes [true, true, true]: the same size, and no field accepts it
 */
import { isUtf8 } from "node:buffer";
import { LIMITS } from "@kv-group-bridge/protocol";

/**
 * Events stand at this depth: batch 1, its list of events 2. Odd values above it are nobody's but
 * the batch's.
 */
const EVENT_DEPTH = 2;
/** Values of all kinds in one payload; a list costs the decoder 8 bytes a value. */
const MAX_VALUES = 4 * LIMITS.tokensPerEvent.value;
/** Lists and maps in one payload; an empty map of one byte costs the decoder some 56. */
export const MAX_CONTAINERS = 16 * LIMITS.eventsPerBatch.value;

/**
 * Whole size of values that have a fixed one; 0 = containers, strings, bytes, extensions, floats,
 * unused.
 */
const FIXED_SIZE = fixedSizes();

function fixedSizes(): Uint8Array {
  const sizes = new Uint8Array(256);
  sizes.fill(1, 0x00, 0x80).fill(1, 0xe0);
  for (const head of [0xc0, 0xc2, 0xc3]) sizes[head] = 1;
  for (const [head, size] of [
    [0xcc, 2],
    [0xcd, 3],
    [0xce, 5],
    [0xcf, 9],
  ] as const) {
    sizes[head] = size;
    sizes[head + 4] = size;
  }
  return sizes;
}

/**
 * The bytes that are safe to decode: `bytes` itself, or a copy in which odd values inside events
 * are replaced (see above). Undefined when the structure is unsound, or when an odd value stands
 * outside of an event.
 */
export function prescan(bytes: Uint8Array): Uint8Array | undefined {
  const size = bytes.length;
  const maxDepth = LIMITS.nestingDepth.value;
  const left = new Float64Array(maxDepth + 1);
  const isMap = new Uint8Array(maxDepth + 1);
  let out = bytes;
  let at = 0;
  let depth = 0;
  let remaining = 1;
  let values = 0;
  let containers = 0;
  for (;;) {
    while (remaining === 0) {
      if (depth === 0) return at === size ? out : undefined;
      depth -= 1;
      remaining = left[depth] ?? 0;
    }
    values += 1;
    if (at >= size || values > MAX_VALUES) return undefined;
    remaining -= 1;
    const head = bytes[at] ?? 0;
    const fixedSize = FIXED_SIZE[head] ?? 0;
    if (fixedSize !== 0) {
      at += fixedSize;
      continue;
    }
    const items = itemCount(bytes, at);
    if (items >= 0) {
      at += containerHeaderSize(head);
      containers += 1;
      if (items > size - at || depth === maxDepth || containers > MAX_CONTAINERS) return undefined;
      left[depth] = remaining;
      depth += 1;
      remaining = items;
      isMap[depth] = head < 0x90 || head > 0xdd ? 1 : 0;
      continue;
    }
    const end = at + valueSize(bytes, at);
    if (end === at || end > size) return undefined;
    const isKey = isMap[depth] === 1 && remaining % 2 === 1;
    if (isOdd(bytes, { start: at, end, depth, isKey })) {
      if (depth < EVENT_DEPTH) return undefined;
      if (out === bytes) out = new Uint8Array(bytes);
      overwriteOdd(out, at, end);
    }
    at = end;
  }
}

function uint16At(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
}

function uint32At(bytes: Uint8Array, at: number): number {
  return uint16At(bytes, at) * 0x1_0000 + uint16At(bytes, at + 2);
}

/**
 * Values directly inside the list or map that starts at `at` (a pair is two); −1 = no container.
 */
function itemCount(bytes: Uint8Array, at: number): number {
  const head = bytes[at] ?? 0;
  if (head >= 0x80 && head < 0x90) return (head & 15) * 2;
  if (head >= 0x90 && head < 0xa0) return head & 15;
  if (head === 0xdc) return uint16At(bytes, at + 1);
  if (head === 0xdd) return uint32At(bytes, at + 1);
  if (head === 0xde) return uint16At(bytes, at + 1) * 2;
  if (head === 0xdf) return uint32At(bytes, at + 1) * 2;
  return -1;
}

function containerHeaderSize(head: number): number {
  if (head < 0xa0) return 1;
  return head === 0xdc || head === 0xde ? 3 : 5;
}

/**
 * Whole size in bytes of the float, string, bytes or extension at `at`; 0 = an unused head byte.
 */
function valueSize(bytes: Uint8Array, at: number): number {
  const head = bytes[at] ?? 0;
  if (head >= 0xa0 && head < 0xc0) return 1 + (head & 31);
  if (head >= 0xd4 && head <= 0xd8) return 2 + (1 << (head - 0xd4));
  switch (head) {
    case 0xca:
      return 5;
    case 0xcb:
      return 9;
    case 0xc4:
    case 0xd9:
      return 2 + (bytes[at + 1] ?? 0);
    case 0xc5:
    case 0xda:
      return 3 + uint16At(bytes, at + 1);
    case 0xc6:
    case 0xdb:
      return 5 + uint32At(bytes, at + 1);
    case 0xc7:
      return 3 + (bytes[at + 1] ?? 0);
    case 0xc8:
      return 4 + uint16At(bytes, at + 1);
    case 0xc9:
      return 6 + uint32At(bytes, at + 1);
    default:
      return 0;
  }
}

/** Where a value stands. */
interface Span {
  readonly start: number;
  readonly end: number;
  /** Open lists and maps around it. */
  readonly depth: number;
  readonly isKey: boolean;
}

function isOdd(bytes: Uint8Array, span: Span): boolean {
  const head = bytes[span.start] ?? 0;
  // The batch's timestamp is a float; inside an event 1.0 would pass for the integer 1.
  if (head === 0xca || head === 0xcb) return span.depth >= EVENT_DEPTH;
  if (head >= 0xc4 && head <= 0xc6) return false;
  const headerSize = stringHeaderSize(head);
  if (headerSize === 0) return true;
  const start = span.start + headerSize;
  return !isText(bytes, start, span.end) || (span.isKey && isProto(bytes, start, span.end));
}

/** 0 = an extension. */
function stringHeaderSize(head: number): number {
  if (head < 0xc0) return 1;
  return head >= 0xd9 && head <= 0xdb ? 1 + (1 << (head - 0xd9)) : 0;
}

function isText(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    if ((bytes[i] ?? 0) >= 0x80) return isUtf8(bytes.subarray(start, end));
  }
  return true;
}

const PROTO = Buffer.from("__proto__");

/** The one name that the decoder answers with an error for the whole payload. */
function isProto(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start !== PROTO.length || bytes[start] !== PROTO[0]) return false;
  return PROTO.equals(bytes.subarray(start, end));
}

/**
 * Replaces the value in place by a list of the same size that begins with `true`. Its size is 2 or
 * more.
 */
function overwriteOdd(out: Uint8Array, start: number, end: number): void {
  const size = end - start;
  if (size <= 16) {
    out[start] = 0x90 | (size - 1);
    out.fill(0xc3, start + 1, end);
    return;
  }
  // [true, bytes]: nothing is allocated for a large value.
  out.set([0x92, 0xc3, 0xc6], start);
  new DataView(out.buffer, out.byteOffset).setUint32(start + 3, size - 7);
}
