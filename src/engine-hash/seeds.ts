/**
 * What it is: the digest before a prompt's first block (vLLM's NONE_HASH), from the text that an engine was seeded with.
 * Owns: the texts worth trying.
 * Refuses: a text that cannot be reproduced (undefined).
 * Does not do: try them on an engine's hashes (the bridge does).
 */
import type { Digest, HashAlgorithm } from "@kv-group-bridge/protocol";
import { BlockHasher } from "./block-hasher.ts";

/**
 * The text of an engine without PYTHONHASHSEED, since vLLM 0.29 (older ones take random bytes). Of the SHA-256 variants alone:
 * the xxhash variants take random bytes to this day.
 */
export const DEFAULT_SEED_TEXT = "vllm-none-hash";

/** Values of PYTHONHASHSEED that deployments use: 0 as in vLLM's own documents, small numbers, and the usual others. */
export const COMMON_SEED_TEXTS: readonly string[] = [
  ...Array.from({ length: 17 }, (_, number) => String(number)),
  "42",
  "123",
  "1234",
  "12345",
  "1337",
];

/** The root digest of a seed text: the algorithm applied to it. Undefined for lone surrogates and texts over 64 KiB (pickle). */
export function seedDigest(algorithm: HashAlgorithm, text: string): Digest | undefined {
  return new BlockHasher(algorithm, "tagged").textDigest(text);
}
