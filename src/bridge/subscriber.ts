/**
 * What it is: one subscriber of one rank, as a synchronous state machine: needs a start → takes the
 * snapshot piece by piece, live items in between → live. Who goes on from a cursor is live at once,
 * with what it missed queued, and so is who asks for a projection that has no snapshot. An overflow or a new epoch leads back to the first state.
 * Owns: its queue and the account of its bytes; items are shared with other subscribers and never
 * changed.
 * Refuses: nothing; at the bound the queue is emptied and a new start and snapshot follow.
 * Does not do: wait, or serialise.
 */
import { create } from "@bufbuild/protobuf";
import {
  CursorSchema,
  type Projection,
  type SnapshotChunk,
  SnapshotChunkSchema,
  type Start,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { Cursor } from "@kv-group-bridge/protocol";
import { BoundedQueue, invariant } from "@kv-group-bridge/runtime";
import type { FieldItem } from "./field-item.ts";
import type { RankView, SnapshotReader } from "./rank-output.ts";

/** What a subscriber takes: a typed message, or bytes that are the same for all subscribers. */
export type QueueItem =
  | { readonly type: "start"; readonly start: Start }
  | { readonly type: "snapshot_chunk"; readonly chunk: SnapshotChunk }
  | FieldItem;

/** What the fan-out gives to a subscriber. */
export interface SubscriberOptions {
  readonly view: RankView;
  readonly projection: Projection;
  readonly heartbeatIntervalMs: number;
  readonly queueBytes: number;
  readonly snapshotChunkBlocks: number;
  readonly instance: bigint;
  /** Where it would like to go on; undefined = it has nothing. */
  readonly resumeCursor: Cursor | undefined;
  /** What came since then, in order; undefined = it cannot go on in the present epoch's history. */
  readonly missed: () => readonly FieldItem[] | undefined;
  readonly onWake: () => void;
  readonly onClose: () => void;
}

/** What one subscriber took and lost. */
export interface SubscriberCounts {
  /** `start` messages taken. */
  readonly starts: number;
  /** Those of them that went on from the subscriber's cursor. */
  readonly resumed: number;
  /** Times the queue was emptied because it was full; each leads to a new `start`. */
  readonly overflows: number;
  /** Snapshot pieces taken, the empty last one included. */
  readonly snapshotChunks: number;
}

/** Charged for each queued item beside its bytes: the slot and its share of the item. */
export const ITEM_OVERHEAD_BYTES = 64;

type State = "needs_start" | "snapshot" | "live" | "closed";

/** Made by `FanOut.subscribe` alone. */
export class Subscriber {
  readonly projection: Projection;
  private readonly options: SubscriberOptions;
  private readonly queue: BoundedQueue<FieldItem>;
  private state: State = "needs_start";
  /** What was told before is void; taken before the next start. */
  private withdraw: FieldItem | undefined;
  private heartbeat: FieldItem | undefined;
  private snapshot: SnapshotReader | undefined;
  private chunkIndex = 0;
  private startCount = 0;
  private resumedCount = 0;
  private overflowCount = 0;
  private chunkCount = 0;

  constructor(options: SubscriberOptions) {
    this.options = options;
    this.projection = options.projection;
    this.queue = new BoundedQueue({
      maxBytes: options.queueBytes,
      maxItems: Math.ceil(options.queueBytes / ITEM_OVERHEAD_BYTES),
    });
  }

  /**
   * Takes the next item; undefined = nothing now, `onWake` follows. Never to be called while the
   * rank is inside `receive`: the mirror must be at rest. After `close`: always undefined.
   */
  next(): QueueItem | undefined {
    if (this.state === "closed") return undefined;
    if (this.state === "needs_start") {
      const { withdraw } = this;
      this.withdraw = undefined;
      return withdraw ?? { type: "start", start: this.begin() };
    }
    const queued = this.queue.take();
    if (queued !== undefined) return queued;
    const { heartbeat } = this;
    this.heartbeat = undefined;
    if (heartbeat !== undefined) return heartbeat;
    if (this.state === "snapshot") return { type: "snapshot_chunk", chunk: this.readChunk() };
    return undefined;
  }

  /** Queues a live item. A subscriber without a start skips it: its snapshot will contain it. */
  offer(item: FieldItem): void {
    if (this.state !== "snapshot" && this.state !== "live") return;
    if (!this.enqueue(item)) {
      this.overflowCount++;
      this.reset();
    }
    this.options.onWake();
  }

  /** Keeps the newest heartbeat until everything queued is taken. */
  offerHeartbeat(item: FieldItem): void {
    if (this.state !== "snapshot" && this.state !== "live") return;
    this.heartbeat = item;
    this.options.onWake();
  }

  /**
   * A new epoch: what is queued is void; `withdraw`, then a new start and snapshot are taken
   * instead. Who has taken no start yet has nothing to withdraw.
   */
  restart(withdraw: FieldItem): void {
    if (this.state === "closed") return;
    this.reset();
    if (this.startCount > 0) this.withdraw = withdraw;
    this.options.onWake();
  }

  /** Leaves the fan-out and frees the queue. A second call does nothing. */
  close(): void {
    if (this.state === "closed") return;
    this.reset();
    this.state = "closed";
    this.options.onClose();
    this.options.onWake();
  }

  /** True after `close`. */
  get isClosed(): boolean {
    return this.state === "closed";
  }

  /** Bytes queued, with the overhead of each item. Never more than the bound. */
  get queuedBytes(): number {
    return this.queue.sizeBytes;
  }

  /** Totals of this subscriber since it came. */
  get counts(): SubscriberCounts {
    return {
      starts: this.startCount,
      resumed: this.resumedCount,
      overflows: this.overflowCount,
      snapshotChunks: this.chunkCount,
    };
  }

  /** Checks the queue and the state. */
  audit(): void {
    this.queue.audit();
    const isFollowing = this.state === "snapshot" || this.state === "live";
    const holdsLive = this.queue.itemCount > 0 || this.heartbeat !== undefined;
    invariant(isFollowing || !holdsLive, "without a start nothing live is held");
    invariant(
      this.withdraw === undefined || this.state === "needs_start",
      "a withdrawal is followed by a start",
    );
    invariant(
      (this.snapshot !== undefined) === (this.state === "snapshot"),
      "a reader is open during the snapshot, and only then",
    );
  }

  private reset(): void {
    this.queue.clear();
    this.withdraw = undefined;
    this.heartbeat = undefined;
    this.snapshot = undefined;
    this.state = "needs_start";
  }

  private begin(): Start {
    const { view, heartbeatIntervalMs, instance } = this.options;
    const start = view.start(this.projection);
    start.heartbeatIntervalMs = heartbeatIntervalMs;
    start.instance = instance;
    start.isResumed = this.resume(start);
    this.startCount++;
    this.snapshot = start.isResumed ? undefined : view.openSnapshot(this.projection);
    this.chunkIndex = 0;
    this.state = this.snapshot === undefined ? "live" : "snapshot";
    start.hasSnapshot = this.snapshot !== undefined;
    return start;
  }

  /**
   * Queues what was missed and turns the start back to the cursor asked for; false = impossible.
   * Only the first start can: what is asked for is what the subscriber had before.
   */
  private resume(start: Start): boolean {
    const { resumeCursor } = this.options;
    if (resumeCursor === undefined || this.startCount > 0) return false;
    if (start.cursor?.epoch !== resumeCursor.epoch) return false;
    const missed = this.options.missed();
    if (missed === undefined || !missed.every((item) => this.enqueue(item))) {
      this.queue.clear();
      return false;
    }
    start.cursor = create(CursorSchema, {
      epoch: resumeCursor.epoch,
      ...(resumeCursor.sequence === undefined ? {} : { sequenceNumber: resumeCursor.sequence }),
    });
    this.resumedCount++;
    return true;
  }

  private enqueue(item: FieldItem): boolean {
    return this.queue.offer(item, item.delimited.length + ITEM_OVERHEAD_BYTES) === "queued";
  }

  /**
   * The last piece is always an empty one: only a read that finds nothing knows that it is the
   * last.
   */
  private readChunk(): SnapshotChunk {
    invariant(this.snapshot !== undefined, "a reader is open during the snapshot");
    const piece = this.snapshot.next(this.options.snapshotChunkBlocks);
    const index = this.chunkIndex++;
    this.chunkCount++;
    if (piece !== undefined) {
      const events = [...piece.events];
      const unplaced = [...piece.unplaced];
      return create(SnapshotChunkSchema, { index, isLast: false, events, unplaced });
    }
    this.snapshot = undefined;
    this.state = "live";
    return create(SnapshotChunkSchema, { index, isLast: true });
  }
}
