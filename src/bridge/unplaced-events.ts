/**
 * What it is: blocks without a place → kvgroup.v1.UnplacedBlocks: what one batch, or one snapshot piece, says of them.
 * Owns: what is to be said at the end of the batch: a block that came and went in it is not stored.
 * Refuses: nothing; it receives blocks with a tail only.
 * Does not do: decide what can be told (the mirror does).
 */
import { create } from "@bufbuild/protobuf";
import {
  type UnplacedBlocks,
  UnplacedBlocksSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { type GroupId, type HashKeys, LIMITS, writeKey } from "@kv-group-bridge/protocol";
import type { Block, Slot } from "./block.ts";
import { type GroupFacts, wireMedium } from "./convert.ts";

const KEY_BYTES = 8;

/** Collects one batch or piece. */
export class UnplacedEvents {
  private readonly hashKeys: HashKeys;
  private readonly factsOf: (groupId: GroupId) => GroupFacts;
  private readonly storedIn = new Map<Slot, Set<Block>>();
  private readonly removedFrom = new Map<Slot, Set<Block>>();

  constructor(hashKeys: HashKeys, factsOf: (groupId: GroupId) => GroupFacts) {
    this.hashKeys = hashKeys;
    this.factsOf = factsOf;
  }

  /** A block is held in a slot without a place. */
  stored(slot: Slot, block: Block): void {
    addTo(this.storedIn, slot, block);
  }

  /** It is not any more. */
  removed(slot: Slot, block: Block): void {
    this.storedIn.get(slot)?.delete(block);
    addTo(this.removedFrom, slot, block);
  }

  /** A scope is empty: the batch's events say so. */
  cleared(groupId: GroupId | undefined, medium: string | undefined): void {
    for (const [slot, blocks] of this.storedIn) {
      const isIn =
        (groupId === undefined || slot.groupId === groupId) &&
        (medium === undefined || slot.medium === medium);
      if (isIn) blocks.clear();
    }
  }

  /** What is stored; begins anew. */
  takeStored(): UnplacedBlocks[] {
    const messages: UnplacedBlocks[] = [];
    for (const [slot, blocks] of this.storedIn) {
      for (const [size, ofSize] of bySize(blocks, this.factsOf(slot.groupId))) {
        for (const piece of pieces(ofSize)) messages.push(this.message(slot, piece, size));
      }
    }
    this.storedIn.clear();
    return messages;
  }

  /** What is removed; begins anew. */
  takeRemoved(): UnplacedBlocks[] {
    const messages: UnplacedBlocks[] = [];
    for (const [slot, blocks] of this.removedFrom) {
      for (const piece of pieces([...blocks])) messages.push(this.message(slot, piece, 0));
    }
    this.removedFrom.clear();
    return messages;
  }

  private message(slot: Slot, blocks: readonly Block[], blockSize: number): UnplacedBlocks {
    const hashKeys = new Uint8Array(blocks.length * KEY_BYTES);
    const tailKeys = new Uint8Array(blockSize === 0 ? 0 : blocks.length * KEY_BYTES);
    for (const [index, block] of blocks.entries()) {
      this.hashKeys.ofHash(block.hash);
      writeKey(hashKeys, index * KEY_BYTES, this.hashKeys.keyLow, this.hashKeys.keyHigh);
      if (blockSize > 0) writeKey(tailKeys, index * KEY_BYTES, block.tailLow, block.tailHigh);
    }
    return create(UnplacedBlocksSchema, {
      groupId: slot.groupId,
      medium: wireMedium(slot.medium),
      locality: slot.locality,
      ownership: slot.ownership,
      blockSize,
      hashKeys,
      tailKeys,
    });
  }
}

function addTo(map: Map<Slot, Set<Block>>, slot: Slot, block: Block): void {
  const blocks = map.get(slot);
  if (blocks === undefined) map.set(slot, new Set([block]));
  else blocks.add(block);
}

/** Blocks by the size in tokens that is said of them. */
function bySize(
  blocks: ReadonlySet<Block>,
  facts: GroupFacts,
): ReadonlyMap<number, readonly Block[]> {
  const found = new Map<number, Block[]>();
  for (const block of blocks) {
    const size = block.blockSizeTokens > 0 ? block.blockSizeTokens : (facts.blockSizeTokens ?? 1);
    const ofSize = found.get(size);
    if (ofSize === undefined) found.set(size, [block]);
    else ofSize.push(block);
  }
  return found;
}

/** No message names more blocks than every consumer must take. */
function* pieces(blocks: readonly Block[]): Iterable<readonly Block[]> {
  const most = LIMITS.hashesPerEvent.value;
  for (let from = 0; from < blocks.length; from += most) yield blocks.slice(from, from + most);
}
