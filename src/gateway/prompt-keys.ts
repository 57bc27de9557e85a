/**
 * What it is: the keys of one prompt, computed as far as somebody asks: the key at p covers the namespace,
 * the first p tokens and every item that starts before p.
 * Owns: one hash state and saved states every `SAVE_EVERY_TOKENS`, so that going back is cheap. Invariant: the
 * state has absorbed exactly the items that start before its end.
 * Refuses: nothing; the query is checked before (query.ts).
 * Does not do: keep the prompt; `reset` with an empty one lets go of it.
 */
import { type KeyedHasher, PrefixState, STATE_WORDS } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** A multimodal item of a prompt: vLLM's identifier and its first placeholder token, from 0. */
export interface MultimodalItem {
  readonly identifier: string;
  readonly offset: number;
}

/** Distance of saved states: 1 kB of states for 64k tokens, and at most some microseconds to go back. */
const SAVE_EVERY_TOKENS = 1024;
const NO_TOKENS = new Uint32Array(0);
const NO_ITEMS: readonly MultimodalItem[] = [];

/** A reader of prefix keys, reused from query to query; plain prompts cost no allocation. */
export class PromptKeys {
  /** Low 32 bits of the key, after `seek`. */
  keyLow = 0;
  /** High 32 bits of the key, after `seek`. */
  keyHigh = 0;
  private readonly hasher: KeyedHasher;
  private readonly state = new PrefixState();
  private saved = new Uint32Array(64 * STATE_WORDS);
  private savedCount = 0;
  private tokens: ArrayLike<number> = NO_TOKENS;
  private items: readonly MultimodalItem[] = NO_ITEMS;
  private itemIndex = 0;

  constructor(hasher: KeyedHasher) {
    this.hasher = hasher;
  }

  /** Begins another prompt. `items` ascend strictly by offset. Nothing is hashed yet. */
  reset(
    tokens: ArrayLike<number>,
    rootWords: Uint32Array,
    items: readonly MultimodalItem[] = NO_ITEMS,
  ): void {
    this.tokens = tokens;
    this.items = items;
    this.itemIndex = 0;
    this.state.load(rootWords, 0, 0);
    this.state.save(this.saved, 0);
    this.savedCount = 1;
  }

  /** Lets go of the prompt. */
  release(): void {
    this.tokens = NO_TOKENS;
    this.items = NO_ITEMS;
  }

  /** Reads the key of the first `positionTokens` tokens (0 … prompt length) into keyLow and keyHigh. */
  seek(positionTokens: number): void {
    invariant(positionTokens <= this.tokens.length, "a key lies inside the prompt");
    if (positionTokens < this.state.endTokens) this.goBack(positionTokens);
    while (this.state.endTokens < positionTokens) this.advance(positionTokens);
    this.state.finish();
    this.keyLow = this.state.keyLow;
    this.keyHigh = this.state.keyHigh;
  }

  private advance(positionTokens: number): void {
    const { state, items } = this;
    const endTokens = state.endTokens;
    let stop = endTokens - (endTokens % SAVE_EVERY_TOKENS) + SAVE_EVERY_TOKENS;
    if (stop > positionTokens) stop = positionTokens;
    if (this.itemIndex < items.length) {
      let item = items[this.itemIndex];
      if (item !== undefined && item.offset === endTokens) {
        state.absorbItem(
          this.hasher.itemWords({ identifier: item.identifier, startTokens: item.offset }),
        );
        this.itemIndex++;
        item = items[this.itemIndex];
      }
      if (item !== undefined && item.offset < stop) stop = item.offset;
    }
    state.absorb(this.tokens, endTokens, stop);
    if (stop === this.savedCount * SAVE_EVERY_TOKENS) this.save();
  }

  private save(): void {
    const offset = this.savedCount * STATE_WORDS;
    if (offset + STATE_WORDS > this.saved.length) {
      const larger = new Uint32Array(this.saved.length * 2);
      larger.set(this.saved);
      this.saved = larger;
    }
    this.state.save(this.saved, offset);
    this.savedCount++;
  }

  private goBack(positionTokens: number): void {
    const index = Math.floor(positionTokens / SAVE_EVERY_TOKENS);
    invariant(index < this.savedCount, "every save point behind the end was saved");
    const endTokens = index * SAVE_EVERY_TOKENS;
    this.state.load(this.saved, index * STATE_WORDS, endTokens);
    while (this.itemIndex > 0) {
      const item = this.items[this.itemIndex - 1];
      if (item !== undefined && item.offset < endTokens) break;
      this.itemIndex--;
    }
  }
}
