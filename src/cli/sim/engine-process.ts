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
import { groupsOf, hasTails, type SimGroup, schedulerStride } from "./engine-layout.ts";
import { EngineLookup } from "./engine-lookup.ts";
import { type FaultPlan, rateOf } from "./fault-plan.ts";
import { treePath } from "./prompt-tree.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";
import { storeOf, tailOf } from "./store-events.ts";
import { wireHash } from "./tree-hashes.ts";

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
  private readonly lookup: EngineLookup;
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
    this.lookup = new EngineLookup(plan);
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
    // Where entries inside blocks are stored, only a long prompt's span would tell their places.
    const isDeep = this.dice.chance(hasTails(this.plan) ? 0.1 : 0.5);
    const depth = isDeep ? 6 : this.dice.between(1, hasTails(this.plan) ? 5 : 6);
    const path = treePath(leaf).slice(0, depth);
    const hit = this.hitOf(path);
    const stores: (() => void)[] = [];
    for (const group of this.groups) this.touch(group, path, hit);
    for (const group of this.groups) {
      const from = hit - (hit % group.stride);
      const kept = this.keptBlocks(group, path, from);
      for (const block of kept)
        this.allocate(group, block, events, this.partialAt(group, path, hit));
      if (kept.length === 0) continue;
      for (const span of this.spans(group, from, depth)) {
        stores.push(() => events.push(storeOf(this.plan, group, leaf, span, kept)));
      }
    }
    for (const store of stores) store();
    if (hasTails(this.plan)) this.storeTails(path, hit, events);
  }

  /** What is reused of a prompt. vLLM computes at least the last token again, so a whole hit stores a second copy of its end. */
  private hitOf(path: readonly number[]): number {
    const depth = path.length;
    const isLower = this.dice.chance(0.15);
    if (this.plan.fullStride === 1) {
      const hit = this.commonHit(path);
      return hit > 0 && (hit >= depth || isLower) ? this.aligned(hit - 1) : hit;
    }
    const holds = ({ groupId }: SimGroup, end: number): boolean =>
      this.copies(groupId, path[end - 1] ?? 0) > 0;
    return this.lookup.reusable(holds, isLower ? depth >> 1 : depth - 1);
  }

  /** The blocks that a group stores: all, or only those that a later lookup can use. */
  private keptBlocks(group: SimGroup, path: readonly number[], from: number): readonly number[] {
    const own = path.filter((_, i) => i >= from && (i + 1) % group.stride === 0);
    if (!this.plan.isSparse || group.kind === "full_attention") return own;
    return own.slice(group.kind === "mamba" ? -1 : -this.plan.windowBlocks);
  }

  /** The spans of a group's stores: one, or two, as for a prompt that is computed in two steps. */
  private spans(
    group: SimGroup,
    from: number,
    depth: number,
  ): readonly (readonly [number, number])[] {
    const to = depth - (depth % group.stride);
    if (this.plan.hashing === undefined || !this.dice.chance(0.3)) return [[from, to]];
    const middle = from + group.stride * this.dice.below((to - from) / group.stride);
    return middle === from
      ? [[from, to]]
      : [
          [from, middle],
          [middle, to],
        ];
  }

  /** Entries that end inside blocks: at the prompt's last hash end, or the one before. */
  private storeTails(path: readonly number[], hit: number, events: unknown[]): void {
    for (const group of this.groups) {
      const isFull = group.kind === "full_attention";
      if (!isFull && (!this.plan.isFine || group.kind !== "mamba")) continue;
      const end = this.dice.chance(0.2) ? path.length - 1 : path.length;
      if (end <= hit || end % group.stride === 0 || this.dice.chance(isFull ? 0.1 : 0.3)) continue;
      const block = path[end - 1];
      invariant(block !== undefined, "a prompt has its last block");
      this.allocate(group, block, events, this.partialAt(group, path, hit));
      events.push(tailOf(this.plan, group, block));
    }
  }

  /** The block of a hit that ends inside it: what grows out of it may take its page. */
  private partialAt(group: SimGroup, path: readonly number[], hit: number): PoolBlock | undefined {
    if (hit % group.stride === 0 || this.dice.chance(0.5)) return undefined;
    return this.pool.find((slot) => slot.group === group && slot.block === path[hit - 1]);
  }

  private commonHit(path: readonly number[]): number {
    let hit = 0;
    while (hit < path.length && this.copies(0, path[hit] ?? 0) > 0) hit++;
    return this.aligned(hit);
  }

  private aligned(blocks: number): number {
    return blocks - (blocks % schedulerStride(this.groups));
  }

  private touch(group: SimGroup, path: readonly number[], hit: number): void {
    for (const block of path.slice(0, hit)) {
      const at = this.pool.findIndex((slot) => slot.group === group && slot.block === block);
      if (at < 0) continue;
      this.pool.push(...this.pool.splice(at, 1));
    }
  }

  /** Stores a block in a page: the given one, or the least recently used. */
  private allocate(group: SimGroup, block: number, events: unknown[], page?: PoolBlock): void {
    const [slot] = this.pool.splice(page === undefined ? 0 : this.pool.indexOf(page), 1);
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
      block_hashes: [isUnreadable ? true : wireHash(this.plan.hashing, block)],
      medium: "GPU",
      group_idx: groupId,
    };
  }
}
