/**
 * What it is: the keys of one prompt, computed as far as somebody asks: the key at p covers the
 * namespace, the first p tokens and every item that starts before p.
 * Owns: one hash state. Invariant: it has absorbed exactly the items that start before its end.
 * Refuses: going back; a walk asks in ascending order. The query itself is checked in query.ts.
 * Does not do: keep the prompt; `release` lets go of it.
 */
import { type KeyedHasher, PLAIN, PrefixState } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** A multimodal item of a prompt. */
export interface MultimodalItem {
  /** What vLLM hashes. */
  readonly identifier: string;
  /** First placeholder token, from 0. */
  readonly offset: number;
  /** Placeholder tokens; absent or 0 = not known. Prefix keys do not need it, the engine's own hashes do. */
  readonly length?: number | undefined;
}

/** A prompt with all that its keys depend on; a checked query is one. Undefined and absent mean the same. */
export interface NamedPrompt {
  readonly tokens: ArrayLike<number>;
  readonly loraName?: string | undefined;
  /** "" = none. */
  readonly cacheSalt?: string | undefined;
  readonly multimodalItems?: readonly MultimodalItem[] | undefined;
}

const NO_TOKENS = new Uint32Array(0);
const NO_ITEMS: readonly MultimodalItem[] = [];

/**
 * A reader of prefix keys, reused from query to query; prompts without items cost no allocation.
 */
export class PromptKeys {
  /** Low 32 bits of the key, after `seek`. */
  keyLow = 0;
  /** High 32 bits of the key, after `seek`. */
  keyHigh = 0;
  private readonly hasher: KeyedHasher;
  private readonly plainRoot: Uint32Array;
  private readonly state = new PrefixState();
  private tokens: ArrayLike<number> = NO_TOKENS;
  private items: readonly MultimodalItem[] = NO_ITEMS;
  private itemIndex = 0;

  constructor(hasher: KeyedHasher) {
    this.hasher = hasher;
    this.plainRoot = hasher.rootWords(PLAIN);
  }

  /** As `reset`, for a prompt that names its namespace. */
  begin(prompt: NamedPrompt): void {
    const { tokens, loraName, multimodalItems } = prompt;
    const cacheSalt = prompt.cacheSalt === "" ? undefined : prompt.cacheSalt;
    const isPlain = loraName === undefined && cacheSalt === undefined;
    const root = isPlain ? this.plainRoot : this.hasher.rootWords({ loraName, cacheSalt });
    this.reset(tokens, root, multimodalItems);
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
  }

  /** Lets go of the prompt. */
  release(): void {
    this.tokens = NO_TOKENS;
    this.items = NO_ITEMS;
  }

  /**
   * Reads the key of the first `positionTokens` tokens into keyLow and keyHigh. Positions ascend.
   */
  seek(positionTokens: number): void {
    const { state } = this;
    invariant(positionTokens <= this.tokens.length, "a key lies inside the prompt");
    invariant(positionTokens >= state.endTokens, "keys are read in ascending order");
    while (this.itemIndex < this.items.length) {
      const item = this.items[this.itemIndex];
      if (item === undefined || item.offset >= positionTokens) break;
      state.absorb(this.tokens, state.endTokens, item.offset);
      const start = { identifier: item.identifier, startTokens: item.offset };
      state.absorbItem(this.hasher.itemWords(start));
      this.itemIndex++;
    }
    state.absorb(this.tokens, state.endTokens, positionTokens);
    state.finish();
    this.keyLow = state.keyLow;
    this.keyHigh = state.keyHigh;
  }
}
