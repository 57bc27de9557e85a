/**
 * What it is: one block hash of the engine: how many copies are held where, and its place in a prompt.
 * Owns: the copy counts (one per residency slot) and the place.
 * Refuses: nothing; the mirror guards it.
 * Does not do: know of events, of the stream or of a file.
 */
import type { BlockHash, Digest, GroupId, PrefixState } from "@kv-group-bridge/protocol";
import { STATE_WORDS } from "@kv-group-bridge/protocol";

/** A cache that holds blocks on its own: one group in one medium, locality and ownership. */
export interface Slot {
  /** Dense, from 0, in order of appearance. */
  readonly index: number;
  readonly groupId: GroupId;
  readonly medium: string;
  /** "" = local. */
  readonly locality: string;
  readonly ownership: string;
  /** True for what the engine's own lookup reads: GPU, local, its own. */
  readonly isLocalGpu: boolean;
}

/** A hash, its counts and its place. */
export class Block {
  readonly hash: BlockHash;
  /** From 1, in order of appearance in its mirror; never given twice. */
  serial: number;
  /** Its place in the mirror's history: the larger, the younger; 0 = it is held, or forgotten. */
  historyStamp = 0;
  /** True = the mirror knows it no more; blocks that stand on it may still name it. */
  isForgotten = false;
  /** Copies per slot index; missing = 0. */
  readonly copies: number[] = [];
  /** Slots with at least one copy. */
  heldSlots = 0;
  /** Size in tokens as last said with a store of this hash; 0 = never said. */
  blockSizeTokens = 0;
  /** End in tokens from the root; 0 = no place known. */
  endTokens = 0;
  /** The prefix key of `endTokens` plus the look-ahead; means nothing without a place. */
  keyLow = 0;
  keyHigh = 0;
  /** Key of the block before it; means nothing unless `hasParentKey`. */
  parentLow = 0;
  parentHigh = 0;
  hasParentKey = false;
  /** The block before it in its chain; undefined = the root, not known, or forgotten. */
  parent: Block | undefined = undefined;
  /** Adapter of its prompt; means nothing without a place. */
  loraName: string | undefined = undefined;
  /** Nothing but tokens went into its chain, as far as events tell; means nothing without a place. */
  isPlain = false;
  /** Per slot index: block size of the group for which this was stored as a partial entry; missing = never. */
  partialOf: number[] | undefined = undefined;
  /** The engine's whole digest, where it publishes only a part of it and it was computed; undefined = not known. */
  digest: Digest | undefined = undefined;
  /** Without a place: the key of its last H tokens is known, so that it can be told to who knows the prompt. */
  hasTail = false;
  /** Key of its last H tokens; means nothing unless `hasTail`, or for `maybeTailTokens`. */
  tailLow = 0;
  tailHigh = 0;
  /** H was not proven when it was stored: the key is that of so many last tokens; 0 = there is none. */
  maybeTailTokens = 0;
  /** Stores of it that wait for its place, for the counters. */
  waitingStores = 0;
  /** Hash state at `endTokens`, from which children continue; undefined without a place. */
  private words: Uint32Array | undefined = undefined;

  constructor(hash: BlockHash, serial: number) {
    this.hash = hash;
    this.serial = serial;
  }

  /** Its place is not known, and it can be told all the same: see kvgroup.v1.UnplacedBlocks. */
  get isTellable(): boolean {
    return this.hasTail && this.endTokens === 0;
  }

  /** True when its place is known. */
  get isPlaced(): boolean {
    return this.endTokens > 0;
  }

  /** Copies in a slot. */
  copiesIn(slot: Slot): number {
    return this.copies[slot.index] ?? 0;
  }

  /** Sets the copies in a slot and returns how many there were. */
  setCopies(slot: Slot, count: number): number {
    const before = this.copies[slot.index] ?? 0;
    for (let i = this.copies.length; i < slot.index; i++) this.copies[i] = 0;
    this.copies[slot.index] = count;
    if (before === 0 && count > 0) this.heldSlots += 1;
    else if (before > 0 && count === 0) this.heldSlots -= 1;
    return before;
  }

  /** Gives it a place: the state's end and saved words; the key is passed apart (it covers look-ahead). */
  place(state: PrefixState, keyLow: number, keyHigh: number, loraName: string | undefined): void {
    this.loraName = loraName;
    this.words ??= new Uint32Array(STATE_WORDS);
    state.save(this.words, 0);
    this.endTokens = state.endTokens;
    this.keyLow = keyLow;
    this.keyHigh = keyHigh;
  }

  /** The hash state at `endTokens`; undefined without a place. Not to be changed. */
  get stateWords(): Uint32Array | undefined {
    return this.words;
  }

  /** Gives it a place that was written down before. */
  restorePlace(endTokens: number, words: Uint32Array): void {
    this.endTokens = endTokens;
    this.words = words;
  }

  /** Continues the state from this block's end; false without a place. */
  loadInto(state: PrefixState): boolean {
    if (this.words === undefined || this.endTokens === 0) return false;
    state.load(this.words, 0, this.endTokens);
    return true;
  }

  /** Takes its place away; a later dense store may give it one again. */
  displace(): void {
    this.endTokens = 0;
    this.words = undefined;
    this.hasParentKey = false;
    this.parent = undefined;
    this.digest = undefined;
  }
}

/** A key as text of four characters, fit to be a Map key. */
export function keyText(low: number, high: number): string {
  return String.fromCharCode(low & 0xffff, low >>> 16, high & 0xffff, high >>> 16);
}

/** The key of a placed block as such a text. */
export function keyTextOf(block: Block): string {
  return keyText(block.keyLow, block.keyHigh);
}
