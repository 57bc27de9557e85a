/**
 * What it is: the bounds of reading LoRA adapters' paths from the engine's HTTP API.
 * Owns: the numbers.
 * Refuses: nothing.
 * Does not do: read configuration; see limits.ts.
 */
import { type Limit, limit } from "./limit.ts";

/** Part of `LIMITS`. */
export const LORA_LIMITS = {
  loraPathsIntervalMs: limit(
    300_000,
    "milliseconds",
    "an adapter's name may be pointed at another path while the engine runs",
    "the engine's list of adapters is read again",
  ),
  loraPathsMinPauseMs: limit(
    10_000,
    "milliseconds",
    "an event that names an unknown adapter, and a failed reading, ask for another one",
    "the next reading may begin; after failures alone the pause doubles up to loraPathsIntervalMs",
  ),
  engineHttpTimeoutMs: limit(
    5_000,
    "milliseconds",
    "a request to the engine's API, from its begin to the last byte",
    "the request is given up as timeout",
  ),
  engineHttpBytes: limit(
    1024 * 1024,
    "bytes",
    "a list of 4,096 adapters, unpacked",
    "the rest is not read; the answer is refused as too_large",
  ),
} as const satisfies Record<string, Limit>;
