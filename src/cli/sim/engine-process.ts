/**
 * What it is: one life of a simulated engine: a small block pool with vLLM's least-recently-used eviction,
 * which tells what it does in vLLM's own wire form.
 * Owns: the pool, the batches published so far, its sequence numbers (from 0). Invariant: a batch is the
 * difference between the pool before and after it.
 * Refuses: nothing.
 * Does not do: send anything, or look a prompt up (true-answers.ts does).
 */

import { parseSequenceNumber, type SequenceNumber } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { Encoder } from "@msgpack/msgpack";
import { type FaultPlan, rateOf } from "./fault-plan.ts";
import { TREE_BLOCK_TOKENS, treeHash, treePath, treeTokens } from "./prompt-tree.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** What the groups are. `stride`: blocks of the tree in one block of the group. */
export interface SimGroup {
  readonly groupId: number;
  readonly kind: "full_attention" | "sliding_window" | "mamba";
  readonly stride: number;
  readonly windowTokens: number | undefined;
}

/** One published batch. */
export interface PublishedBatch {
  readonly process: number;
  readonly sequence: SequenceNumber;
  readonly payload: Uint8Array;
  readonly timestampSeconds: number;
}

/** A physical block; `block` is the tree's block that it holds, 0 = nothing. */
interface PoolBlock {
  group: SimGroup | undefined;
  block: number;
}

const CLEARED = { type: "AllBlocksCleared" };

/** The groups of a plan. */
export function groupsOf(plan: FaultPlan): readonly SimGroup[] {
  const groups: SimGroup[] = [
    { groupId: 0, kind: "full_attention", stride: 1, windowTokens: undefined },
  ];
  if (plan.hasSliding) {
    const windowTokens = plan.windowBlocks * TREE_BLOCK_TOKENS;
    groups.push({ groupId: groups.length, kind: "sliding_window", stride: 1, windowTokens });
  }
  if (plan.hasMamba) {
    groups.push({ groupId: groups.length, kind: "mamba", stride: 2, windowTokens: undefined });
  }
  return groups;
}

/** One engine process. */
export class EngineProcess {
  readonly id: number;
  isAlive = true;
  /** Everything published, by sequence number. */
  readonly published: PublishedBatch[] = [];
  /** Removals that nobody could read. */
  unreadable = 0;
  /** Batches that emptied the cache. */
  clears = 0;
  private readonly plan: FaultPlan;
  private readonly groups: readonly SimGroup[];
  private readonly dice: SeededRandomness;
  private readonly stamp: () => number;
  private readonly encoder = new Encoder({ useBigInt64: true });
  /** Least recently used first. */
  private readonly pool: PoolBlock[] = [];

  constructor(
    id: number,
    plan: FaultPlan,
    dice: SeededRandomness,
    /** A time stamp that no other batch of the world has. */
    stamp: () => number,
  ) {
    this.id = id;
    this.plan = plan;
    this.groups = groupsOf(plan);
    this.dice = dice;
    this.stamp = stamp;
    for (let i = 0; i < plan.poolBlocks; i++) this.pool.push({ group: undefined, block: 0 });
  }

  /** How many copies of a block a group holds. */
  copies(groupId: number, block: number): number {
    let count = 0;
    for (const slot of this.pool) {
      if (slot.block === block && slot.group?.groupId === groupId) count++;
    }
    return count;
  }

  /** Every held block as `groupId * 1000 + block`. */
  held(into: Set<number>): void {
    into.clear();
    for (const { group, block } of this.pool) {
      if (group !== undefined) into.add(group.groupId * 1000 + block);
    }
  }

  /** Requests for some leaves, then one batch; never without an event. */
  step(leaves: () => number): PublishedBatch {
    const events: unknown[] = [];
    for (let tries = 0; events.length === 0; tries++) {
      invariant(tries < 1000, "requests come to an end that stores something");
      if (this.dice.chance(this.plan.clearRate)) this.clear(events);
      for (let requests = this.dice.between(1, 2); requests > 0; requests--) {
        this.request(leaves(), events);
      }
    }
    return this.publish(events);
  }

  /** Empties the cache, as a reset of the prefix cache does. */
  reset(): PublishedBatch {
    const events: unknown[] = [];
    this.clear(events);
    return this.publish(events);
  }

