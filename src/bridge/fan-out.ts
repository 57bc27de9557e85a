/**
 * What it is: one rank's outputs for all of its subscribers, each behind a queue that is bounded in
 * bytes.
 * Owns: the subscribers, and the ring from which those that come back go on. Invariants: what a subscriber takes is in the order of truth (a snapshot
 * piece is read from the mirror at the moment it is taken, after everything queued before); queued
 * bytes never exceed the bound; a batch is serialised and framed once, however many subscribe.
 * Refuses: subscribers beyond the limit.
 * Does not do: I/O, waiting, time. A subscriber that does not take costs a bounded queue, then
 * nothing.
 */
import { toBinary } from "@bufbuild/protobuf";
import {
  type Heartbeat,
  HeartbeatSchema,
  Projection,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { isSameCursor, LIMITS, type ResumePoint } from "@kv-group-bridge/protocol";
import { invariant, unreachable } from "@kv-group-bridge/runtime";
import { FieldItem } from "./field-item.ts";
import type { RankOutput, RankView } from "./rank-output.ts";
import { ResumeRing, type RingItem } from "./resume-ring.ts";
import { Subscriber, type SubscriberCounts } from "./subscriber.ts";

/** What a fan-out needs. Limits default to `LIMITS`; only tests and configuration lower them. */
export interface FanOutOptions {
  readonly view: RankView;
  /** Names the running process, minted when it started; a fixed64, never 0. */
  readonly instance: bigint;
  /**
   * The cursor at which this process began from a checkpoint, and the instance of the process that
   * wrote it; undefined = it began without one. Up to here, and no further, both processes have the
   * same history. A rank publishes the batch that made a withdrawal necessary right after it, so one
   * cursor is one state: a rank that withdraws at rest must not be begun again from that cursor.
   */
  readonly resumeFloor?: ResumePoint | undefined;
  /** Told to subscribers in `start`. */
  readonly heartbeatIntervalMs?: number;
  /** Bound of each subscriber's queue. */
  readonly queueBytes?: number;
  readonly maxSubscribers?: number;
  readonly snapshotChunkBlocks?: number;
  /** Bounds of the ring; 0 = nobody resumes but who has everything. */
  readonly resumeRingBytes?: number;
  readonly resumeRingBatches?: number;
}

/** Counters of a fan-out; names are a closed list. */
export interface FanOutCounters extends SubscriberCounts {
  /** Subscriptions refused at the limit. */
  readonly refusedSubscribers: number;
  /** Bytes in the ring now. */
  readonly ringBytes: number;
  /** Batches in the ring now. */
  readonly ringBatches: number;
}

/** Fans one rank out. Nothing here blocks, and no subscriber can slow another one. */
export class FanOut {
  readonly instance: bigint;
  private readonly resumeFloor: ResumePoint | undefined;
  private readonly ring: ResumeRing;
  /** The last one since the last batch: what a ring's batches say of the present may be older. */
  private lastHeartbeat: FieldItem | undefined;
  private readonly view: RankView;
  private readonly heartbeatIntervalMs: number;
  private readonly queueBytes: number;
  private readonly maxSubscribers: number;
  private readonly snapshotChunkBlocks: number;
  private readonly subscribers = new Set<Subscriber>();
  private retired: SubscriberCounts = {
    starts: 0,
    resumed: 0,
    overflows: 0,
    snapshotChunks: 0,
  };
  private refusedSubscribers = 0;

  constructor(options: FanOutOptions) {
    this.view = options.view;
    this.instance = options.instance;
    this.resumeFloor = options.resumeFloor;
    this.ring = new ResumeRing({
      maxBytes: options.resumeRingBytes ?? LIMITS.resumeRingBytes.value,
      maxBatches: options.resumeRingBatches ?? LIMITS.resumeRingBatches.value,
      begin: options.resumeFloor?.cursor.sequence,
    });
    this.heartbeatIntervalMs = options.heartbeatIntervalMs ?? LIMITS.heartbeatIntervalMs.value;
    this.queueBytes = options.queueBytes ?? LIMITS.subscriberQueueBytes.value;
    this.maxSubscribers = options.maxSubscribers ?? LIMITS.subscribersPerRank.value;
    this.snapshotChunkBlocks = options.snapshotChunkBlocks ?? LIMITS.snapshotChunkBlocks.value;
    invariant(this.instance > 0n, "a process has an instance");
    invariant(this.queueBytes > 0, "a subscriber's queue has room");
    invariant(this.snapshotChunkBlocks > 0, "a snapshot piece has room");
  }

  /**
   * A new subscriber, whose first item is a `start`; undefined at the limit. `onWake` is called
   * when something may be taken again: it must only schedule, never call `next` itself. `resume` is
   * followed when all that came since is there and fits into the queue; else a snapshot follows.
   */
  subscribe(options: {
    readonly projection: Projection;
    readonly onWake: () => void;
    readonly resume?: ResumePoint | undefined;
  }): Subscriber | undefined {
    invariant(options.projection !== Projection.UNSPECIFIED, "the service resolves the default");
    if (this.subscribers.size >= this.maxSubscribers) {
      this.refusedSubscribers++;
      return undefined;
    }
    const subscriber = new Subscriber({
      view: this.view,
      projection: options.projection,
      heartbeatIntervalMs: this.heartbeatIntervalMs,
      queueBytes: this.queueBytes,
      snapshotChunkBlocks: this.snapshotChunkBlocks,
      instance: this.instance,
      resumeCursor: options.resume?.cursor,
      missed: () => this.missedSince(options.resume, options.projection),
      onWake: options.onWake,
      onClose: () => this.remove(subscriber),
    });
    this.subscribers.add(subscriber);
    return subscriber;
  }

  /** Hands one output to every subscriber, in the order of calls, and keeps it for later ones. */
  publish(output: RankOutput): void {
    switch (output.type) {
      case "batch":
        this.publishBatch(output);
        return;
      case "withdraw": {
        const item = new FieldItem(4, output.bytes);
        this.ring.pushWithdrawal({ key: item, engine: item });
        this.offerAll(item);
        return;
      }
      case "engine":
        this.offerAll(new FieldItem(6, output.bytes));
        return;
      case "epoch": {
        const item = new FieldItem(4, output.bytes);
        this.ring.beginEpoch();
        this.lastHeartbeat = undefined;
        for (const subscriber of this.subscribers) subscriber.restart(item);
        return;
      }
      default:
        unreachable(output, "every output is handled");
    }
  }

  /**
   * Says that the rank lives; replaces a heartbeat that was not taken yet. Driven by a timer
   * outside.
   */
  heartbeat(heartbeat: Heartbeat): void {
    const item = new FieldItem(5, toBinary(HeartbeatSchema, heartbeat));
    this.lastHeartbeat = item;
    for (const subscriber of this.subscribers) subscriber.offerHeartbeat(item);
  }

  /** Subscribers now. */
  get subscriberCount(): number {
    return this.subscribers.size;
  }

  /** Totals since the start, with those of subscribers long gone. */
  counters(): FanOutCounters {
    let total = this.retired;
    for (const subscriber of this.subscribers) total = sum(total, subscriber.counts);
    return {
      ...total,
      refusedSubscribers: this.refusedSubscribers,
      ringBytes: this.ring.bytes,
      ringBatches: this.ring.batches,
    };
  }

  /** Recomputes every subscriber's queue account, and the ring's. */
  audit(): void {
    this.ring.audit();
    for (const subscriber of this.subscribers) subscriber.audit();
    invariant(this.subscribers.size <= this.maxSubscribers, "the limit holds");
  }

  private publishBatch(output: Extract<RankOutput, { readonly type: "batch" }>): void {
    const { sequence, keyBytes, engineBytes } = output;
    const item: RingItem = {
      key: new FieldItem(3, keyBytes),
      engine: engineBytes === undefined ? undefined : new FieldItem(3, engineBytes),
    };
    this.ring.pushBatch(sequence, item);
    this.lastHeartbeat = undefined;
    for (const subscriber of this.subscribers) {
      subscriber.offer(inProjection(item, subscriber.projection));
    }
  }

  /** What a subscriber that was at `resume` has missed; undefined = it cannot go on from there. */
  private missedSince(
    resume: ResumePoint | undefined,
    projection: Projection,
  ): readonly FieldItem[] | undefined {
    if (resume === undefined || resume.instance === 0n) return undefined;
    const { cursor, instance } = resume;
    if (instance !== this.instance && !this.isFloor(resume)) return undefined;
    const missed = this.ring.since(cursor.sequence);
    if (missed === undefined) return undefined;
    const items = missed.map((item) => inProjection(item, projection));
    if (items.length > 0 && this.lastHeartbeat !== undefined) items.push(this.lastHeartbeat);
    return items;
  }

  /**
   * Beyond its checkpoint another process said other things under the same numbers, and so did a
   * third one under the number of this checkpoint.
   */
  private isFloor({ cursor, instance }: ResumePoint): boolean {
    const { resumeFloor } = this;
    if (resumeFloor === undefined || instance !== resumeFloor.instance) return false;
    return isSameCursor(cursor, resumeFloor.cursor);
  }

  private offerAll(item: FieldItem): void {
    for (const subscriber of this.subscribers) subscriber.offer(item);
  }

  private remove(subscriber: Subscriber): void {
    invariant(this.subscribers.delete(subscriber), "a subscriber is closed once");
    this.retired = sum(this.retired, subscriber.counts);
  }
}

function inProjection({ key, engine }: RingItem, projection: Projection): FieldItem {
  if (projection !== Projection.ENGINE) return key;
  invariant(engine !== undefined, "an ENGINE subscriber has bytes to take");
  return engine;
}

function sum(a: SubscriberCounts, b: SubscriberCounts): SubscriberCounts {
  return {
    starts: a.starts + b.starts,
    resumed: a.resumed + b.resumed,
    overflows: a.overflows + b.overflows,
    snapshotChunks: a.snapshotChunks + b.snapshotChunks,
  };
}
