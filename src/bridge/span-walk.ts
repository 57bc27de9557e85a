/**
 * What it is: one pass over a store's span, hash unit by hash unit: prefix state and engine digest side by side.
 * Owns: where the pass stands; it can be interrupted after any unit.
 * Invariant: a digest is known only as long as every input since the last known one was.
 * Refuses: to guess: where inputs are not known it goes on without a digest, and takes one up again where the prefix key
 * leads to a block whose digest is known.
 * Does not do: judge hashes or record places (its target does), or choose what is assumed of a span.
 */
import type { BlockHasher, BlockTokens, PublishedForm } from "@kv-group-bridge/engine-hash";
import { hashWork, publishedHash } from "@kv-group-bridge/engine-hash";
import {
  type BlockHash,
  type Digest,
  type KeyedHasher,
  PrefixState,
} from "@kv-group-bridge/protocol";
import { absorbBlock } from "./absorb-block.ts";
import type { SpanDigests, SpanOrigin } from "./span-digests.ts";
import type { SpanInputs, UnitInputs } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What a pass tells and asks. */
export interface WalkTarget {
  /**
   * The engine names the end at `walk.endTokens` so. `walk.finishKey()` gives its prefix key. `isLast`: the span ends
   * here.
   */
  reached(hash: BlockHash, digest: Digest, walk: SpanWalk, isLast: boolean): void;
  /** The digest of the block under a prefix key; undefined = none is known. */
  digestAt(keyLow: number, keyHigh: number): Digest | undefined;
}

/** What a pass is made of. */
export interface SpanWalkOptions {
  readonly event: StoreEvent;
  readonly inputs: SpanInputs;
  readonly blockHasher: BlockHasher;
  readonly hasher: KeyedHasher;
  readonly form: PublishedForm;
  /** H. */
  readonly unitTokens: number;
  /** L. */
  readonly lookaheadTokens: number;
  /** State before the span; copied. */
  readonly words: Uint32Array;
  readonly startTokens: number;
  /** Digest before the span; undefined = not known. */
  readonly digest: Digest | undefined;
  /** Digests of a span like this one that was walked before; used and filled. */
  readonly known: SpanDigests;
  readonly target: WalkTarget;
}

const NO_TOKENS = new Uint32Array(0);
/** An item is read, placed and encoded, whatever its name. */
const TOKENS_PER_ITEM = 64;

/** What a unit costs whose digest is not computed, beside its tokens; a computed one is 1. */
const UNIT_WORK = 0.25;

/** One pass. `step` until it says that it is done. */
export class SpanWalk {
  /** Low and high 32 bits of the key at the end reached, after `finishKey`. */
  keyLow = 0;
  keyHigh = 0;
  /** State at the end reached. Not to be changed. */
  readonly state = new PrefixState();
  /** Every input so far was known, from a known digest on. */
  isUnbroken: boolean;
  private readonly options: SpanWalkOptions;
  private readonly origin: SpanOrigin;
  /** The span, and after it the look-ahead of its last hash. */
  private readonly ahead: Uint32Array;
  private readonly ahead4 = new PrefixState();
  private readonly words = new Uint32Array(4);
  private readonly block: BlockTokens;
  private unit = 0;
  private digest: Digest | undefined;
  private inputs: UnitInputs | undefined = undefined;

  constructor(options: SpanWalkOptions) {
    const { event, inputs, digest, lookaheadTokens } = options;
    this.options = options;
    this.digest = options.digest;
    this.isUnbroken = options.digest !== undefined;
    this.state.load(options.words, 0, options.startTokens);
    this.ahead = lookaheadTokens === 0 ? event.tokens : withLookahead(event);
    this.block = {
      tokens: event.tokens,
      from: 0,
      to: 0,
      ahead: this.ahead,
      aheadFrom: 0,
      aheadTo: 0,
    };
    this.origin = { event, inputs, digest, lookaheadTokens, ahead: this.ahead };
    options.known.begin(this.origin);
  }

