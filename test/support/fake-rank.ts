/**
 * What it is: a rank whose truth is a set of numbered blocks, and the consumer that a subscriber
 * feeds.
 * Owns: the truth; emits RankOutputs as the real core does.
 * Refuses: nothing.
 * Does not do: engine events, placing or counting.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  BatchSchema,
  Completeness,
  Projection,
  type Start,
  StartSchema,
  WithdrawSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { EngineDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import {
  type KvGroupEvent,
  KvGroupEventSchema,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { RankOutput, RankView, SnapshotReader } from "../../src/bridge/dist/rank-output.js";
import type { QueueItem } from "../../src/bridge/dist/subscriber.js";
import {
  type Cursor,
  parseCursor,
  parseSequenceNumber,
  type ResumePoint,
  succession,
} from "../../src/protocol/dist/index.js";

/** An event about one block, known by its number. */
export function blockEvent(operation: Operation, block: number): KvGroupEvent {
  return create(KvGroupEventSchema, { operation, endTokens: block, blockSize: 16 });
}

/** The truth. Every change is given to `emit` at once, after the truth has changed. */
export class FakeRank implements RankView {
  readonly held = new Set<number>();
  epoch = 1n;
  sequence = 0n;
  /** Snapshots opened. */
  snapshots = 0;
  readonly #emit: (output: RankOutput) => void;

  constructor(emit: (output: RankOutput) => void) {
    this.#emit = emit;
  }

  store(block: number, paddingBytes = 0): Uint8Array {
    this.held.add(block);
    return this.#batch([blockEvent(Operation.STORE, block)], paddingBytes);
  }

  remove(block: number): Uint8Array {
    this.held.delete(block);
    return this.#batch([blockEvent(Operation.REMOVE, block)], 0);
  }

  withdrawAll(): void {
    this.held.clear();
    this.#emit({ type: "withdraw", bytes: toBinary(WithdrawSchema, create(WithdrawSchema)) });
  }

  tellEngine(vllmVersion: string): void {
    const message = create(EngineDescriptionSchema, { vllmVersion });
    this.#emit({ type: "engine", bytes: toBinary(EngineDescriptionSchema, message) });
  }

  newEpoch(): void {
    this.held.clear();
    this.epoch++;
    this.sequence = 0n;
    this.#emit({ type: "epoch", bytes: toBinary(WithdrawSchema, create(WithdrawSchema)) });
  }

  start(projection: Projection): Start {
    const isPart = projection === Projection.ENGINE && this.held.size > 0;
    return create(StartSchema, {
      // The first batch has the number 1: before it, the epoch has none.
      cursor: {
        epoch: this.epoch,
        ...(this.sequence === 0n ? {} : { sequenceNumber: this.sequence }),
      },
      completeness: isPart ? Completeness.INCOMPLETE : Completeness.COMPLETE,
      projection,
      isEngineConnected: true,
    });
  }

  openSnapshot(projection: Projection): SnapshotReader | undefined {
    if (projection === Projection.ENGINE) return undefined;
    this.snapshots++;
    const pending = [...this.held];
    return {
      next: (maxBlocks) => {
        const events: KvGroupEvent[] = [];
        while (events.length < maxBlocks) {
          const block = pending.shift();
          if (block === undefined) break;
          if (this.held.has(block)) events.push(blockEvent(Operation.STORE, block));
        }
        return events.length === 0 ? undefined : { events, unplaced: [] };
      },
    };
  }

  #batch(events: KvGroupEvent[], paddingBytes: number): Uint8Array {
    this.sequence++;
    const kind = "x".repeat(paddingBytes);
    for (const event of events) event.kind = kind;
    const message = create(BatchSchema, {
      epoch: this.epoch,
      batch: { sequenceNumber: this.sequence, events },
      completeness: Completeness.COMPLETE,
    });
    const keyBytes = toBinary(BatchSchema, message);
    const sequence = parseSequenceNumber(this.sequence);
    if (sequence === undefined) throw new TypeError("a test has few batches");
    this.#emit({ type: "batch", sequence, keyBytes, engineBytes: Uint8Array.from(keyBytes) });
    return keyBytes;
  }
}

/** What a subscriber of the key projection believes after applying items in order. */
export class FakeConsumer {
  readonly held = new Set<number>();
  readonly kinds: string[] = [];
  hasStarted = false;
  nextChunk = 0;
  isWhole = false;
  #cursor: Cursor | undefined;
  #instance = 0n;
  /** Something was withdrawn after the last batch: another process may not know of it. */
  #isPassed = false;

  /** Where it could go on after a cut; undefined = it has nothing whole. */
  get resumePoint(): ResumePoint | undefined {
    if (!this.isWhole || this.#isPassed || this.#cursor === undefined) return undefined;
    return { cursor: this.#cursor, instance: this.#instance };
  }

  apply(item: QueueItem): void {
    if (item.type === "start" && item.start.isResumed) {
      const { epoch, sequenceNumber } = item.start.cursor ?? {};
      if (epoch !== this.#cursor?.epoch || sequenceNumber !== this.#cursor?.sequence) {
        throw new TypeError("a stream goes on where its consumer stands");
      }
      this.#instance = item.start.instance;
      this.kinds.push("resumed");
      return;
    }
    if (item.type === "start") {
      this.held.clear();
      this.#isPassed = false;
      this.#cursor = parseCursor(item.start.cursor);
      this.#instance = item.start.instance;
      this.hasStarted = true;
      this.nextChunk = 0;
      this.isWhole = item.start.projection === Projection.ENGINE;
      this.kinds.push("start");
      return;
    }
    if (!this.hasStarted) throw new TypeError("the first item is a start");
    if (item.type === "snapshot_chunk") {
      if (item.chunk.index !== this.nextChunk++) throw new TypeError("pieces come in order");
      this.isWhole = item.chunk.isLast;
      this.#applyEvents(item.chunk.events);
      this.kinds.push(item.chunk.isLast ? "last_chunk" : "chunk");
      return;
    }
    if (item.no === 3) {
      const { epoch, batch } = fromBinary(BatchSchema, item.bytes);
      const next = parseCursor({ epoch, sequenceNumber: batch?.sequenceNumber });
      if (next?.sequence === undefined || next.epoch !== this.#cursor?.epoch) {
        throw new TypeError("a batch is of the epoch of its start");
      }
      const step = succession(this.#cursor.sequence, next.sequence);
      if (step !== "first" && step !== "successor") throw new TypeError("batches leave no hole");
      this.#cursor = next;
      this.#isPassed = false;
      this.#applyEvents(batch?.events ?? []);
    } else if (item.no === 4) {
      this.held.clear();
      this.#isPassed = true;
    }
    this.kinds.push({ 3: "batch", 4: "withdraw", 5: "heartbeat", 6: "engine" }[item.no]);
  }

  #applyEvents(events: readonly KvGroupEvent[]): void {
    for (const event of events) {
      if (event.operation === Operation.STORE) this.held.add(event.endTokens);
      else this.held.delete(event.endTokens);
    }
  }
}
