/**
 * What it is: the mirror's sink for one batch: transitions in, events of both projections out. Where the engine's words
 * are kept, they are kept as the ENGINE events say them.
 * Owns: the events of the batch being built.
 * Refuses: nothing.
 * Does not do: count (it passes refusals on), or know of sequence numbers.
 */
import type { KvGroupEvent, UnplacedBlocks } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { BlockHash, GroupId, HashKeys, RefusalReason } from "@kv-group-bridge/protocol";
import type { Block, Slot } from "./block.ts";
import { clearEvent, engineRemove, engineStore, type GroupFacts, KeyEvents } from "./convert.ts";
import type { EngineWords } from "./engine-words.ts";
import type { MirrorSink } from "./mirror.ts";
import { UnplacedEvents } from "./unplaced-events.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** Builds one batch at a time. */
export class BatchWriter implements MirrorSink {
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly onRefused: (reason: RefusalReason) => void;
  private readonly keyEvents: KeyEvents;
  private readonly unplaced: UnplacedEvents;
  private readonly isEngineWritten: boolean;
  private readonly words: EngineWords | undefined;
  private engineEvents: KvGroupEvent[] = [];
  private removedSlot: Slot | undefined = undefined;
  private removedBlocks: Block[] = [];

  constructor(
    factsOf: (groupId: GroupId) => GroupFacts,
    isEngineWritten: boolean,
    onRefused: (reason: RefusalReason) => void,
    hashKeys: HashKeys,
    words?: EngineWords,
  ) {
    this.factsOf = factsOf;
    this.isEngineWritten = isEngineWritten;
    this.onRefused = onRefused;
    this.words = words;
    this.keyEvents = new KeyEvents(factsOf);
    this.unplaced = new UnplacedEvents(hashKeys, factsOf);
  }

  stored(slot: Slot, block: Block): void {
    this.keyEvents.stored(slot, block);
  }

  unplacedStored(slot: Slot, block: Block): void {
    this.unplaced.stored(slot, block);
  }

  unplacedRemoved(slot: Slot, block: Block): void {
    this.unplaced.removed(slot, block);
  }

  removed(slot: Slot, block: Block): void {
    this.keyEvents.removed(slot, block);
    if (!this.isEngineWritten || !slot.isLocalGpu) return;
    if (this.removedSlot !== slot) this.endRemovals();
    this.removedSlot = slot;
    this.removedBlocks.push(block);
    this.words?.removed(slot.groupId, block.hash);
  }

  cleared(groupId: GroupId | undefined, medium: string | undefined): void {
    this.keyEvents.cleared(groupId, medium);
    this.unplaced.cleared(groupId, medium);
    if (!this.isEngineWritten || (medium !== undefined && medium !== "GPU")) return;
    this.endRemovals();
    this.engineEvents.push(clearEvent(groupId, undefined));
    this.words?.cleared(groupId);
  }

  refused(reason: RefusalReason): void {
    this.onRefused(reason);
  }

  /** The engine's own words for a store that the mirror took, in the GPU. */
  engineStored(
    event: StoreEvent,
    stored: {
      readonly groupId: GroupId;
      readonly hashes: readonly BlockHash[];
      readonly isMatchable: boolean;
    },
  ): void {
    if (!this.isEngineWritten) return;
    this.endRemovals();
    const facts = this.factsOf(stored.groupId);
    this.engineEvents.push(engineStore(event, { ...stored, facts }));
    this.words?.stored(event, stored);
  }

  /** The PREFIX_KEYS events so far; begins anew. */
  takeKeyEvents(): KvGroupEvent[] {
    return this.keyEvents.take();
  }

  /** What the batch says of blocks without a place; begins anew. */
  takeUnplaced(): { readonly stored: UnplacedBlocks[]; readonly removed: UnplacedBlocks[] } {
    return { stored: this.unplaced.takeStored(), removed: this.unplaced.takeRemoved() };
  }

  /** The ENGINE events so far; undefined when that projection is not allowed. */
  takeEngineEvents(): KvGroupEvent[] | undefined {
    if (!this.isEngineWritten) return undefined;
    this.endRemovals();
    const events = this.engineEvents;
    this.engineEvents = [];
    return events;
  }

  /** Throws away what was collected. */
  discard(): void {
    this.keyEvents.take();
    this.takeUnplaced();
    this.takeEngineEvents();
  }

  private endRemovals(): void {
    if (this.removedSlot === undefined) return;
    this.engineEvents.push(engineRemove(this.removedSlot.groupId, this.removedBlocks));
    this.removedSlot = undefined;
    this.removedBlocks = [];
  }
}