  /** Goes on until `known.work` has come to `untilWork`; one unit at least. */
  step(untilWork: number): void {
    const { known } = this.options;
    const { unitCount } = this;
    known.resume(this.origin, this.unit);
    while (this.unit < unitCount && this.next()) {
      this.unit += 1;
      if (known.work >= untilWork) return;
    }
  }

  /** The span's end is reached, or nothing further can be told. */
  get isDone(): boolean {
    return this.unit >= this.unitCount;
  }

  /** Reads the prefix key at the end reached, look-ahead included, into keyLow and keyHigh. */
  finishKey(): void {
    const { lookaheadTokens, hasher } = this.options;
    if (lookaheadTokens === 0) {
      this.state.finish();
      this.keyLow = this.state.keyLow;
      this.keyHigh = this.state.keyHigh;
      return;
    }
    const { to } = this.block;
    this.state.save(this.words, 0);
    this.ahead4.load(this.words, 0, this.state.endTokens);
    const items = this.inputs?.items ?? [];
    absorbBlock(this.ahead4, hasher, items, this.ahead, to, to + lookaheadTokens);
    this.ahead4.finish();
    this.keyLow = this.ahead4.keyLow;
    this.keyHigh = this.ahead4.keyHigh;
  }

  private get unitCount(): number {
    return Math.floor(this.options.event.tokens.length / this.options.unitTokens);
  }

  /** One unit; false = nothing further can be told of this span. */
  private next(): boolean {
    const { event, inputs, hasher, unitTokens, lookaheadTokens, form, target } = this.options;
    const { known } = this.options;
    const from = this.unit * unitTokens;
    const to = from + unitTokens;
    const read = inputs.at(this.unit);
    this.inputs = read;
    if (read === undefined) {
      // What is not known may be in the prefix key too: an item.
      this.unit = this.unitCount;
      this.isUnbroken = false;
      return false;
    }
    known.work += UNIT_WORK * hashWork(unitTokens + lookaheadTokens);
    absorbBlock(this.state, hasher, read.items, event.tokens, from, to);
    const isAheadKnown = to + lookaheadTokens <= this.ahead.length;
    this.block.from = from;
    this.block.to = to;
    this.block.aheadFrom = to;
    this.block.aheadTo = to + lookaheadTokens;
    const isFollowed = this.digest !== undefined;
    this.digest = isAheadKnown ? this.digestHere(read) : undefined;
    if (this.digest === undefined) {
      if (isFollowed) this.isUnbroken = false;
      return true;
    }
    const hash = publishedHash(this.digest, form);
    target.reached(hash, this.digest, this, to === event.tokens.length);
    return true;
  }

  private digestHere(read: UnitInputs): Digest | undefined {
    const { blockHasher, known, target } = this.options;
    const { digest } = this;
    if (digest !== undefined) {
      const before = known.find(this.unit, this.block);
      if (before !== undefined) return before;
      const { unitTokens, lookaheadTokens } = this.options;
      known.work += hashWork(unitTokens + lookaheadTokens + lengthOf(read));
      const computed = blockHasher.digest(digest, this.block, read.extras);
      if (computed !== undefined) known.note(this.unit, this.block, computed);
      return computed;
    }
    this.finishKey();
    return target.digestAt(this.keyLow, this.keyHigh);
  }
}

/** Characters of a unit's extra keys. */
/** What extra keys add to a hash, as so many tokens: their texts, and something for each item. */
export function lengthOf({ extras }: UnitInputs): number {
  if (extras === undefined) return 0;
  const { loraName, loraPath, cacheSalt, items } = extras;
  let length = (loraName?.length ?? 0) + (loraPath?.length ?? 0) + (cacheSalt?.length ?? 0);
  for (const { identifier } of items) length += identifier.length + TOKENS_PER_ITEM;
  return length;
}

/** The look-ahead of the last listed hash, which the span's last block has if it is listed at all. */
function withLookahead(event: StoreEvent): Uint32Array {
  const last = event.lookaheadTokens?.[event.hashes.length - 1] ?? NO_TOKENS;
  const all = new Uint32Array(event.tokens.length + last.length);
  all.set(event.tokens);
  all.set(last, event.tokens.length);
  return all;
}
