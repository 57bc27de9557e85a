/**
 * What it is: the invariants of a mirror, recomputed from its blocks.
 * Owns: nothing.
 * Refuses: a mirror that breaks one (that is our own bug).
 * Does not do: run in production; it is linear in what is held.
 */
import type { BlockHash } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { type Block, keyTextOf } from "./block.ts";
import type { BlockHistory } from "./block-history.ts";

/** The parts of a mirror, and what it has counted. */
export interface AuditedMirror {
  readonly blocks: ReadonlyMap<BlockHash, Block>;
  readonly byKey: ReadonlyMap<string, Block>;
  readonly history: BlockHistory;
  readonly placedEntries: number;
  readonly unplacedEntries: number;
  readonly toldEntries: number;
}

/** Throws `InvariantViolation` when a count, an order or a relation is not what the blocks say. */
export function auditBlocks(mirror: AuditedMirror): void {
  let placed = 0;
  let unplaced = 0;
  let told = 0;
  let unheld = 0;
  let keys = 0;
  let serial = 0;
  for (const [hash, block] of mirror.blocks) {
    let held = 0;
    for (const count of block.copies) {
      invariant(count >= 0, "a count is never below 0");
      if (count > 0) held += 1;
    }
    invariant(block.hash === hash && !block.isForgotten, "a block is filed under its hash");
    invariant(block.serial > serial, "blocks stand in the order of their numbers");
    serial = block.serial;
    invariant(held === block.heldSlots, "held slots are counted");
    invariant((held === 0) === block.historyStamp > 0, "the history holds what is not held");
    if (held === 0) unheld += 1;
    if (!block.isPlaced) {
      unplaced += held;
      if (block.hasTail) told += held;
      continue;
    }
    placed += held;
    keys += 1;
    invariant(!block.hasTail, "a placed block is told by its place");
    invariant(held === 0 || block.waitingStores === 0, "a placed block waits for nothing");
    invariant(mirror.byKey.get(keyTextOf(block)) === block, "one key has one hash");
    const { parent } = block;
    if (parent === undefined || parent.isForgotten) continue;
    invariant(mirror.blocks.get(parent.hash) === parent, "a parent is known or forgotten");
    invariant(parent.isPlaced && parent.endTokens < block.endTokens, "a parent ends before");
  }
  invariant(keys === mirror.byKey.size, "every key has its block");
  invariant(placed === mirror.placedEntries, "placed entries are counted");
  invariant(unplaced === mirror.unplacedEntries, "unplaced entries are counted");
  invariant(told === mirror.toldEntries, "told entries are counted");
  invariant(mirror.history.size === unheld, "the history holds nothing else");
  mirror.history.audit();
}
