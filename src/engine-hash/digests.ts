/**
 * What it is: the digest of bytes, of each hash function that vLLM offers.
 * Owns: the one xxh3-128 instance of the process (WebAssembly, made when this module is loaded).
 * Refuses: nothing.
 * Does not do: encode what is hashed.
 */
import { hash } from "node:crypto";
import { type Digest, digestOf, type HashAlgorithm } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { createXXHash128 } from "hash-wasm";

const xxh3 = await createXXHash128();

/** The digest of `bytes` under the hash function that an algorithm's name begins with. */
export function digestOfBytes(algorithm: HashAlgorithm, bytes: Uint8Array): Digest {
  return algorithm.startsWith("sha256") ? sha256(bytes) : xxh3Of128(bytes);
}

function sha256(bytes: Uint8Array): Digest {
  const text = hash("sha256", bytes, "binary");
  invariant(isSha256(text), "a SHA-256 digest has 32 bytes");
  return text;
}

/** "binary" of node:crypto is latin1. */
function isSha256(text: string): text is Digest {
  return text.length === 32;
}

/** xxh3-128 without a seed, in its canonical order (most significant byte first), as Python's xxhash gives it. */
function xxh3Of128(bytes: Uint8Array): Digest {
  return digestOf(xxh3.init().update(bytes).digest("binary"));
}
