/**
 * What it is: one payload given to both readers of batches.
 * Owns: nothing.
 * Refuses: by throwing: where the fast reader answers, the general one says the very same.
 * Does not do: say which of the two is right.
 */
import { isDeepStrictEqual } from "node:util";
import type { HashOptions } from "../../src/bridge/dist/block-hashes.js";
import { readFast } from "../../src/bridge/dist/fast-read.js";
import { decodeBatchSlowly } from "../../src/bridge/dist/validate.js";

/** True when the fast reader answered. The message of a failure holds the payload. */
export function readBoth(payload: Uint8Array, options: HashOptions = {}): boolean {
  const fast = readFast(payload, options);
  if (fast === undefined) return false;
  const slow = decodeBatchSlowly(payload, options);
  if (!slow.ok || !isDeepStrictEqual(fast, slow.value)) {
    throw new RangeError(`the readers differ: ${Buffer.from(payload).toString("hex")}`);
  }
  return true;
}
