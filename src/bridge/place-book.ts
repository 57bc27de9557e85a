/**
 * What it is: the places of a mirror's blocks: given, taken away, told; and what is told of blocks that have none.
 * Owns: blocks by key; which blocks of the batch at hand are to be told without a place at its end.
 * Invariant: one key has one hash.
 * Refuses: nothing; a second hash for a key takes the place of the first one and of what stands on it (hash_replaced).
 * Does not do: learn places (place-learner.ts does) or count copies (the mirror does).
 */
import {
  type BlockHash,
  type Digest,
  HashKeys,
  type KeyedHasher,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import { type Block, keyText, keyTextOf, type Slot } from "./block.ts";
import { standingOn } from "./descendants.ts";
import type { HeldEntries } from "./held-entries.ts";
import type { MirrorSink } from "./mirror-options.ts";
import type { PlaceTally } from "./place-tally.ts";
import type { NewPlace, PlaceHost } from "./place-types.ts";
import { isDenseStore } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** The mirror that a book belongs to. */
export interface PlaceBookOptions {
  readonly hasher: KeyedHasher;
  readonly sink: MirrorSink;
  readonly held: HeldEntries;
  readonly tally: PlaceTally;
  readonly slots: () => readonly Slot[];
  readonly find: (hash: BlockHash) => Block | undefined;
  readonly obtain: (hash: BlockHash) => Block;
  readonly all: () => Iterable<Block>;
  /** A block is not what it was. */
  readonly touch: (block: Block) => void;
  /** A block is held in a slot no more, whatever its count. */
  readonly takeAway: (block: Block, slot: Slot) => void;
}

/** One a mirror. */
export class PlaceBook implements PlaceHost {
  private readonly options: PlaceBookOptions;
  private readonly hashKeys: HashKeys;
  private blocks = new Map<string, Block>();
  /** Stored in this batch without a place. */
  private untold: { readonly block: Block; readonly slot: Slot }[] = [];

  constructor(options: PlaceBookOptions) {
    this.options = options;
    this.hashKeys = new HashKeys(options.hasher);
  }

  /** Placed blocks by the text of their keys. */
  get byKey(): ReadonlyMap<string, Block> {
    return this.blocks;
  }

  find(hash: BlockHash): Block | undefined {
    return this.options.find(hash);
  }

  obtain(hash: BlockHash): Block {
    return this.options.obtain(hash);
  }

  under(keyLow: number, keyHigh: number): Block | undefined {
    return this.blocks.get(keyText(keyLow, keyHigh));
  }

  refused(reason: RefusalReason): void {
    this.options.sink.refused(reason);
  }

  givePlace(block: Block, place: NewPlace): void {
    const { held, tally, touch } = this.options;
    this.dropFalsePartials(block, place.state.endTokens);
    const key = keyText(place.keyLow, place.keyHigh);
    const holder = this.blocks.get(key);
    if (holder !== undefined) this.replace(holder);
    this.untell(block);
    block.maybeTailTokens = 0;
    touch(block);
    block.place(place.state, place.keyLow, place.keyHigh, place.loraName);
    block.isPlain = place.isPlain;
    const { before } = place;
    if (before?.isPlaced === true) {
      block.parentLow = before.keyLow;
      block.parentHigh = before.keyHigh;
      block.hasParentKey = true;
      block.parent = before;
    }
    block.blockSizeTokens ||= place.blockSizeTokens;
    this.blocks.set(key, block);
    held.gotPlace(block);
    tally.found(block, place.by);
    if (block.heldSlots > 0) this.announce(block);
  }

  giveDigest(block: Block, digest: Digest): void {
    block.digest = digest;
    this.options.touch(block);
  }

  /**
   * Notes the last tokens of a block of a dense store, as the key under which it can be told without a place.
   * `unitTokens`: H as proven. Undefined = nothing is proven: a store of one block may be a partial entry, which has H
   * tokens; its key waits for `unitProven`.
   */
  noteTail(event: StoreEvent, index: number, block: Block, unitTokens: number | undefined): void {
    const { tokens, blockSizeTokens } = event;
    const tailTokens = unitTokens ?? (event.hashes.length === 1 ? blockSizeTokens : 0);
    if (block.hasTail || tailTokens === 0 || blockSizeTokens % tailTokens !== 0) return;
    if (!isDenseStore(event)) return;
    const end = (index + 1) * blockSizeTokens;
    this.hashKeys.ofTail(tokens, end - tailTokens, end);
    block.tailLow = this.hashKeys.keyLow;
    block.tailHigh = this.hashKeys.keyHigh;
    this.options.touch(block);
    if (unitTokens === undefined) block.maybeTailTokens = tailTokens;
    else this.giveTail(block);
  }

  /** H is proven: what was stored before as a single block of H tokens can be told. Linear in what is known; rare. */
  unitProven(unitTokens: number): void {
    for (const block of this.options.all()) {
      if (block.maybeTailTokens === unitTokens && !block.isPlaced) this.giveTail(block);
      block.maybeTailTokens = 0;
    }
  }

  private giveTail(block: Block): void {
    block.hasTail = true;
    block.maybeTailTokens = 0;
    this.options.held.gotTail(block);
    this.options.touch(block);
    for (const slot of this.options.slots()) {
      if (block.copiesIn(slot) > 0) this.tellLater(block, slot);
    }
  }

  /** A block without a place was stored: at the end of the batch it is told, if that is still so and it can be told. */
  tellLater(block: Block, slot: Slot): void {
    if (block.isTellable) this.untold.push({ block, slot });
  }

  /** Tells them. */
  tellUnplaced(): void {
    const { untold } = this;
    if (untold.length === 0) return;
    this.untold = [];
    for (const { block, slot } of untold) {
      if (block.isTellable && block.copiesIn(slot) > 0) {
        this.options.sink.unplacedStored(slot, block);
      }
    }
  }

  /** Nothing of the batch at hand is told. */
  forgetUntold(): void {
    this.untold = [];
  }

  /** A block with a place is known no more. */
  forget(block: Block): void {
    this.blocks.delete(keyTextOf(block));
  }

  /** No block has a place. */
  clear(): void {
    this.blocks.clear();
  }

  /** Takes over what was written down; its own from then on. */
  restore(byKey: Map<string, Block>): void {
    this.blocks = byKey;
  }

  /** Stored as partial entries before their end was known, and now they end where a whole block does. */
  private dropFalsePartials(block: Block, endTokens: number): void {
    const { partialOf } = block;
    if (partialOf === undefined) return;
    block.partialOf = undefined;
    this.options.touch(block);
    for (const slot of this.options.slots()) {
      const whole = partialOf[slot.index] ?? 0;
      if (whole === 0 || endTokens % whole !== 0 || block.copiesIn(slot) === 0) continue;
      this.options.sink.refused("block_size_contradicts");
      this.options.takeAway(block, slot);
    }
  }

  /** Says everything that is held of a block which has just got its place. */
  private announce(block: Block): void {
    for (const slot of this.options.slots()) {
      if (block.copiesIn(slot) > 0) this.options.sink.stored(slot, block);
    }
  }

  /** What was told of a block without a place is void. */
  private untell(block: Block): void {
    if (!block.hasTail) return;
    for (const slot of this.options.slots()) {
      if (block.copiesIn(slot) > 0) this.options.sink.unplacedRemoved(slot, block);
    }
    this.options.held.lostTail(block);
    block.hasTail = false;
  }

  /** Another hash has the same key: what vLLM hashes but does not publish has changed. What stands on it goes. */
  private replace(older: Block): void {
    this.options.sink.refused("hash_replaced");
    for (const block of standingOn(older, this.options.all())) this.displace(block);
  }

  /** Takes a block's place away and says so. */
  private displace(block: Block): void {
    for (const slot of this.options.slots()) {
      if (block.copiesIn(slot) > 0) this.options.sink.removed(slot, block);
    }
    this.options.held.lostPlace(block);
    this.forget(block);
    block.displace();
    this.options.touch(block);
  }
}
