/**
 * What it is: what the log says of a state of the search for an engine's way to hash.
 * Owns: the sentences.
 * Refuses: nothing.
 * Does not do: log.
 */
import type { HashState } from "@kv-group-bridge/protocol";
import type { HashingConfig } from "./engine-config.ts";

/** Where something is stated, it may be what is wrong. */
const STATED_HINT = "; are hash_algorithm and python_hash_seed of engine.description right?";

const STATE_TEXTS: Readonly<Record<HashState, string>> = {
  searching: "searched anew",
  proven: "the engine's own were reproduced",
  not_found: "no known way gives the engine's own; only equal hashes place sparse entries",
  refuted: "the engine published one that is not reproduced; nothing is recomputed any more",
  off: "not recomputed",
};

/** The sentence for a state, and a hint where what is stated may be wrong. */
export function hashStateText(state: HashState, config: HashingConfig): string {
  const isStated = config.algorithm !== undefined || config.seedText !== undefined;
  const hint = state === "not_found" && isStated ? STATED_HINT : "";
  return STATE_TEXTS[state] + hint;
}