  private clear(events: unknown[]): void {
    for (const slot of this.pool) {
      slot.group = undefined;
      slot.block = 0;
    }
    events.push(CLEARED);
    this.clears++;
  }

  private publish(events: readonly unknown[]): PublishedBatch {
    const timestampSeconds = this.stamp();
    const sequence = parseSequenceNumber(BigInt(this.published.length));
    invariant(sequence !== undefined, "a batch has a number");
    const batch: PublishedBatch = {
      process: this.id,
      sequence,
      payload: this.encoder.encode([timestampSeconds, events, 0]),
      timestampSeconds,
    };
    this.published.push(batch);
    return batch;
  }

  private request(leaf: number, events: unknown[]): void {
    const depth = this.dice.chance(0.5) ? 6 : this.dice.between(1, 6);
    const path = treePath(leaf).slice(0, depth);
    let hit = this.commonHit(path);
    // vLLM computes at least the last token again, so a whole hit stores a second copy of its last block.
    if (hit > 0 && (hit >= depth || this.dice.chance(0.15))) hit = this.aligned(hit - 1);
    const stores: (() => void)[] = [];
    for (const group of this.groups) this.touch(group, path, hit);
    for (const group of this.groups) {
      const kept = this.keptBlocks(group, path, hit);
      for (const block of kept) this.allocate(group, block, events);
      if (kept.length > 0)
        stores.push(() => events.push(storeEvent(group, leaf, hit, depth, kept)));
    }
    for (const store of stores) store();
  }

  /** The blocks that a group stores: all, or only those that a later lookup can use. */
  private keptBlocks(group: SimGroup, path: readonly number[], hit: number): readonly number[] {
    const own = path.filter((_, i) => i >= hit && (i + 1) % group.stride === 0);
    if (!this.plan.isSparse || group.kind === "full_attention") return own;
    return own.slice(group.kind === "mamba" ? -1 : -this.plan.windowBlocks);
  }

  private commonHit(path: readonly number[]): number {
    let hit = 0;
    while (hit < path.length && this.copies(0, path[hit] ?? 0) > 0) hit++;
    return this.aligned(hit);
  }

  private aligned(blocks: number): number {
    return this.plan.hasMamba ? blocks - (blocks % 2) : blocks;
  }

  private touch(group: SimGroup, path: readonly number[], hit: number): void {
    for (const block of path.slice(0, hit)) {
      const at = this.pool.findIndex((slot) => slot.group === group && slot.block === block);
      if (at < 0) continue;
      this.pool.push(...this.pool.splice(at, 1));
    }
  }

  private allocate(group: SimGroup, block: number, events: unknown[]): void {
    const slot = this.pool.shift();
    invariant(slot !== undefined, "a pool has blocks");
    if (slot.group !== undefined) events.push(this.removal(slot.group.groupId, slot.block));
    slot.group = group;
    slot.block = block;
    this.pool.push(slot);
  }

  private removal(groupId: number, block: number): unknown {
    const isUnreadable = this.dice.chance(rateOf(this.plan, "removal_unreadable"));
    if (isUnreadable) this.unreadable++;
    return {
      type: "BlockRemoved",
      // A hash of a type that no release sends: nobody can tell which block is gone.
      block_hashes: [isUnreadable ? true : treeHash(block)],
      medium: "GPU",
      group_idx: groupId,
    };
  }
}

function storeEvent(
  group: SimGroup,
  leaf: number,
  hit: number,
  depth: number,
  kept: readonly number[],
): unknown {
  const path = treePath(leaf);
  const parent = hit === 0 ? undefined : path[hit - 1];
  const end = depth - (depth % group.stride);
  return {
    type: "BlockStored",
    block_hashes: kept.map(treeHash),
    parent_block_hash: parent === undefined ? null : treeHash(parent),
    token_ids: treeTokens(leaf, hit, end),
    block_size: group.stride * TREE_BLOCK_TOKENS,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: kept.map(() => null),
    group_idx: group.groupId,
    kv_cache_spec_kind: group.kind,
    ...(group.windowTokens === undefined
      ? {}
      : { kv_cache_spec_sliding_window: group.windowTokens }),
  };
}
