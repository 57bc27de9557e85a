/**
 * What it is: what one rank's engine holds, counted by copies as vLLM announces them, and where it belongs.
 * Owns: blocks by hash, blocks by key, residency slots, the bounded history of places of removed blocks; what a
 * cut is told of changes.
 * Invariants: a count is never below 0; a block is in the history exactly when nothing of it is held; one key
 * has one hash.
 * Refuses: a hash at a second place; stores in more media than the limit.
 * Does not do: build messages. It tells a sink what changed, in order, and nothing else.
 */
import {
  type BlockHash,
  type Digest,
  type GroupId,
  HashKeys,
  type KeyedHasher,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { auditBlocks } from "./audit-mirror.ts";
import { Block, keyText, keyTextOf, type Slot } from "./block.ts";
import type { BlockChanges } from "./block-changes.ts";
import { BlockHistory } from "./block-history.ts";
import { standingOn } from "./descendants.ts";
import type {
  MirrorMemory,
  MirrorOptions,
  MirrorSink,
  PlacedCounts,
  StoreFacts,
} from "./mirror-options.ts";
import {
  type LearntPlaces,
  type NewPlace,
  type PlaceHost,
  PlaceLearner,
  type RecomputeRules,
  type RecomputingCost,
} from "./place-learner.ts";
import { PlaceTally } from "./place-tally.ts";
import { Placement } from "./placement.ts";
import { isDenseStore } from "./span-inputs.ts";
import { SlotTable } from "./slot-table.ts";
import type { RemoveEvent, StoreEvent } from "./vllm-event.ts";

export {
  MIRROR_DEFAULTS,
  type MirrorMemory,
  type MirrorOptions,
  type MirrorSink,
  type StoreFacts,
} from "./mirror-options.ts";

/** One mirror a rank. */
export class Mirror implements PlaceHost {
  private readonly options: MirrorOptions;
  private readonly sink: MirrorSink;
  private readonly slots: SlotTable;
  private blocks = new Map<BlockHash, Block>();
  private byKey = new Map<string, Block>();
  private readonly history: BlockHistory;
  /** Of the cut that is being taken; undefined = none is. */
  private changes: BlockChanges | undefined = undefined;
  private lastSerial = 0;
  /** Blocks held per slot index. */
  private readonly heldInSlot: number[] = [];
  private placedEntries = 0;
  private unplacedEntries = 0;
  /** Of the unplaced ones, those that can be told. */
  private toldEntries = 0;
  private readonly learner: PlaceLearner;
  private readonly tally = new PlaceTally();
  private readonly hashKeys: HashKeys;
  /** Stored in this batch without a place. */
  private untold: { readonly slot: Slot; readonly block: Block }[] = [];
  /** Removals of what is not held: normal after a late join. */
  unknownRemovals = 0;
  /** Places forgotten because the history was full. */
  forgottenPlaces = 0;

  /** `recompute` absent: nothing is recomputed. */
  constructor(
    hasher: KeyedHasher,
    sink: MirrorSink,
    options: MirrorOptions,
    recompute?: RecomputeRules,
  ) {
    this.learner = new PlaceLearner({
      placement: new Placement(hasher),
      hasher,
      host: this,
      recomputer: recompute?.recomputer,
      needsRecomputing: (unitTokens) => recompute?.needsRecomputing(unitTokens) ?? false,
      keepsFineEnds: (event, unitTokens) => recompute?.keepsFineEnds(event, unitTokens) ?? false,
    });
    this.hashKeys = new HashKeys(hasher);
    this.sink = sink;
    this.options = options;
    this.slots = new SlotTable(options.maxMedia);
    this.history = new BlockHistory(options.maxHistory);
  }

  /** Held (block, slot) pairs whose place is known. */
  get placed(): number {
    return this.placedEntries;
  }

  /** Held (block, slot) pairs whose place is not known: they are not in the stream. */
  get unplaced(): number {
    return this.unplacedEntries;
  }

  /** Of the unplaced pairs, those that are told as unplaced. */
  get told(): number {
    return this.toldEntries;
  }

  /** How the entries of all stores got their places. */
  get placedCounts(): PlacedCounts {
    return this.tally.counts;
  }

  /** What recomputing has cost. */
  get recomputing(): RecomputingCost {
    return this.learner.cost;
  }

  /** Blocks that the engine's own lookup reads; one hash in two groups is two blocks. */
  get inLocalGpu(): number {
    const slots = this.slots.all().filter((slot) => slot.isLocalGpu);
    return slots.reduce((sum, slot) => sum + (this.heldInSlot[slot.index] ?? 0), 0);
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
    this.tally.begin();
    const { soundCount, denseCount } = this.learnPlaces(event, facts.lookaheadTokens);
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
      // Its counts change below, which notes the block for a cut.
      if (event.tokens.length > 0) block.blockSizeTokens = event.blockSizeTokens;
      const before = block.copiesIn(slot);
      this.setCopies(block, slot, before + 1);
      this.tally.stored(block, index < denseCount);
      if (block.isPlaced) {
        if (before === 0) this.sink.stored(slot, block);
        continue;
      }
      this.noteTail(event, index, block);
      this.untold.push({ slot, block });
    }
    return left.size === 0 ? event.hashes : event.hashes.filter((hash) => !left.has(hash));
  }

  /** The end of a batch: what is still without a place is told so, as far as it can be. `lookaheadTokens`: L. */
  endBatch(lookaheadTokens: number): void {
    this.learner.endBatch(lookaheadTokens);
    const { untold } = this;
    this.untold = [];
    for (const { slot, block } of untold) {
      if (block.isTellable && block.copiesIn(slot) > 0) this.sink.unplacedStored(slot, block);
    }
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
    this.changes?.reset();
    this.learner.reset(keepsPlaces);
    this.untold = [];
    if (keepsPlaces) {
      this.release(this.slots.all());
      invariant(this.placedEntries + this.unplacedEntries === 0, "nothing is held after a reset");
      return;
    }
    this.blocks.clear();
    this.byKey.clear();
    this.history.clear();
    this.slots.clear();
    this.heldInSlot.length = 0;
    this.placedEntries = 0;
    this.unplacedEntries = 0;
    this.toldEntries = 0;
  }

  /** Has every change noted there until `endCut`. One cut at a time. */
  beginCut(changes: BlockChanges): void {
    invariant(this.changes === undefined, "one cut at a time");
    this.changes = changes;
  }

  /** Notes nothing any more. */
  endCut(changes: BlockChanges): void {
    if (this.changes === changes) this.changes = undefined;
  }

  /** Takes over what was written down before, in place of everything, without telling anybody. */
  restore(memory: MirrorMemory): void {
    this.reset(false);
    for (const slot of memory.slots) {
      const own = this.slots.intern(slot.groupId, slot);
      invariant(own?.index === slot.index, "restored slots keep their numbers");
    }
    this.blocks = memory.blocks;
    this.byKey = memory.byKey;
    this.lastSerial = memory.blocks.size;
    for (const block of memory.blocks.values()) {
      if (block.isPlaced) this.placedEntries += block.heldSlots;
      else this.unplacedEntries += block.heldSlots;
      if (block.isTellable) this.toldEntries += block.heldSlots;
      for (let at = 0; at < block.copies.length; at++) {
        if ((block.copies[at] ?? 0) > 0) this.heldInSlot[at] = (this.heldInSlot[at] ?? 0) + 1;
      }
    }
    for (const block of memory.unheld) {
      invariant(this.history.remember(block) === undefined, "a restored history fits");
    }
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
    auditBlocks({
      blocks: this.blocks,
      byKey: this.byKey,
      history: this.history,
      placedEntries: this.placedEntries,
      unplacedEntries: this.unplacedEntries,
      toldEntries: this.toldEntries,
    });
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

  /** A block gets its place. */
  givePlace(block: Block, place: NewPlace): void {
    this.dropFalsePartials(block, place.state.endTokens);
    const key = keyText(place.keyLow, place.keyHigh);
    const holder = this.byKey.get(key);
    if (holder !== undefined) this.replace(holder);
    this.untell(block);
    this.changes?.touched.add(block);
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
    this.byKey.set(key, block);
    this.placedEntries += block.heldSlots;
    this.unplacedEntries -= block.heldSlots;
    this.tally.found(block, place.by);
    if (block.heldSlots > 0) this.announce(block);
  }

  /** A block's whole digest is known. */
  giveDigest(block: Block, digest: Digest): void {
    block.digest = digest;
    this.changes?.touched.add(block);
  }

  /** A known block. */
  find(hash: BlockHash): Block | undefined {
    return this.blocks.get(hash);
  }

  /** The block under a prefix key. */
  under(keyLow: number, keyHigh: number): Block | undefined {
    return this.byKey.get(keyText(keyLow, keyHigh));
  }

  /** Something was refused while places were learnt. */
  refused(reason: RefusalReason): void {
    this.sink.refused(reason);
  }

  /** Stored as partial entries before their end was known, and now they end where a whole block does. */
  private dropFalsePartials(block: Block, endTokens: number): void {
    const { partialOf } = block;
    if (partialOf === undefined) return;
    block.partialOf = undefined;
    this.changes?.touched.add(block);
    for (const slot of this.slots.all()) {
      const whole = partialOf[slot.index] ?? 0;
      if (whole === 0 || endTokens % whole !== 0 || block.copiesIn(slot) === 0) continue;
      this.sink.refused("block_size_contradicts");
      this.lower(block, slot, 0);
    }
  }

  /** Says everything that is held of a block which has just got its place. */
  private announce(block: Block): void {
    for (const slot of this.slots.all())
      if (block.copiesIn(slot) > 0) this.sink.stored(slot, block);
  }

  private learnPlaces(event: StoreEvent, lookaheadTokens: number): LearntPlaces {
    const parent = event.parent === undefined ? undefined : this.blocks.get(event.parent);
    if (parent !== undefined && this.history.refresh(parent)) this.changes?.touched.add(parent);
    const isPlain = isPlainStore(event) && this.isPlainBelow(event.parent);
    return this.learner.learn(event, parent, lookaheadTokens, isPlain);
  }

  /** The last tokens of a block of a dense store, as the key under which it can be told without a place. */
  private noteTail(event: StoreEvent, index: number, block: Block): void {
    if (block.hasTail) return;
    const unitTokens = this.learner.unitTokens ?? 0;
    const { tokens, blockSizeTokens } = event;
    if (unitTokens === 0 || blockSizeTokens % unitTokens !== 0 || !isDenseStore(event)) return;
    const end = (index + 1) * blockSizeTokens;
    this.hashKeys.ofTail(tokens, end - unitTokens, end);
    block.tailLow = this.hashKeys.keyLow;
    block.tailHigh = this.hashKeys.keyHigh;
    block.hasTail = true;
    this.toldEntries += block.heldSlots;
    this.changes?.touched.add(block);
  }

  /** What was told of a block without a place is void. */
  private untell(block: Block): void {
    if (!block.hasTail) return;
    for (const slot of this.slots.all()) {
      if (block.copiesIn(slot) > 0) this.sink.unplacedRemoved(slot, block);
    }
    this.toldEntries -= block.heldSlots;
    block.hasTail = false;
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
    this.byKey.delete(keyTextOf(block));
    block.displace();
    this.changes?.touched.add(block);
  }

  /** The block of a hash; a new one is remembered. */
  obtain(hash: BlockHash): Block {
    let block = this.blocks.get(hash);
    if (block === undefined) {
      this.lastSerial += 1;
      block = new Block(hash, this.lastSerial);
      this.changes?.touched.add(block);
      this.blocks.set(hash, block);
      this.remember(block);
    }
    return block;
  }

  private lower(block: Block, slot: Slot, count: number): void {
    this.setCopies(block, slot, count);
    if (count > 0) return;
    this.sink.removed(slot, block);
    if (block.isTellable) this.sink.unplacedRemoved(slot, block);
  }

  private setCopies(block: Block, slot: Slot, count: number): void {
    invariant(count >= 0, "a count is never below 0");
    const before = block.setCopies(slot, count);
    const change = (count > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
    if (block.isPlaced) this.placedEntries += change;
    else this.unplacedEntries += change;
    if (block.isTellable) this.toldEntries += change;
    if (change < 0 && block.heldSlots === 0) this.tally.gone(block);
    this.heldInSlot[slot.index] = (this.heldInSlot[slot.index] ?? 0) + change;
    this.changes?.touched.add(block);
    if (change > 0) this.history.delete(block);
    else if (block.heldSlots === 0 && change < 0) this.remember(block);
  }

  /** Puts a block that nothing holds at the young end of the history; the oldest one goes at the bound. */
  private remember(block: Block): void {
    const oldest = this.history.remember(block);
    if (oldest === undefined) return;
    this.blocks.delete(oldest.hash);
    oldest.isForgotten = true;
    // What its children still name must not hold a whole chain of forgotten blocks.
    oldest.parent = undefined;
    this.changes?.forget(oldest);
    if (oldest.isPlaced) {
      this.byKey.delete(keyTextOf(oldest));
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
