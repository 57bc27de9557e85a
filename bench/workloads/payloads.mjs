// What it is: workload W3, "payloads": what a vLLM publisher sends, one BlockStored of full attention in each message, as
// msgpack maps: sets of 1, 16 and 64 blocks an event; and the same blocks as chains, for a bridge.
// Owns: the constants, which may not drift, and the encoded sizes (`CHECKS`).
// Refuses: a set that is not listed.
// Does not do: decode anything.
import { encode } from "@msgpack/msgpack";
import { fmix32, tokenOf } from "./fleet.mjs";

export const BLOCK_TOKENS = 16;
/** Messages and blocks of each, by set. */
export const SETS = {
  b1: { messages: 20_000, blocks: 1 },
  b16: { messages: 2_500, blocks: 16 },
  b64: { messages: 640, blocks: 64 },
};
/** A chain begins anew after this many blocks, so that no prompt becomes longer than prompts are. */
const CHAIN_BLOCKS = 4_096;
const TIMESTAMP_SECONDS = 1_764_500_000.25;
const TOKEN_STREAM = 7;

/** The engine's hash of block i of the stream: an integer with its highest bit set, so that every one has nine bytes. */
export function hashOf(i) {
  const high = BigInt((fmix32((i ^ 0x5bd1e995) | 0) | 0x80000000) >>> 0);
  return (high << 32n) | BigInt(fmix32(i));
}

/** The same as a digest of 32 bytes, as engines of the sha256 family publish. */
function digestOf(i) {
  const digest = new Uint8Array(32);
  const view = new DataView(digest.buffer);
  for (let at = 0; at < 32; at += 8) view.setBigUint64(at, hashOf(4 * i + at / 8));
  return digest;
}

/** One message's payload: blocks first … first + count - 1 of the stream. */
export function payload(first, count, hasDigests = false) {
  const nameOf = hasDigests ? digestOf : hashOf;
  const numbers = Array.from({ length: count }, (_, i) => first + i);
  const isRoot = first % CHAIN_BLOCKS === 0;
  const event = {
    type: "BlockStored",
    block_hashes: numbers.map((i) => nameOf(i)),
    parent_block_hash: isRoot ? null : nameOf(first - 1),
    token_ids: Array.from({ length: count * BLOCK_TOKENS }, (_, i) =>
      tokenOf(TOKEN_STREAM, first * BLOCK_TOKENS + i),
    ),
    block_size: BLOCK_TOKENS,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: numbers.map(() => null),
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
    kv_cache_spec_sliding_window: null,
  };
  return encode([TIMESTAMP_SECONDS, [event], 0], { useBigInt64: true });
}

/** A removal of blocks first … first + count - 1. */
export function removalPayload(first, count, hasDigests = false) {
  const nameOf = hasDigests ? digestOf : hashOf;
  const event = {
    type: "BlockRemoved",
    block_hashes: Array.from({ length: count }, (_, i) => nameOf(first + i)),
    medium: "GPU",
    group_idx: 0,
  };
  return encode([TIMESTAMP_SECONDS, [event], 0], { useBigInt64: true });
}

/** All payloads of a set; `messages` fewer than it has for a small run. */
export function payloads(name, messages = SETS[name]?.messages) {
  const set = SETS[name];
  if (set === undefined) throw new Error(`no set ${name}`);
  return Array.from({ length: messages }, (_, i) => payload(i * set.blocks, set.blocks));
}

/** The three frames of a multipart: topic, sequence number, payload. */
export function frames(sequence, body) {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(sequence));
  return [new Uint8Array(0), number, body];
}

/** Bytes of a message as Python's msgspec encoded them; ours has three or four less, and which does not matter. */
export const CHECKS = { b1: 291, b16: 1_399, b64: 4_931 };

/** Throws unless messages are as large as `CHECKS` says. */
export function check(messages = 200) {
  for (const [name, wanted] of Object.entries(CHECKS)) {
    const list = payloads(name, Math.min(messages, SETS[name].messages));
    const mean = list.reduce((sum, body) => sum + body.length, 0) / list.length;
    if (Math.abs(mean - wanted) > 5) {
      throw new Error(`${name}: ${mean.toFixed(1)} bytes a message, not ${wanted}`);
    }
  }
}
