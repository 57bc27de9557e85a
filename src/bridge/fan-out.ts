/**
 * What it is: one rank's outputs for all of its subscribers, each behind a queue that is bounded in
 * bytes.
 * Owns: the subscribers. Invariants: what a subscriber takes is in the order of truth (a snapshot
 * piece is read from the mirror at the moment it is taken, after everything queued before); queued
 * bytes never exceed the bound; a batch is serialised and framed once, however many subscribe.
 * Refuses: subscribers beyond the limit.
 * Does not do: I/O, waiting, time. A subscriber that does not take costs a bounded queue, then
 * nothing.
 */
import { toBinary } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import {
  type Heartbeat,
  HeartbeatSchema,
  Projection,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { LIMITS } from "@kv-group-bridge/protocol";
import { invariant, unreachable } from "@kv-group-bridge/runtime";
import type { RankOutput, RankView } from "./rank-output.ts";
import { type FieldItem, Subscriber, type SubscriberCounts } from "./subscriber.ts";

/** What a fan-out needs. Limits default to `LIMITS`; only tests and configuration lower them. */
export interface FanOutOptions {
  readonly view: RankView;
  /** Told to subscribers in `start`. */
  readonly heartbeatIntervalMs?: number;
  /** Bound of each subscriber's queue. */
  readonly queueBytes?: number;
  readonly maxSubscribers?: number;
  readonly snapshotChunkBlocks?: number;
}

/** Counters of a fan-out; names are a closed list. */
export interface FanOutCounters extends SubscriberCounts {
  /** Subscriptions refused at the limit. */
  readonly refusedSubscribers: number;
}

/** Fans one rank out. Nothing here blocks, and no subscriber can slow another one. */
export class FanOut {
  private readonly view: RankView;
  private readonly heartbeatIntervalMs: number;
  private readonly queueBytes: number;
  private readonly maxSubscribers: number;
  private readonly snapshotChunkBlocks: number;
  private readonly subscribers = new Set<Subscriber>();
  private retired: SubscriberCounts = { starts: 0, overflows: 0, snapshotChunks: 0 };
  private refusedSubscribers = 0;

  constructor(options: FanOutOptions) {
    this.view = options.view;
    this.heartbeatIntervalMs = options.heartbeatIntervalMs ?? LIMITS.heartbeatIntervalMs.value;
    this.queueBytes = options.queueBytes ?? LIMITS.subscriberQueueBytes.value;
    this.maxSubscribers = options.maxSubscribers ?? LIMITS.subscribersPerRank.value;
    this.snapshotChunkBlocks = options.snapshotChunkBlocks ?? LIMITS.snapshotChunkBlocks.value;
    invariant(this.queueBytes > 0, "a subscriber's queue has room");
    invariant(this.snapshotChunkBlocks > 0, "a snapshot piece has room");
  }

  /**
   * A new subscriber, whose first item is a `start`; undefined at the limit. `onWake` is called
   * when something may be taken again: it must only schedule, never call `next` itself.
   */
  subscribe(options: {
    readonly projection: Projection;
    readonly onWake: () => void;
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
      onWake: options.onWake,
      onClose: () => this.remove(subscriber),
    });
    this.subscribers.add(subscriber);
    return subscriber;
  }

  /** Hands one output to every subscriber, in the order of calls. */
  publish(output: RankOutput): void {
    if (this.subscribers.size === 0) return;
    switch (output.type) {
      case "batch":
        this.publishBatch(output.keyBytes, output.engineBytes);
        return;
      case "withdraw":
        this.offerAll(fieldItem(4, output.bytes));
        return;
      case "engine":
        this.offerAll(fieldItem(6, output.bytes));
        return;
      case "epoch": {
        const item = fieldItem(4, output.bytes);
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
    if (this.subscribers.size === 0) return;
    const item = fieldItem(5, toBinary(HeartbeatSchema, heartbeat));
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
    return { ...total, refusedSubscribers: this.refusedSubscribers };
  }

  /** Recomputes every subscriber's queue account. */
  audit(): void {
    for (const subscriber of this.subscribers) subscriber.audit();
    invariant(this.subscribers.size <= this.maxSubscribers, "the limit holds");
  }

  private publishBatch(keyBytes: Uint8Array, engineBytes: Uint8Array | undefined): void {
    let keyItem: FieldItem | undefined;
    let engineItem: FieldItem | undefined;
    for (const subscriber of this.subscribers) {
      if (subscriber.projection === Projection.ENGINE) {
        invariant(engineBytes !== undefined, "an ENGINE subscriber has bytes to take");
        engineItem ??= fieldItem(3, engineBytes);
        subscriber.offer(engineItem);
      } else {
        keyItem ??= fieldItem(3, keyBytes);
        subscriber.offer(keyItem);
      }
    }
  }

  private offerAll(item: FieldItem): void {
    for (const subscriber of this.subscribers) subscriber.offer(item);
  }

  private remove(subscriber: Subscriber): void {
    invariant(this.subscribers.delete(subscriber), "a subscriber is closed once");
    this.retired = sum(this.retired, subscriber.counts);
  }
}

/** Puts the length before the bytes once, so that no subscriber's stream has to. */
function fieldItem(no: FieldItem["no"], bytes: Uint8Array): FieldItem {
  const delimited = new BinaryWriter().bytes(bytes).finish();
  return {
    type: "field",
    no,
    delimited,
    bytes: delimited.subarray(delimited.length - bytes.length),
  };
}

function sum(a: SubscriberCounts, b: SubscriberCounts): SubscriberCounts {
  return {
    starts: a.starts + b.starts,
    overflows: a.overflows + b.overflows,
    snapshotChunks: a.snapshotChunks + b.snapshotChunks,
  };
}
