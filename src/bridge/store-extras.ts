/**
 * What it is: whether a store says that something beside its tokens is hashed: one answer for every stage.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: say what it is (block-extras.ts and span-inputs.ts do).
 */
import type { StoreEvent } from "./vllm-event.ts";

/** Extra keys are published of at least one block. */
export function hasExtraKeys(event: StoreEvent): boolean {
  return event.extraKeys?.some((keys) => keys !== undefined) ?? false;
}

/** Nothing but tokens is hashed, as far as the event says; look-ahead is tokens too. */
export function isPlainSpan(event: StoreEvent): boolean {
  return event.loraName === undefined && event.loraId === undefined && !hasExtraKeys(event);
}

/** Nothing but each block's own tokens is hashed, as far as the event says. */
export function isPlainStore(event: StoreEvent): boolean {
  return isPlainSpan(event) && (event.lookaheadTokens?.length ?? 0) === 0;
}
