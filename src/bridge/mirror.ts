/**
 * What it is: what one rank's engine holds, counted by copies as vLLM announces them, and where it belongs.
 * Owns: blocks by hash, residency slots, the bounded history of places of removed blocks; what a cut is told of
 * changes. Places are kept by place-book.ts and learnt by dense-places.ts and span-recomputing.ts.
 * Invariants: a count is never below 0; a block is in the history exactly when nothing of it is held; one key
 * has one hash.
 * Refuses: a hash at a second place; stores in more media than the limit.
 * Does not do: build messages. It tells a sink what changed, in order, and nothing else.
 */
import type { BlockHash, GroupId, KeyedHasher } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { auditBlocks } from "./audit-mirror.ts";
import { Block, type Slot } from "./block.ts";
import type { BlockChanges } from "./block-changes.ts";
import { BlockHistory } from "./block-history.ts";
import { readDensePlaces } from "./dense-places.ts";
import { HeldEntries } from "./held-entries.ts";
import type {
  MirrorMemory,
  MirrorOptions,
  MirrorSink,
  PlacedCounts,
  StoreFacts,
} from "./mirror-options.ts";
import { PlaceBook } from "./place-book.ts";
import { PlaceTally } from "./place-tally.ts";
import type { LearntPlaces, RecomputeRules, RecomputingCost } from "./place-types.ts";
import { Placement } from "./placement.ts";
import { SlotTable } from "./slot-table.ts";
import { SpanRecomputing } from "./span-recomputing.ts";
import { isPlainStore } from "./store-extras.ts";
import type { RemoveEvent, StoreEvent } from "./vllm-event.ts";

export {
  MIRROR_DEFAULTS,
  type MirrorMemory,
  type MirrorOptions,
  type MirrorSink,
  type StoreFacts,
} from "./mirror-options.ts";

const NO_COST: RecomputingCost = { hashes: 0, savedHashes: 0, droppedSpans: 0, backlogTokens: 0 };

