/**
 * What it is: a dull consumer of the ENGINE projection: per group a set of hashes, each with parent and tokens where a
 * dense store told them.
 * Owns: what it believes, and where it could go on after a cut.
 * Refuses: a stream out of order.
 * Does not do: score, or know of places.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { BatchSchema, type Start, WithdrawSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type KvGroupEvent,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { RankOutput } from "../../src/bridge/dist/rank-output.js";
import type { QueueItem } from "../../src/bridge/dist/subscriber.js";
import {
  type Cursor,
  parseCursor,
  type ResumePoint,
  succession,
} from "../../src/protocol/dist/index.js";

/** What a dense store told of a block, as text; "" = its tokens are not known. */
type Told = string;

/** The hash of an event as text. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** Believes everything, in order. */
export class EngineConsumer {
  readonly groups = new Map<number, Map<string, Told>>();
  readonly kinds = new Map<number, string>();
  start: Start | undefined;
  chunks = 0;
  isWhole = false;
  #nextChunk = 0;
  #cursor: Cursor | undefined;
  /** Something was withdrawn after the last batch. */
  #isPassed = false;

  /** Where it could go on; undefined = it has nothing whole. */
  get resumePoint(): ResumePoint | undefined {
    const instance = this.start?.instance;
    if (!this.isWhole || this.#isPassed || this.#cursor === undefined) return undefined;
    return instance === undefined ? undefined : { cursor: this.#cursor, instance };
  }

  /** True when it believes that a group holds a hash. */
  holds(groupId: number, hash: Uint8Array): boolean {
    return this.groups.get(groupId)?.has(hex(hash)) === true;
  }

  /** Everything that it believes, as sorted text. */
  belief(): readonly string[] {
    const lines = [...this.kinds].map(([groupId, kind]) => `group ${groupId} ${kind}`);
    for (const [groupId, blocks] of this.groups) {
      for (const [hash, told] of blocks) lines.push(`${groupId}/${hash} ${told}`);
    }
    return lines.sort();
  }

  /** One output of the rank itself: no start, no queue and no snapshot in between. */
  hear(output: RankOutput): void {
    if (output.type === "epoch") this.#forget();
    else if (output.type === "withdraw") this.#withdraw(output.bytes);
    else if (output.type === "batch" && output.engineBytes !== undefined) {
      this.applyEvents(fromBinary(BatchSchema, output.engineBytes).batch?.events ?? []);
    }
  }

  /** One item of a stream. */
  apply(item: QueueItem): void {
    if (item.type === "start") this.#begin(item.start);
    else if (item.type === "snapshot_chunk") {
      if (this.start?.hasSnapshot !== true)
        throw new TypeError("pieces follow where start says so");
      if (item.chunk.index !== this.#nextChunk++) throw new TypeError("pieces come in order");
      this.chunks += 1;
      this.applyEvents(item.chunk.events);
      this.isWhole = item.chunk.isLast;
    } else if (item.no === 3) this.#batch(item.bytes);
    else if (item.no === 4) this.#withdraw(item.bytes);
  }

  /** Events in the engine's order. */
  applyEvents(events: readonly KvGroupEvent[]): void {
    for (const event of events) {
      if (event.operation === Operation.STORE) this.#store(event);
      else if (event.operation === Operation.REMOVE) {
        for (const hash of event.blockHashes) this.groups.get(event.groupId)?.delete(hex(hash));
      } else this.#clear(event.clearsAllGroups ? undefined : event.groupId);
    }
  }

  #begin(start: Start): void {
    const cursor = parseCursor(start.cursor);
    if (start.isResumed) {
      const isSame =
        cursor?.epoch === this.#cursor?.epoch && cursor?.sequence === this.#cursor?.sequence;
      if (!isSame) throw new TypeError("a stream goes on where its consumer stands");
      if (start.hasSnapshot) throw new TypeError("who goes on needs no snapshot");
    } else {
      this.#forget();
      this.isWhole = false;
      this.#isPassed = false;
    }
    this.start = start;
    this.#cursor = cursor;
    this.#nextChunk = 0;
  }

  #batch(bytes: Uint8Array): void {
    const { epoch, batch } = fromBinary(BatchSchema, bytes);
    const next = parseCursor({ epoch, sequenceNumber: batch?.sequenceNumber });
    if (next?.sequence === undefined || next.epoch !== this.#cursor?.epoch) {
      throw new TypeError("a batch is of the epoch of its start");
    }
    const step = succession(this.#cursor.sequence, next.sequence);
    if (step !== "first" && step !== "successor") throw new TypeError("batches leave no hole");
    this.#cursor = next;
    this.#isPassed = false;
    this.applyEvents(batch?.events ?? []);
  }

  #withdraw(bytes: Uint8Array): void {
    const { groupId, medium } = fromBinary(WithdrawSchema, bytes);
    this.#isPassed = true;
    if (medium === undefined || medium === "") this.#clear(groupId);
  }

  #store(event: KvGroupEvent): void {
    const { groupId, blockHashes, blockSize, tokenIds } = event;
    const blocks = this.groups.get(groupId) ?? new Map<string, Told>();
    this.groups.set(groupId, blocks);
    this.kinds.set(groupId, `${event.kind} ${event.slidingWindow}`);
    const isDense = tokenIds.length > 0 && blockHashes.length * blockSize === tokenIds.length;
    let parent = hex(event.parentBlockHash);
    for (const [index, bytes] of blockHashes.entries()) {
      const hash = hex(bytes);
      const own = tokenIds.slice(index * blockSize, (index + 1) * blockSize);
      const lora = `${event.loraName} ${event.loraId}`;
      const told = `${parent} ${event.tokensMatchable} ${lora} ${blockSize}: ${own.join()}`;
      if (isDense) blocks.set(hash, told);
      else if (!blocks.has(hash)) blocks.set(hash, "");
      parent = hash;
    }
  }

  #clear(groupId: number | undefined): void {
    for (const [id, blocks] of this.groups)
      if (groupId === undefined || id === groupId) blocks.clear();
  }

  #forget(): void {
    this.groups.clear();
    this.kinds.clear();
  }
}
