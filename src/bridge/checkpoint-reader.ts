/**
 * What it is: a checkpoint's bytes → what a rank knew, or the reason why not.
 * Owns: the order of the checks: size, mark, version, checksum, head, whose it is, then every record.
 * Refuses: everything that a writer of this version under this configuration could not have written. It allocates
 * in proportion to the bytes that are there, never to a number that stands in them.
 * Does not do: touch a mirror before all of it is known to be sound, or judge whether the engine is the same.
 */
import { createHash } from "node:crypto";
import {
  type BlockHash,
  type DpRank,
  LIMITS,
  ok,
  type Result,
  type ResumePoint,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { type Block, keyTextOf, type Slot } from "./block.ts";
import { ByteSource } from "./byte-source.ts";
import {
  CHECKPOINT_MARK,
  CHECKPOINT_VERSION,
  CHECKSUM_BYTES,
  FOOTER_BYTES,
  PRELUDE_BYTES,
} from "./checkpoint-form.ts";
import { parseHeadText, type SlotMemory } from "./checkpoint-head.ts";
import { type ReadBlock, readRecords } from "./checkpoint-records.ts";
import type {
  CheckpointHead,
  CheckpointRefusal,
  CheckpointRefusalReason,
} from "./checkpoint-state.ts";
import { MIRROR_DEFAULTS, type MirrorMemory, type MirrorOptions } from "./mirror-options.ts";
import { SlotTable } from "./slot-table.ts";

/** Whose checkpoint is wanted. */
export interface ExpectedCheckpoint {
  readonly fingerprint: string;
  readonly dpRank: DpRank;
  /** Bounds of the mirror that will take it; default those of `MIRROR_DEFAULTS`. */
  readonly mirror?: Partial<MirrorOptions>;
}

/** What takes a restored state: the mirror. */
export interface RestoreTarget {
  restore(memory: MirrorMemory): void;
}

/** A sound checkpoint. */
export interface Checkpoint {
  readonly head: CheckpointHead;
  /** Blocks in it, held or remembered. */
  readonly blockCount: number;
  /** Gives the blocks to a mirror, once: they are the mirror's then. */
  restore(mirror: RestoreTarget): void;
}

/** Up to where a process that begins from a checkpoint has the history of the one that wrote it. */
export function checkpointFloor(checkpoint: Checkpoint | undefined): ResumePoint | undefined {
  if (checkpoint === undefined) return undefined;
  const { epoch, instance, gate } = checkpoint.head;
  return { cursor: { epoch, sequence: gate.last }, instance };
}

type Answer<T> = Result<T, CheckpointRefusal>;

function refuse(
  reason: CheckpointRefusalReason,
  detail: string,
): { readonly ok: false; readonly error: CheckpointRefusal } {
  return { ok: false, error: { reason, detail } };
}

/** Reads a checkpoint. `bytes` may be anything; they are not needed afterwards. */
export function readCheckpoint(
  bytes: Uint8Array,
  expected: ExpectedCheckpoint,
): Answer<Checkpoint> {
  const frame = checkFrame(bytes);
  if (!frame.ok) return frame;
  const { headBytes, recordBytes } = frame.value;
  const text = parseHeadText(Buffer.from(headBytes).toString("utf8"));
  if (text === undefined) return refuse("checkpoint_damaged", "the head cannot be read");
  const { head } = text;
  if (head.dpRank !== expected.dpRank) {
    return refuse("checkpoint_foreign", `it is rank ${head.dpRank}'s`);
  }
  if (head.fingerprint !== expected.fingerprint) {
    return refuse("checkpoint_foreign", "it was written under another configuration");
  }
  const limits = { ...MIRROR_DEFAULTS, ...expected.mirror };
  const slots = readSlots(text.slots, limits);
  if (!slots.ok) return slots;
  const memory = readMemory(recordBytes, slots.value, limits);
  if (!memory.ok) return memory;
  let isGiven = false;
  return ok({
    head,
    blockCount: memory.value.blocks.size,
    restore: (mirror) => {
      invariant(!isGiven, "a checkpoint is restored once");
      isGiven = true;
      mirror.restore(memory.value);
    },
  });
}

interface Frame {
  readonly headBytes: Uint8Array;
  readonly recordBytes: Uint8Array;
}

function checkFrame(bytes: Uint8Array): Answer<Frame> {
  if (bytes.length > LIMITS.checkpointBytes.value) {
    return refuse("checkpoint_too_large", `${bytes.length} bytes`);
  }
  const prelude = new ByteSource(bytes.subarray(0, PRELUDE_BYTES));
  const mark = prelude.latin1(CHECKPOINT_MARK.length);
  const version = prelude.uint32();
  if (prelude.isFailed || mark !== CHECKPOINT_MARK) {
    return refuse("checkpoint_damaged", "it does not begin as a checkpoint");
  }
  if (version !== CHECKPOINT_VERSION) {
    return refuse(
      "checkpoint_version",
      `format ${version}, this bridge reads ${CHECKPOINT_VERSION}`,
    );
  }
  const footerAt = bytes.length - FOOTER_BYTES;
  if (footerAt < PRELUDE_BYTES) return refuse("checkpoint_damaged", "it is cut off");
  const footer = new ByteSource(bytes.subarray(footerAt));
  const headLength = footer.uint32();
  const headAt = footerAt - headLength;
  if (footer.uint32() !== bytes.length || headAt < PRELUDE_BYTES) {
    return refuse("checkpoint_damaged", "its length is not what it says");
  }
  const checksumAt = bytes.length - CHECKSUM_BYTES;
  const checksum = createHash("sha256").update(bytes.subarray(0, checksumAt)).digest();
  if (!checksum.equals(bytes.subarray(checksumAt))) {
    return refuse("checkpoint_damaged", "its checksum is wrong");
  }
  return ok({
    headBytes: bytes.subarray(headAt, footerAt),
    recordBytes: bytes.subarray(PRELUDE_BYTES, headAt),
  });
}

function readSlots(
  memories: readonly SlotMemory[],
  limits: MirrorOptions,
): Answer<readonly Slot[]> {
  const table = new SlotTable(limits.maxMedia);
  for (const [index, memory] of memories.entries()) {
    const slot = table.intern(memory.groupId, memory);
    if (slot === undefined) return refuse("checkpoint_too_large", "too many media");
    if (slot.index !== index) return refuse("checkpoint_damaged", "a slot stands twice");
  }
  return ok(table.all());
}

function readMemory(
  recordBytes: Uint8Array,
  slots: readonly Slot[],
  limits: MirrorOptions,
): Answer<MirrorMemory> {
  const found = new Map<number, ReadBlock>();
  const isRead = readRecords(new ByteSource(recordBytes), slots, {
    block: (serial, read) => found.set(serial, read),
    forgotten: (serial) => found.delete(serial),
  });
  if (!isRead) return refuse("checkpoint_damaged", "a record cannot be read");
  const blocks = new Map<BlockHash, Block>();
  const byKey = new Map<string, Block>();
  const unheld: Block[] = [];
  for (const serial of Float64Array.from(found.keys()).sort()) {
    const read = found.get(serial);
    invariant(read !== undefined, "a number that was found has its block");
    const { block, parentSerial } = read;
    if (blocks.has(block.hash)) return refuse("checkpoint_damaged", "a hash stands twice");
    blocks.set(block.hash, block);
    block.serial = blocks.size;
    if (block.heldSlots === 0) unheld.push(block);
    if (!block.isPlaced) continue;
    const key = keyTextOf(block);
    if (byKey.has(key)) return refuse("checkpoint_damaged", "a key stands twice");
    byKey.set(key, block);
    // Not there: it was forgotten after this block was written.
    const parent = parentSerial === 0 ? undefined : found.get(parentSerial)?.block;
    if (parent !== undefined && !isParent(parent, block)) {
      return refuse("checkpoint_damaged", "a block does not follow its parent");
    }
    block.parent = parent;
  }
  if (blocks.size - unheld.length > limits.maxBlocks || unheld.length > limits.maxHistory) {
    return refuse("checkpoint_too_large", `${blocks.size} blocks`);
  }
  unheld.sort((a, b) => a.historyStamp - b.historyStamp);
  const isOrdered = unheld.every(
    (block, at) => block.historyStamp !== unheld[at - 1]?.historyStamp,
  );
  if (!isOrdered) return refuse("checkpoint_damaged", "two blocks have one place in the history");
  return ok({ slots, blocks, byKey, unheld });
}

/** What is true of every block and the one before it in its chain; it makes circles impossible. */
function isParent(parent: Block, block: Block): boolean {
  return (
    parent.isPlaced &&
    parent.endTokens < block.endTokens &&
    parent.keyLow === block.parentLow &&
    parent.keyHigh === block.parentHigh
  );
}
