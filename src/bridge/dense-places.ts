/**
 * What it is: the places that a dense store tells by itself, recorded.
 * Owns: nothing.
 * Refuses: a second place for a hash (place_contradicts): from there on nothing of the store is taken for placed.
 * Does not do: walk (placement.ts does), or recompute hashes.
 */
import type { Block } from "./block.ts";
import type { LearntPlaces, PlaceHost } from "./place-types.ts";
import type { Placement } from "./placement.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What the reading of one store needs beside its event. */
export interface DenseContext {
  /** The mirror's block of the parent hash. */
  readonly parent: Block | undefined;
  /** L. */
  readonly lookaheadTokens: number;
  /** Nothing but tokens is in the chain, this store included. */
  readonly isPlain: boolean;
}

/** Reads one store; a store that is not dense, or has no anchor, tells nothing. */
export function readDensePlaces(
  event: StoreEvent,
  placement: Placement,
  host: PlaceHost,
  context: DenseContext,
): LearntPlaces {
  const { parent, lookaheadTokens, isPlain } = context;
  const { loraName, blockSizeTokens } = event;
  let soundCount = event.hashes.length;
  let denseCount = 0;
  let before = parent;
  placement.walk(event, parent, lookaheadTokens, (index, state, keyLow, keyHigh) => {
    const hash = event.hashes[index];
    if (hash === undefined) return false;
    const block = host.obtain(hash);
    if (block.isPlaced) {
      const isSame =
        block.endTokens === state.endTokens && block.keyLow === keyLow && block.keyHigh === keyHigh;
      if (isSame) denseCount = index + 1;
      else {
        host.refused("place_contradicts");
        soundCount = index;
      }
      before = block;
      return isSame;
    }
    const place = { state, keyLow, keyHigh, before, loraName, isPlain, blockSizeTokens };
    host.givePlace(block, { ...place, by: "dense" });
    denseCount = index + 1;
    before = block;
    return true;
  });
  return { soundCount, denseCount };
}
