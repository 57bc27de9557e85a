/**
 * What it is: the reading of places from one dense store: which of its hashes ends where, and under which key.
 * Owns: scratch states only.
 * Refuses: to guess. Without an anchor (the root, or a parent that has a place), with sparse hashes or with
 * extra keys that it does not understand it gives no place. An unknown parent is never a root.
 * Does not do: record places or resolve contradictions (the mirror does).
 */
import { type KeyedHasher, type Namespace, PLAIN, PrefixState } from "@kv-group-bridge/protocol";
import { absorbBlock } from "./absorb-block.ts";
import type { Block } from "./block.ts";
import { type BlockExtras, NO_EXTRAS, readBlockExtras } from "./block-extras.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** Receives the place of the i-th hash; returning false ends the walk. */
export type PlaceSink = (
  index: number,
  state: PrefixState,
  keyLow: number,
  keyHigh: number,
) => boolean;

/** Walks dense stores. One per rank; `hasher` carries the fleet's seed. */
export class Placement {
  private readonly hasher: KeyedHasher;
  private readonly state = new PrefixState();
  private readonly ahead = new PrefixState();
  private readonly aheadWords = new Uint32Array(4);
  private readonly plainRoot: Uint32Array;

  constructor(hasher: KeyedHasher) {
    this.hasher = hasher;
    this.plainRoot = hasher.rootWords(PLAIN);
  }

  /**
   * Gives `sink` the place of each hash of a dense store in order, as far as they can be told. `parent` is the
   * block of the event's parent hash, undefined when the mirror does not know it. `lookaheadTokens`: L.
   */
  walk(
    event: StoreEvent,
    parent: Block | undefined,
    lookaheadTokens: number,
    sink: PlaceSink,
  ): void {
    const size = event.blockSizeTokens;
    const count = event.hashes.length;
    if (count === 0 || size === 0 || count * size !== event.tokens.length) return;
    if (!this.anchor(event, parent, lookaheadTokens)) return;
    const state = this.state;
    for (let index = 0; index < count; index++) {
      const startTokens = state.endTokens;
      const extras = this.extras(event, index, startTokens, lookaheadTokens);
      if (extras === undefined) return;
      const from = index * size;
      absorbBlock(state, this.hasher, extras.items, event.tokens, from, from + size);
      if (lookaheadTokens === 0) {
        state.finish();
        if (!sink(index, state, state.keyLow, state.keyHigh)) return;
        continue;
      }
      const next = event.lookaheadTokens?.[index];
      if (next === undefined || next.length !== lookaheadTokens) return;
      state.save(this.aheadWords, 0);
      this.ahead.load(this.aheadWords, 0, state.endTokens);
      absorbBlock(this.ahead, this.hasher, extras.items, next, 0, lookaheadTokens);
      this.ahead.finish();
      if (!sink(index, state, this.ahead.keyLow, this.ahead.keyHigh)) return;
    }
  }

  /** Puts the state where the span begins; false without an anchor. */
  private anchor(event: StoreEvent, parent: Block | undefined, lookaheadTokens: number): boolean {
    // An adapter known by number only is no base model, and no adapter that a query could name.
    if (event.loraName === undefined && event.loraId !== undefined) return false;
    if (event.parent !== undefined) {
      // A prompt has one adapter from its first token on: another one below a parent is no child of it.
      return parent?.loraName === event.loraName && parent?.loadInto(this.state) === true;
    }
    // A store outside the GPU that carries no extra keys may be salted: at the root it looks plain (vLLM 0.33.0
    // OffloadingConnector). Below a placed parent the namespace is inherited.
    if (event.extraKeys === undefined && event.medium !== "GPU") return false;
    const extras = this.extras(event, 0, 0, lookaheadTokens);
    if (extras === undefined) return false;
    const namespace: Namespace = { loraName: event.loraName, cacheSalt: extras.cacheSalt };
    const isPlain = namespace.loraName === undefined && namespace.cacheSalt === undefined;
    this.state.load(isPlain ? this.plainRoot : this.hasher.rootWords(namespace), 0, 0);
    return true;
  }

  private extras(
    event: StoreEvent,
    index: number,
    startTokens: number,
    lookaheadTokens: number,
  ): BlockExtras | undefined {
    if (event.extraKeys === undefined) return NO_EXTRAS;
    return readBlockExtras(event.extraKeys[index], {
      startTokens,
      endTokens: startTokens + event.blockSizeTokens,
      lookaheadTokens,
      loraName: event.loraName,
    });
  }
}
