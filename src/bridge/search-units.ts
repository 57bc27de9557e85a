/**
 * What it is: hash units worth trying on a store while an engine's own is not known, and what of the store is hashed.
 * Owns: nothing.
 * Refuses: units whose hashes cover too much, or that cost more than a batch may.
 * Does not do: hash.
 */
import { hashWork } from "@kv-group-bridge/engine-hash";
import { LIMITS } from "@kv-group-bridge/protocol";
import { isDenseStore } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What is known of an engine's hash unit before anything was reproduced. */
export interface UnitHint {
  /** Stated H; undefined = not stated. */
  readonly statedTokens: number | undefined;
}

const NO_TOKENS = new Uint32Array(0);

/** Units worth trying: the stated one, or the divisors of the block size, the largest first. */
export function unitsOf(event: StoreEvent, hint: UnitHint): readonly number[] {
  const { blockSizeTokens } = event;
  const { statedTokens } = hint;
  if (statedTokens !== undefined) {
    const perBlock = blockSizeTokens / statedTokens;
    return Number.isInteger(perBlock) && perBlock <= LIMITS.hashUnitsPerBlock.value
      ? [statedTokens]
      : [];
  }
  const units: number[] = [];
  for (let perBlock = 1; perBlock <= LIMITS.hashUnitsPerBlock.value; perBlock++) {
    if (blockSizeTokens % perBlock === 0) units.push(blockSizeTokens / perBlock);
  }
  return units;
}

/** Where the first listed hash stands at the latest. */
export function reachOf(event: StoreEvent): number {
  return isDenseStore(event) ? event.blockSizeTokens : event.tokens.length;
}

/** The span's tokens up to `reach`, and after them the look-ahead of the hash that stands there. */
export function aheadOf(event: StoreEvent, reach: number, lookaheadTokens: number): Uint32Array {
  const { tokens, hashes } = event;
  if (reach + lookaheadTokens <= tokens.length) return tokens;
  const index = isDenseStore(event) ? 0 : hashes.length - 1;
  const last = event.lookaheadTokens?.[index] ?? NO_TOKENS;
  const ahead = new Uint32Array(reach + last.length);
  ahead.set(tokens.subarray(0, reach));
  ahead.set(last, reach);
  return ahead;
}

/** Of units, the first ones that can be tried on a store within the bounds of one batch. */
export function affordable(
  units: readonly number[],
  event: StoreEvent,
  lookaheadTokens: number,
): readonly number[] {
  const reach = reachOf(event);
  let work = 0;
  return units.filter((unit) => {
    const hashed = unit + lookaheadTokens;
    if (hashed > LIMITS.hashTokens.value) return false;
    work += (reach / unit) * hashWork(hashed);
    return work <= LIMITS.hashSearchHashes.value;
  });
}
