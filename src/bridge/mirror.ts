/**
 * What it is: what one rank's engine holds, counted by copies as vLLM announces them, and where it belongs.
 * Owns: blocks by hash, blocks by key, residency slots, the bounded history of places of removed blocks.
 * Invariants: a count is never below 0; a block is in the history exactly when nothing of it is held; one key
 * has one hash.
 * Refuses: a hash at a second place; stores in more media than the limit.
 * Does not do: build messages. It tells a sink what changed, in order, and nothing else.
 */
import {
  type BlockHash,
  type GroupId,
  LIMITS,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { Block, type Slot } from "./block.ts";
import { standingOn } from "./descendants.ts";
import type { RemovalRule } from "./engine-config.ts";
import type { Placement } from "./placement.ts";
import { SlotTable } from "./slot-table.ts";
import type { RemoveEvent, StoreEvent } from "./vllm-event.ts";

/** What the mirror tells. "Stored" and "removed" are transitions: a count left 0 or came back to it. */
export interface MirrorSink {
  /** A placed block is held in `slot` now. */
  stored(slot: Slot, block: Block): void;
  /** A block, placed or not, is held in `slot` no more. */
  removed(slot: Slot, block: Block): void;
  /** Everything in the scope is gone. Undefined = every group, every medium. */
  cleared(groupId: GroupId | undefined, medium: string | undefined): void;
  /** Something was refused or is worth counting. */
  refused(reason: RefusalReason): void;
}

/** What is known of the group of a store. */
export interface StoreFacts {
  /** L. */
  readonly lookaheadTokens: number;
  /** The group's block size in the GPU; undefined = not known, or the store is not in the GPU. */
  readonly wholeBlockTokens: number | undefined;
}

/** Bounds and rules of one mirror. */
export interface MirrorOptions {
  readonly maxBlocks: number;
  readonly maxHistory: number;
  readonly maxMedia: number;
  readonly removalRule: RemovalRule;
}

/** The bounds of `LIMITS`. */
export const MIRROR_DEFAULTS: MirrorOptions = {
  maxBlocks: LIMITS.mirrorBlocks.value,
  maxHistory: LIMITS.historyBlocks.value,
  maxMedia: LIMITS.mediaPerRank.value,
  removalRule: "per_copy",
};

/** One mirror a rank. */
export class Mirror {
  private readonly options: MirrorOptions;
  private readonly placement: Placement;
  private readonly sink: MirrorSink;
  private readonly slots: SlotTable;
  private readonly blocks = new Map<BlockHash, Block>();
  private readonly byKey = new Map<string, Block>();
  private readonly history = new Map<BlockHash, Block>();
  private oldestFirst: IterableIterator<Block> | undefined = undefined;
  /** Blocks held per slot index. */
  private readonly heldInSlot: number[] = [];
  private placedEntries = 0;
  private unplacedEntries = 0;
  /** Removals of what is not held: normal after a late join. */
  unknownRemovals = 0;
  /** Places forgotten because the history was full. */
  forgottenPlaces = 0;

  constructor(placement: Placement, sink: MirrorSink, options: MirrorOptions) {
    this.placement = placement;
    this.sink = sink;
    this.options = options;
    this.slots = new SlotTable(options.maxMedia);
  }

  /** Held (block, slot) pairs whose place is known. */
  get placed(): number {
    return this.placedEntries;
  }

  /** Held (block, slot) pairs whose place is not known: they are not in the stream. */
  get unplaced(): number {
    return this.unplacedEntries;
  }

  /** True when more hashes are held than the limit allows; the caller withdraws the rank. */
  get isOverLimit(): boolean {
    return this.blocks.size - this.history.size > this.options.maxBlocks;
  }

  /** Applies a store to a group; gives the hashes that were taken (the event's own list when all were). */
  store(event: StoreEvent, groupId: GroupId, facts: StoreFacts): readonly BlockHash[] {
    const slot = this.slots.intern(groupId, event);
    if (slot === undefined) {
      this.sink.refused("too_many_media");
      return [];
    }
    const left = new Set<BlockHash>();
    const soundCount = this.learnPlaces(event, facts.lookaheadTokens);
    const whole = facts.wholeBlockTokens ?? 0;
    const isPartial = event.blockSizeTokens > 0 && event.blockSizeTokens < whole;
    for (const [index, hash] of event.hashes.entries()) {
      const block = this.obtain(hash);
      // One hash at two places: which copy a removal means could not be told, so only the first place has copies.
      if (index >= soundCount && block.isPlaced) {
        left.add(hash);
        continue;
      }
      // Where a whole block ends there is no partial entry: this is a block of another cache.
      if (isPartial && block.isPlaced && block.endTokens % whole === 0) {
        this.sink.refused("block_size_contradicts");
        left.add(hash);
        continue;
      }
      if (isPartial && !block.isPlaced) {
        block.partialOf ??= [];
        block.partialOf[slot.index] = whole;
      }
      if (event.tokens.length > 0) block.blockSizeTokens = event.blockSizeTokens;
      const before = block.copiesIn(slot);
      this.setCopies(block, slot, before + 1);
      if (before === 0 && block.isPlaced) this.sink.stored(slot, block);
    }
    return left.size === 0 ? event.hashes : event.hashes.filter((hash) => !left.has(hash));
  }

  /** Whether equal tokens mean an equal block below `parent`: undefined = the root. */
  isPlainBelow(parent: BlockHash | undefined): boolean {
    return parent === undefined || this.blocks.get(parent)?.isPlain === true;
  }

  /** Applies a removal; `groupId` undefined = the event names none: every group in that medium loses the hash. */
  remove(event: RemoveEvent): void {
    const isAll = event.groupId === undefined || this.options.removalRule === "last_copy";
    const slots = this.slots.matching(event.groupId, event);
    for (let i = 0; i < event.hashes.length; i++) {
      const block = this.blocks.get(event.hashes[i] as BlockHash);
      let isKnown = false;
      for (const slot of slots) {
        const before = block?.copiesIn(slot) ?? 0;
        if (block === undefined || before === 0) continue;
        isKnown = true;
        const remaining = event.remainingCopies?.[i];
        this.lower(block, slot, remaining ?? (isAll ? 0 : before - 1));
      }
      if (!isKnown) this.unknownRemovals += 1;
    }
  }

  /** Takes single hashes out of every slot in the scope, whatever their counts. */
  withdrawHashes(
    hashes: readonly BlockHash[],
    groupId: GroupId | undefined,
    medium: string | undefined,
  ): void {
    for (const hash of hashes) {
      const block = this.blocks.get(hash);
      if (block === undefined) continue;
      for (const slot of this.slots.inScope(groupId, medium)) {
        if (block.copiesIn(slot) > 0) this.lower(block, slot, 0);
      }
    }
  }

  /** Empties a scope; undefined = every group, every medium. Places stay known. Says nothing when nothing is held. */
  clear(groupId: GroupId | undefined, medium: string | undefined): void {
    const scope = this.slots.inScope(groupId, medium);
    if (scope.every((slot) => (this.heldInSlot[slot.index] ?? 0) === 0)) return;
    this.release(scope);
    this.sink.cleared(groupId, medium);
  }

  /** Begins anew without telling anybody. `keepsPlaces`: the engine is the same one, only batches were lost. */
  reset(keepsPlaces: boolean): void {
    if (keepsPlaces) {
      this.release(this.slots.all());
      invariant(this.placedEntries + this.unplacedEntries === 0, "nothing is held after a reset");
      return;
    }
    this.blocks.clear();
    this.byKey.clear();
    this.history.clear();
    this.oldestFirst = undefined;
    this.slots.clear();
    this.heldInSlot.length = 0;
    this.placedEntries = 0;
    this.unplacedEntries = 0;
  }

  /** Every block in order of appearance; safe while the mirror changes (Map iteration). */
  all(): IterableIterator<Block> {
    return this.blocks.values();
  }

  /** Every slot. */
  allSlots(): readonly Slot[] {
    return this.slots.all();
  }

  /** Recomputes every invariant from the blocks. For tests and debugging: linear in what is held. */
  audit(): void {
    let placed = 0;
    let unplaced = 0;
    for (const [hash, block] of this.blocks) {
      let held = 0;
      for (const count of block.copies) {
        invariant(count >= 0, "a count is never below 0");
        if (count > 0) held += 1;
      }
      invariant(block.hash === hash, "a block is filed under its hash");
      invariant(held === block.heldSlots, "held slots are counted");
      invariant((held === 0) === this.history.has(hash), "the history holds what is not held");
      if (block.isPlaced) {
        placed += held;
        invariant(this.byKey.get(keyText(block)) === block, "one key has one hash");
      } else {
        unplaced += held;
      }
    }
    invariant(placed === this.placedEntries, "placed entries are counted");
    invariant(unplaced === this.unplacedEntries, "unplaced entries are counted");
    invariant(this.history.size <= this.options.maxHistory, "the history is bounded");
  }

  /** Sets every count in `slots` to 0 without telling the sink. Free when nothing is held. */
  private release(scope: readonly Slot[]): void {
    const slots = scope.filter((slot) => (this.heldInSlot[slot.index] ?? 0) > 0);
    if (slots.length === 0) return;
    for (const block of this.blocks.values()) {
      if (block.heldSlots === 0) continue;
      for (const slot of slots) if (block.copiesIn(slot) > 0) this.setCopies(block, slot, 0);
    }
  }

  /** Records places; gives how many hashes of the event, from its begin, contradict no place. */
  private learnPlaces(event: StoreEvent, lookaheadTokens: number): number {
    let soundCount = event.hashes.length;
    const parent = event.parent === undefined ? undefined : this.blocks.get(event.parent);
    if (parent !== undefined && this.history.delete(parent.hash)) {
      this.history.set(parent.hash, parent);
    }
    const isPlain = isPlainStore(event) && this.isPlainBelow(event.parent);
    let before: Block | undefined = parent;
    this.placement.walk(event, parent, lookaheadTokens, (index, state, keyLow, keyHigh) => {
      const hash = event.hashes[index];
      if (hash === undefined) return false;
      const block = this.obtain(hash);
      if (block.isPlaced) {
        const isSame =
          block.endTokens === state.endTokens &&
          block.keyLow === keyLow &&
          block.keyHigh === keyHigh;
        if (!isSame) {
          this.sink.refused("place_contradicts");
          soundCount = index;
        }
        before = block;
        return isSame;
      }
      this.dropFalsePartials(block, state.endTokens);
      const key = keyOf(keyLow, keyHigh);
      const holder = this.byKey.get(key);
      if (holder !== undefined) this.replace(holder);
      block.place(state, keyLow, keyHigh, event.loraName);
      block.isPlain = isPlain;
      if (before?.isPlaced === true) {
        block.parentLow = before.keyLow;
        block.parentHigh = before.keyHigh;
        block.hasParentKey = true;
        block.parent = before;
      }
      block.blockSizeTokens ||= event.blockSizeTokens;
      this.byKey.set(key, block);
      this.placedEntries += block.heldSlots;
      this.unplacedEntries -= block.heldSlots;
      if (block.heldSlots > 0) this.announce(block);
      before = block;
      return true;
    });
    return soundCount;
  }

  /** Stored as partial entries before their end was known, and now they end where a whole block does. */
  private dropFalsePartials(block: Block, endTokens: number): void {
    const { partialOf } = block;
    if (partialOf === undefined) return;
    block.partialOf = undefined;
    for (const slot of this.slots.all()) {
      const whole = partialOf[slot.index] ?? 0;
      if (whole === 0 || endTokens % whole !== 0 || block.copiesIn(slot) === 0) continue;
      this.sink.refused("block_size_contradicts");
      this.setCopies(block, slot, 0);
    }
  }

  /** Says everything that is held of a block which has just got its place. */
  private announce(block: Block): void {
    for (const slot of this.slots.all())
      if (block.copiesIn(slot) > 0) this.sink.stored(slot, block);
  }

  /** Another hash has the same key: what vLLM hashes but does not publish has changed. What stands on it goes. */
  private replace(older: Block): void {
    this.sink.refused("hash_replaced");
    for (const block of standingOn(older, this.blocks.values())) this.displace(block);
  }

  /** Takes a block's place away and says so. */
  private displace(block: Block): void {
    for (const slot of this.slots.all()) {
      if (block.copiesIn(slot) > 0) this.sink.removed(slot, block);
    }
    this.placedEntries -= block.heldSlots;
    this.unplacedEntries += block.heldSlots;
    this.byKey.delete(keyText(block));
    block.displace();
  }

  private obtain(hash: BlockHash): Block {
    let block = this.blocks.get(hash);
    if (block === undefined) {
      block = new Block(hash);
      this.blocks.set(hash, block);
      this.remember(block);
    }
    return block;
  }

  private lower(block: Block, slot: Slot, count: number): void {
    this.setCopies(block, slot, count);
    if (count === 0) this.sink.removed(slot, block);
  }

  private setCopies(block: Block, slot: Slot, count: number): void {
    invariant(count >= 0, "a count is never below 0");
    const before = block.setCopies(slot, count);
    const change = (count > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
    if (block.isPlaced) this.placedEntries += change;
    else this.unplacedEntries += change;
    this.heldInSlot[slot.index] = (this.heldInSlot[slot.index] ?? 0) + change;
    if (change > 0) this.history.delete(block.hash);
    else if (block.heldSlots === 0 && change < 0) this.remember(block);
  }

  /** Puts a block that nothing holds at the young end of the history; the oldest one goes at the bound. */
  private remember(block: Block): void {
    this.history.set(block.hash, block);
    if (this.history.size <= this.options.maxHistory) return;
    // One iterator for good: what it has passed is deleted, and a new one would step over all of that again.
    this.oldestFirst ??= this.history.values();
    const oldest = this.oldestFirst.next();
    if (oldest.done === true) {
      this.oldestFirst = undefined;
      return;
    }
    this.history.delete(oldest.value.hash);
    this.blocks.delete(oldest.value.hash);
    // What its children still name must not hold a whole chain of forgotten blocks.
    oldest.value.parent = undefined;
    if (oldest.value.isPlaced) {
      this.byKey.delete(keyText(oldest.value));
      this.forgottenPlaces += 1;
    }
  }
}

/** Nothing but tokens is in the event's hashes. */
export function isPlainStore(event: StoreEvent): boolean {
  return (
    event.loraId === undefined &&
    event.loraName === undefined &&
    (event.lookaheadTokens === undefined || event.lookaheadTokens.length === 0) &&
    (event.extraKeys?.every((keys) => keys === undefined) ?? true)
  );
}

function keyText(block: Block): string {
  return keyOf(block.keyLow, block.keyHigh);
}

function keyOf(low: number, high: number): string {
  return String.fromCharCode(low & 0xffff, low >>> 16, high & 0xffff, high >>> 16);
}
