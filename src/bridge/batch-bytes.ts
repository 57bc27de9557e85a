/**
 * What it is: the bytes of a kvgroup.v1.Batch, written by hand: there is one for every batch of the engine.
 * Owns: the fields of the messages within it (bridge.proto, event.proto). A test holds the bytes against those of the
 * protobuf library, message by message, and fails where a message has a field that is not written here.
 * Refuses: nothing.
 * Does not do: write fields that are unknown to this build.
 */
import type { Batch } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type {
  KvGroupBatch,
  KvGroupEvent,
  UnplacedBlocks,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { WireWriter } from "./wire-writer.ts";

/** A message's own fields. */
type Fields<M> = Omit<M, "$typeName" | "$unknown">;

/** What is written of a Batch; the counts are safe integers. */
export type BatchFields = Omit<Fields<Batch>, "batch" | "unplacedBlocks" | "toldUnplacedBlocks"> & {
  readonly batch: Fields<KvGroupBatch>;
  readonly unplacedBlocks: number;
  readonly toldUnplacedBlocks: number;
};

/** Shared: nothing that it does can be interrupted. */
const writer = new WireWriter();

/** The message as the protobuf library would write it. */
export function writeBatch(message: BatchFields): Uint8Array {
  writer.uint(6, message.toldUnplacedBlocks);
  writer.bool(5, message.isCatchingUp);
  writer.uint(4, message.unplacedBlocks);
  writer.uint(3, message.completeness);
  const end = writer.written;
  writeEvents(message.batch);
  writer.close(2, end);
  writer.uint64(1, message.epoch);
  return writer.take();
}

function writeEvents(batch: Fields<KvGroupBatch>): void {
  writeUnplaced(5, batch.unplacedStored);
  writeUnplaced(4, batch.unplacedRemoved);
  for (let i = batch.events.length - 1; i >= 0; i--) {
    const event = batch.events[i];
    if (event === undefined) continue;
    const end = writer.written;
    writeEvent(event);
    writer.close(3, end);
  }
  writer.double(2, batch.timestampSeconds);
  writer.uint64(1, batch.sequenceNumber);
}

function writeEvent(event: KvGroupEvent): void {
  writer.bool(18, event.clearsAllGroups);
  if (event.loraId !== undefined) writer.optionalInt64(17, event.loraId);
  if (event.loraName !== undefined) writer.optionalText(16, event.loraName);
  writer.text(15, event.ownership);
  writer.text(14, event.locality);
  writer.text(13, event.medium);
  writer.byteField(12, event.parentPrefixKey);
  writer.uint(11, event.endTokens);
  writer.byteField(10, event.prefixKeys);
  writer.bool(9, event.tokensMatchable);
  writer.uint(8, event.slidingWindow);
  writer.text(7, event.kind);
  writer.uint(6, event.blockSize);
  writer.uint32s(5, event.tokenIds);
  writer.byteField(4, event.parentBlockHash);
  const hashes = event.blockHashes;
  for (let i = hashes.length - 1; i >= 0; i--) {
    const hash = hashes[i];
    if (hash !== undefined) writer.element(3, hash);
  }
  writer.uint(2, event.groupId);
  writer.uint(1, event.operation);
}

function writeUnplaced(field: number, messages: readonly UnplacedBlocks[]): void {
  for (let i = messages.length - 1; i >= 0; i--) {
    const message = messages[i];
    if (message === undefined) continue;
    const end = writer.written;
    writer.byteField(7, message.tailKeys);
    writer.byteField(6, message.hashKeys);
    writer.uint(5, message.blockSize);
    writer.text(4, message.ownership);
    writer.text(3, message.locality);
    writer.text(2, message.medium);
    writer.uint(1, message.groupId);
    writer.close(field, end);
  }
}