/** One mirror a rank. */
export class Mirror {
  private readonly options: MirrorOptions;
  private readonly sink: MirrorSink;
  private readonly slots: SlotTable;
  private blocks = new Map<BlockHash, Block>();
  private readonly history: BlockHistory;
  /** Of the cut that is being taken; undefined = none is. */
  private changes: BlockChanges | undefined = undefined;
  private lastSerial = 0;
  private readonly held = new HeldEntries();
  private readonly tally = new PlaceTally();
  private readonly places: PlaceBook;
  private readonly placement: Placement;
  /** H as it was proven at the end of the last batch. */
  private toldUnitTokens: number | undefined = undefined;
  /** Undefined = nothing is recomputed. */
  private readonly spans: SpanRecomputing | undefined;
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
    this.places = new PlaceBook({
      hasher,
      sink,
      held: this.held,
      tally: this.tally,
      slots: () => this.slots.all(),
      find: (hash) => this.blocks.get(hash),
      obtain: (hash) => this.obtain(hash),
      all: () => this.blocks.values(),
      touch: (block) => this.touch(block),
      takeAway: (block, slot) => this.lower(block, slot, 0),
    });
    this.placement = new Placement(hasher);
    this.spans =
      recompute === undefined
        ? undefined
        : new SpanRecomputing({ ...recompute, hasher, host: this.places });
    this.sink = sink;
    this.options = options;
    this.slots = new SlotTable(options.maxMedia);
    this.history = new BlockHistory(options.maxHistory);
  }

  /** Held (block, slot) pairs whose place is known. */
  get placed(): number {
    return this.held.placed;
  }

  /** Held (block, slot) pairs whose place is not known: no STORE tells them. */
  get unplaced(): number {
    return this.held.unplaced;
  }

  /** Of the unplaced pairs, those that are told as unplaced. */
  get told(): number {
    return this.held.told;
  }

  /** How the entries of all stores got their places. */
  get placedCounts(): PlacedCounts {
    return this.tally.counts;
  }

  /** What recomputing has cost. */
  get recomputing(): RecomputingCost {
    return this.spans?.cost ?? NO_COST;
  }

  /** Blocks that the engine's own lookup reads; one hash in two groups is two blocks. */
  get inLocalGpu(): number {
    const slots = this.slots.all().filter((slot) => slot.isLocalGpu);
    return slots.reduce((sum, slot) => sum + this.held.in(slot), 0);
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
      this.places.noteTail(event, index, block, this.spans?.unitTokens);
      this.places.tellLater(block, slot);
    }
    return left.size === 0 ? event.hashes : event.hashes.filter((hash) => !left.has(hash));
  }

  /** The end of a batch: what is still without a place is told so, as far as it can be. */
  endBatch(): void {
    this.spans?.endBatch();
    const unitTokens = this.spans?.unitTokens;
    if (unitTokens !== undefined && unitTokens !== this.toldUnitTokens) {
      this.places.unitProven(unitTokens);
    }
    this.toldUnitTokens = unitTokens;
    this.places.tellUnplaced();
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
    if (scope.every((slot) => this.held.in(slot) === 0)) return;
    this.release(scope);
    this.sink.cleared(groupId, medium);
  }

  /** Begins anew without telling anybody. `keepsPlaces`: the engine is the same one, only batches were lost. */
  reset(keepsPlaces: boolean): void {
    this.changes?.reset();
    this.spans?.reset(keepsPlaces);
    this.places.forgetUntold();
    if (keepsPlaces) {
      this.release(this.slots.all());
      invariant(this.placed + this.unplaced === 0, "nothing is held after a reset");
      return;
    }
    this.blocks.clear();
    this.places.clear();
    this.history.clear();
    this.slots.clear();
    this.held.clear();
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
    this.places.restore(memory.byKey);
    this.lastSerial = memory.blocks.size;
    for (const block of memory.blocks.values()) this.held.add(block);
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
      byKey: this.places.byKey,
      history: this.history,
      placedEntries: this.placed,
      unplacedEntries: this.unplaced,
      toldEntries: this.told,
    });
  }

  /** Sets every count in `slots` to 0 without telling the sink. Free when nothing is held. */
  private release(scope: readonly Slot[]): void {
    const slots = scope.filter((slot) => this.held.in(slot) > 0);
    if (slots.length === 0) return;
    for (const block of this.blocks.values()) {
      if (block.heldSlots === 0) continue;
      for (const slot of slots) if (block.copiesIn(slot) > 0) this.setCopies(block, slot, 0);
    }
  }

  /** A known block. */
  find(hash: BlockHash): Block | undefined {
    return this.blocks.get(hash);
  }

  private learnPlaces(event: StoreEvent, lookaheadTokens: number): LearntPlaces {
    const parent = event.parent === undefined ? undefined : this.blocks.get(event.parent);
    if (parent !== undefined && this.history.refresh(parent)) this.touch(parent);
    const isPlain = isPlainStore(event) && this.isPlainBelow(event.parent);
    const context = { parent, lookaheadTokens, isPlain };
    const learnt = readDensePlaces(event, this.placement, this.places, context);
    this.spans?.store(event, lookaheadTokens);
    return learnt;
  }

  private touch(block: Block): void {
    this.changes?.touched.add(block);
  }

  /** The block of a hash; a new one is remembered. */
  private obtain(hash: BlockHash): Block {
    let block = this.blocks.get(hash);
    if (block === undefined) {
      this.lastSerial += 1;
      block = new Block(hash, this.lastSerial);
      this.touch(block);
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
    this.held.changed(block, slot, change);
    if (change < 0 && block.heldSlots === 0) this.tally.gone(block);
    this.touch(block);
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
    if (!oldest.isPlaced) return;
    this.places.forget(oldest);
    this.forgottenPlaces += 1;
  }
}
