/**
 * What it is: transitions → KvGroupEvents, in both projections.
 * Owns: the events of the batch being built.
 * Refuses: nothing; it receives only placed blocks for PREFIX_KEYS and only validated events for ENGINE.
 * Does not do: decide what changed (the mirror does), or serialise (the pipeline does).
 */
import { create } from "@bufbuild/protobuf";
import {
  type KvGroupEvent,
  KvGroupEventSchema,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import {
  type BlockHash,
  blockHashBytes,
  type GroupId,
  LIMITS,
  writeKey,
} from "@kv-group-bridge/protocol";
import type { Block, Slot } from "./block.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What a STORE says of its group. */
export interface GroupFacts {
  readonly kind: string | undefined;
  readonly windowTokens: number | undefined;
  readonly blockSizeTokens: number | undefined;
}

/** The name on the wire of a medium that the engine left empty; "" means GPU there. */
const EMPTY_MEDIUM = "(EMPTY)";

/** The wire's name of a medium: "" for GPU. */
export function wireMedium(medium: string): string {
  if (medium === "GPU") return "";
  return medium === "" ? EMPTY_MEDIUM : medium;
}

const KEY_BYTES = 8;
const NO_BYTES = new Uint8Array(0);
/** Blocks of one event: what every consumer of the contract must take. */
const MAX_RUN_BLOCKS = LIMITS.hashesPerEvent.value;

/** Grows by doubling; holds the keys of the run being built. */
class KeyBuffer {
  private bytes = new Uint8Array(64 * KEY_BYTES);
  private used = 0;

  push(low: number, high: number): void {
    if (this.used + KEY_BYTES > this.bytes.length) {
      const grown = new Uint8Array(this.bytes.length * 2);
      grown.set(this.bytes);
      this.bytes = grown;
    }
    writeKey(this.bytes, this.used, low, high);
    this.used += KEY_BYTES;
  }

  take(): Uint8Array {
    const taken = this.bytes.slice(0, this.used);
    this.used = 0;
    return taken;
  }
}

/**
 * Collects the PREFIX_KEYS events of one batch or snapshot piece, joining neighbours of one chain into runs.
 * `factsOf` tells what is known of a group.
 */
export class KeyEvents {
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private events: KvGroupEvent[] = [];
  private readonly keys = new KeyBuffer();
  private open: KvGroupEvent | undefined = undefined;
  private openSlot: Slot | undefined = undefined;
  private last: Block | undefined = undefined;
  private lastEndTokens = 0;
  private runBlocks = 0;
  /** Blocks stored or removed since `take`. */
  blocks = 0;

  constructor(factsOf: (groupId: GroupId) => GroupFacts) {
    this.factsOf = factsOf;
  }

  /** A placed block is held in a slot. */
  stored(slot: Slot, block: Block): void {
    const facts = this.factsOf(slot.groupId);
    const size = sizeOf(block, facts);
    if (!this.continues(slot, block, size)) {
      const event = this.begin(slot, Operation.STORE);
      event.blockSize = size;
      event.kind = facts.kind ?? "";
      event.slidingWindow = facts.windowTokens ?? 0;
      event.endTokens = block.endTokens;
      if (block.hasParentKey) {
        event.parentPrefixKey = new Uint8Array(KEY_BYTES);
        writeKey(event.parentPrefixKey, 0, block.parentLow, block.parentHigh);
      }
    }
    this.push(block);
  }

  /** A block is held in a slot no more; one without a place was never told. */
  removed(slot: Slot, block: Block): void {
    if (!block.isPlaced) return;
    const isRun = this.open?.operation === Operation.REMOVE && this.openSlot === slot;
    if (!isRun || this.runBlocks >= MAX_RUN_BLOCKS) {
      this.begin(slot, Operation.REMOVE);
    }
    this.push(block);
  }

  /** A scope is empty. */
  cleared(groupId: GroupId | undefined, medium: string | undefined): void {
    this.end();
    this.events.push(clearEvent(groupId, medium));
  }

  /** The events so far, in order; begins anew. */
  take(): KvGroupEvent[] {
    this.end();
    const events = this.events;
    this.events = [];
    this.blocks = 0;
    return events;
  }

  private continues(slot: Slot, block: Block, size: number): boolean {
    const { open, last } = this;
    return (
      this.runBlocks < MAX_RUN_BLOCKS &&
      open?.operation === Operation.STORE &&
      this.openSlot === slot &&
      open.blockSize === size &&
      last !== undefined &&
      block.endTokens === this.lastEndTokens + size &&
      block.hasParentKey &&
      block.parentLow === last.keyLow &&
      block.parentHigh === last.keyHigh
    );
  }

  private begin(slot: Slot, operation: Operation): KvGroupEvent {
    this.end();
    this.open = emptyEvent(operation, slot);
    this.openSlot = slot;
    this.runBlocks = 0;
    return this.open;
  }

  private push(block: Block): void {
    this.keys.push(block.keyLow, block.keyHigh);
    this.last = block;
    this.lastEndTokens = block.endTokens;
    this.runBlocks += 1;
    this.blocks += 1;
  }

  private end(): void {
    if (this.open === undefined) return;
    this.open.prefixKeys = this.keys.take();
    this.events.push(this.open);
    this.open = undefined;
    this.openSlot = undefined;
    this.last = undefined;
  }
}

/** As `create` makes it, at a tenth of the price: there is one for every engine event. */
function emptyEvent(operation: Operation, slot: Slot): KvGroupEvent {
  return {
    $typeName: "kvgroup.v1.KvGroupEvent",
    operation,
    groupId: slot.groupId,
    blockHashes: [],
    parentBlockHash: NO_BYTES,
    tokenIds: [],
    blockSize: 0,
    kind: "",
    slidingWindow: 0,
    tokensMatchable: false,
    prefixKeys: NO_BYTES,
    endTokens: 0,
    parentPrefixKey: NO_BYTES,
    medium: wireMedium(slot.medium),
    locality: slot.locality,
    ownership: slot.ownership,
    clearsAllGroups: false,
  };
}

/** A group's block ends lie on its grid; what does not is a partial entry of the size it was stored with. */
function sizeOf(block: Block, facts: GroupFacts): number {
  const size = facts.blockSizeTokens ?? 0;
  if (size > 0 && block.endTokens % size === 0) return size;
  const said = block.blockSizeTokens > 0 ? block.blockSizeTokens : Math.max(size, 1);
  return Math.min(said, block.endTokens);
}

/** A CLEAR of a scope; undefined = every group, every medium. */
export function clearEvent(groupId: GroupId | undefined, medium: string | undefined): KvGroupEvent {
  return create(KvGroupEventSchema, {
    operation: Operation.CLEAR,
    groupId: groupId ?? 0,
    clearsAllGroups: groupId === undefined,
    medium: medium === undefined ? "" : medium === "GPU" ? "GPU" : wireMedium(medium),
  });
}

/** What the ENGINE projection says of a span. */
export type SpanWords = Pick<
  StoreEvent,
  "parent" | "tokens" | "blockSizeTokens" | "loraName" | "loraId"
>;

/**
 * The ENGINE projection of a store in the GPU: the engine's own words, normalised. `hashes`: those that were taken.
 * `isMatchable`: nothing but tokens is in the whole chain.
 */
export function engineStore(
  event: SpanWords,
  stored: {
    readonly groupId: GroupId;
    readonly hashes: readonly BlockHash[];
    readonly facts: GroupFacts;
    readonly isMatchable: boolean;
  },
): KvGroupEvent {
  const { groupId, hashes, facts, isMatchable } = stored;
  return create(KvGroupEventSchema, {
    operation: Operation.STORE,
    groupId,
    blockHashes: hashes.map(blockHashBytes),
    parentBlockHash: event.parent === undefined ? new Uint8Array(0) : blockHashBytes(event.parent),
    tokenIds: [...event.tokens],
    blockSize: event.blockSizeTokens,
    kind: facts.kind ?? "",
    slidingWindow: facts.windowTokens ?? 0,
    tokensMatchable: isMatchable,
    ...(event.loraName === undefined ? {} : { loraName: event.loraName }),
    ...(event.loraId === undefined ? {} : { loraId: event.loraId }),
  });
}

/** The ENGINE projection of hashes that the GPU holds no more. */
export function engineRemove(groupId: GroupId, blocks: readonly Block[]): KvGroupEvent {
  return create(KvGroupEventSchema, {
    operation: Operation.REMOVE,
    groupId,
    blockHashes: blocks.map((block) => blockHashBytes(block.hash)),
  });
}
