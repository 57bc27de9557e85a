/**
 * What it is: the product's prefix key behind the interface of its dull twin.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything that the product does not.
 */
import { KeyedHasher, PrefixState } from "../../src/protocol/dist/index.js";
import type { DullPrompt } from "./dull-prefix-key.ts";

/** The key that stands in a finished state. */
export function keyIn(state: PrefixState): bigint {
  return (BigInt(state.keyHigh) << 32n) | BigInt(state.keyLow);
}

/** A state at the root of a prompt's namespace. */
export function rootState(hasher: KeyedHasher, prompt: DullPrompt): PrefixState {
  const { loraName, cacheSalt } = prompt;
  const state = new PrefixState();
  state.load(hasher.rootWords({ loraName, cacheSalt }), 0, 0);
  return state;
}

/** Absorbs a prompt from where the state stands to `end`, items included. */
export function absorbTo(
  state: PrefixState,
  hasher: KeyedHasher,
  prompt: DullPrompt,
  end: number,
): void {
  const { items = [], tokens } = prompt;
  while (state.endTokens < end) {
    const here = state.endTokens;
    for (const item of items)
      if (item.startTokens === here) state.absorbItem(hasher.itemWords(item));
    const starts = items.map((item) => item.startTokens).filter((start) => start > here);
    state.absorb(tokens, here, Math.min(end, ...starts));
  }
}

/** The key of a whole prompt, in one go. */
export function realPrefixKey(prompt: DullPrompt, hasher = new KeyedHasher(prompt.seed)): bigint {
  const state = rootState(hasher, prompt);
  absorbTo(state, hasher, prompt, prompt.tokens.length);
  state.finish();
  return keyIn(state);
}
