/**
 * What it is: from a digest to the block hash that an engine publishes of it.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: the joined digests of coarse groups (vLLM 0.20 to 0.23): those are known by their last digest.
 */
import { type BlockHash, type Digest, isBlockHash } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** How an engine publishes hashes: VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES, integers by default. */
export type PublishedForm = "integer" | "bytes";

const INTEGER_BYTES = 8;

/** Integers are the digest's last 8 bytes; byte hashes the whole. */
export function publishedHash(digest: Digest, form: PublishedForm): BlockHash {
  const text: string = form === "integer" ? digest.slice(-INTEGER_BYTES) : digest;
  invariant(isBlockHash(text), "a digest has 8 bytes at least");
  return text;
}
