/**
 * What it is: short ways to write validated vLLM events, as the stages after validation see them.
 * Owns: nothing.
 * Refuses: hashes that are no integers of 64 bits.
 * Does not do: encode anything.
 */
import type { RemoveEvent, StoreEvent } from "../../src/bridge/dist/vllm-event.js";
import {
  type BlockHash,
  type GroupId,
  parseGroupId,
  parseIntegerHash,
} from "../../src/protocol/dist/index.js";

export function hash(value: number): BlockHash {
  const parsed = parseIntegerHash(value);
  if (parsed === undefined) throw new RangeError("not a hash");
  return parsed;
}

export function group(value: number): GroupId {
  const parsed = parseGroupId(value);
  if (parsed === undefined) throw new RangeError("not a group");
  return parsed;
}

/** first … last, both included. */
export function span(first: number, last: number): Uint32Array {
  return Uint32Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** A dense store on the GPU in group 0, full attention; block size from tokens and hashes. */
export function stored(
  hashes: readonly number[],
  tokens: Uint32Array,
  more: Partial<StoreEvent> = {},
): StoreEvent {
  return {
    type: "stored",
    hashes: hashes.map(hash),
    parent: undefined,
    tokens,
    blockSizeTokens: hashes.length === 0 ? 4 : tokens.length / hashes.length,
    loraId: undefined,
    loraName: undefined,
    extraKeys: hashes.map(() => undefined),
    lookaheadTokens: undefined,
    groupId: group(0),
    kind: "full_attention",
    windowTokens: undefined,
    medium: "GPU",
    locality: "",
    ownership: "",
    notes: [],
    ...more,
  };
}

/** A removal on the GPU in group 0. */
export function removed(hashes: readonly number[], more: Partial<RemoveEvent> = {}): RemoveEvent {
  return {
    type: "removed",
    groupId: group(0),
    hashes: hashes.map(hash),
    remainingCopies: undefined,
    medium: "GPU",
    locality: "",
    ownership: "",
    notes: [],
    ...more,
  };
}
