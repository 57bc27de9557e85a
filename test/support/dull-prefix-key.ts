/**
 * What it is: the prefix key again, dull: big integers, whole lists, one step a line. Written from
 * the description in the header of src/protocol/prefix-key.ts and docs/protocol.md (bytes under the
 * HMAC, the item mark) and, for the round, from the paper's definition (J.-P. Aumasson, D. J.
 * Bernstein, "SipHash: a fast short-input PRF") in HalfSipHash's form: 32-bit words, rotations 5,
 * 8, 16, 7, 13, 16. The same round is held to the published test vectors of HalfSipHash-2-4.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: share a line with the product, continue from a state, or run fast.
 */
import { createHmac } from "node:crypto";

/**
 * What a key covers. Items are absorbed at the token where they start, in their order in the list.
 */
export interface DullPrompt {
  readonly seed: string;
  readonly loraName?: string | undefined;
  readonly cacheSalt?: string | undefined;
  readonly items?: readonly { readonly identifier: string; readonly startTokens: number }[];
  readonly tokens: readonly number[];
}

/** Four words of 32 bits. */
type State = readonly [bigint, bigint, bigint, bigint];

const WORD = 1n << 32n;
const ITEM_MARK = 0x6d6d0001n;

function rotateLeft(word: bigint, by: bigint): bigint {
  return ((word << by) | (word >> (32n - by))) % WORD;
}

/** The paper's SipRound on words of 32 bits: two half rounds, each with two additions. */
export function dullRound(state: State): State {
  let [v0, v1, v2, v3] = state;
  v0 = (v0 + v1) % WORD;
  v2 = (v2 + v3) % WORD;
  v1 = rotateLeft(v1, 5n) ^ v0;
  v3 = rotateLeft(v3, 8n) ^ v2;
  v0 = rotateLeft(v0, 16n);

  v2 = (v2 + v1) % WORD;
  v0 = (v0 + v3) % WORD;
  v1 = rotateLeft(v1, 13n) ^ v2;
  v3 = rotateLeft(v3, 7n) ^ v0;
  v2 = rotateLeft(v2, 16n);
  return [v0, v1, v2, v3];
}

function rounds(state: State, count: number): State {
  let current = state;
  for (let i = 0; i < count; i++) current = dullRound(current);
  return current;
}

function compress(state: State, word: bigint, roundCount: number): State {
  const [v0, v1, v2, v3] = state;
  const [r0, r1, r2, r3] = rounds([v0, v1, v2, v3 ^ word], roundCount);
  return [r0 ^ word, r1, r2, r3];
}

/** Two words of output: after v2 ^= 0xee, and again after v1 ^= 0xdd. */
function finish(state: State, roundCount: number): bigint {
  const [v0, v1, v2, v3] = state;
  const first = rounds([v0, v1, v2 ^ 0xeen, v3], roundCount);
  const low = first[1] ^ first[3];
  const [w0, w1, w2, w3] = first;
  const second = rounds([w0, w1 ^ 0xddn, w2, w3], roundCount);
  return ((second[1] ^ second[3]) << 32n) | low;
}

/** HalfSipHash-2-4 with 64 bits of output, as published; `key` has 8 bytes. Proves the round. */
export function dullHalfSipHash64(key: Uint8Array, message: Uint8Array): bigint {
  const word = (bytes: Uint8Array, at: number): bigint => {
    let value = 0n;
    for (let i = 3; i >= 0; i--) value = value * 256n + BigInt(bytes[at + i] ?? 0);
    return value;
  };
  const k0 = word(key, 0);
  const k1 = word(key, 4);
  let state: State = [k0, k1 ^ 0xeen, k0 ^ 0x6c796765n, k1 ^ 0x74656462n];
  const whole = message.length - (message.length % 4);
  for (let at = 0; at < whole; at += 4) state = compress(state, word(message, at), 2);
  const last = word(message.subarray(whole), 0) | (BigInt(message.length % 256) << 24n);
  return finish(compress(state, last, 2), 4);
}

/**
 * `count` words, little-endian, of HMAC-SHA-256(seed, "scheme domain" and the parts with their
 * lengths).
 */
function derive(
  seed: string,
  domain: string,
  parts: readonly (string | undefined)[],
  count: number,
): bigint[] {
  const message: number[] = [...Buffer.from(`hsip13/1 ${domain}`, "utf8")];
  for (const part of parts) {
    if (part === undefined) {
      message.push(0);
      continue;
    }
    const bytes = [...Buffer.from(part, "utf8")];
    message.push(1, bytes.length % 256, (bytes.length >> 8) % 256, (bytes.length >> 16) % 256, 0);
    message.push(...bytes);
  }
  const mac = createHmac("sha256", Buffer.from(seed, "utf8")).update(Buffer.from(message)).digest();
  return Array.from({ length: count }, (_, i) => BigInt(mac.readUInt32LE(4 * i)));
}

function withMark([v0, v1, v2, v3]: State): State {
  return [v0, v1 ^ ITEM_MARK, v2, v3];
}

/** The key at the end of all tokens: 64 bits. */
export function dullPrefixKey(prompt: DullPrompt): bigint {
  const { seed, loraName, cacheSalt, items = [], tokens } = prompt;
  const [r0 = 0n, r1 = 0n, r2 = 0n, r3 = 0n] = derive(seed, "namespace", [loraName, cacheSalt], 4);
  let state: State = [r0, r1, r2, r3];
  for (const [position, token] of tokens.entries()) {
    for (const { identifier, startTokens } of items) {
      if (startTokens !== position) continue;
      state = withMark(state);
      for (const word of derive(seed, "item", [identifier, `${startTokens}`], 3)) {
        state = compress(state, word, 1);
      }
      state = withMark(state);
    }
    state = compress(state, BigInt(token), 1);
  }
  return finish(compress(state, BigInt(tokens.length), 1), 3);
}

/** The wire form: 8 bytes little-endian, in hexadecimal. */
export function keyToHex(key: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(key);
  return bytes.toString("hex");
}
