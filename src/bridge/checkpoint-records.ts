/**
 * What it is: the records of a checkpoint: one block, one forgotten block, one adapter's name; written and read.
 * Owns: the form of a record, and the numbers that stand for adapters' names.
 * Refuses: a record that no writer makes.
 * Does not do: put blocks together (checkpoint-reader.ts does).
 */
import {
  type BlockHash,
  type Digest,
  HASH_ALGORITHMS,
  isBlockHash,
  isDigestOf,
  isUint32,
  LIMITS,
  STATE_WORDS,
} from "@kv-group-bridge/protocol";
import { Block, type Slot } from "./block.ts";
import type { ByteSink } from "./byte-sink.ts";
import type { ByteSource } from "./byte-source.ts";

const BLOCK_RECORD = 1;
const FORGOTTEN_RECORD = 2;
const NAME_RECORD = 3;

const IS_PLACED = 1;
const HAS_PARENT_KEY = 2;
const HAS_PARENT = 4;
const HAS_NAME = 8;
const IS_PLAIN = 16;
const HAS_PARTIALS = 32;
const IS_UNHELD = 64;
/** A placed block's digest, or the tail of one without a place. */
const HAS_DIGEST_OR_TAIL = 128;

/** Most bytes of a record but for its hash and what it says of each slot. */
const MOST_FIXED_BYTES = 128;
const MOST_SLOT_BYTES = 32;

/** Writes records. One a checkpoint: a name is written once, before the first block that has it. */
export class RecordWriter {
  private readonly sink: ByteSink;
  private readonly names = new Map<string, number>();

  constructor(sink: ByteSink) {
    this.sink = sink;
  }

  /** What a block is now. `slotCount`: of the mirror. */
  block(block: Block, slotCount: number): void {
    const { sink } = this;
    const words = block.stateWords;
    const isPlaced = block.isPlaced && words !== undefined;
    const name = isPlaced && block.loraName !== undefined ? this.nameOf(block.loraName) : 0;
    const parent = block.parent?.isForgotten === false ? block.parent : undefined;
    const { partialOf } = block;
    sink.reserve(MOST_FIXED_BYTES + block.hash.length + slotCount * MOST_SLOT_BYTES);
    sink.uint8(BLOCK_RECORD);
    sink.varint(block.serial);
    sink.uint8(
      (isPlaced ? IS_PLACED : 0) |
        (isPlaced && block.hasParentKey ? HAS_PARENT_KEY : 0) |
        (isPlaced && parent !== undefined ? HAS_PARENT : 0) |
        (name > 0 ? HAS_NAME : 0) |
        (block.isPlain ? IS_PLAIN : 0) |
        (partialOf === undefined ? 0 : HAS_PARTIALS) |
        (block.heldSlots === 0 ? IS_UNHELD : 0) |
        (hasDigestOrTail(block) ? HAS_DIGEST_OR_TAIL : 0),
    );
    sink.varint(block.hash.length);
    sink.latin1(block.hash);
    sink.varint(block.blockSizeTokens);
    if (block.heldSlots === 0) sink.varint(block.historyStamp);
    else this.perSlot(block.copies, block.heldSlots);
    if (partialOf !== undefined) this.perSlot(partialOf, countOf(partialOf));
    if (!isPlaced) {
      if (!hasDigestOrTail(block)) return;
      sink.uint32(block.tailLow);
      sink.uint32(block.tailHigh);
      sink.varint(block.maybeTailTokens);
      return;
    }
    if (block.digest !== undefined) {
      sink.varint(block.digest.length);
      sink.latin1(block.digest);
    }
    sink.varint(block.endTokens);
    sink.uint32(block.keyLow);
    sink.uint32(block.keyHigh);
    for (let i = 0; i < STATE_WORDS; i++) sink.uint32(words[i] ?? 0);
    if (block.hasParentKey) {
      sink.uint32(block.parentLow);
      sink.uint32(block.parentHigh);
    }
    if (parent !== undefined) sink.varint(parent.serial);
    if (name > 0) sink.varint(name);
  }

  /** A block that was written before, or not, is gone. */
  forgotten(serial: number): void {
    this.sink.reserve(MOST_FIXED_BYTES);
    this.sink.uint8(FORGOTTEN_RECORD);
    this.sink.varint(serial);
  }

  private nameOf(loraName: string): number {
    const known = this.names.get(loraName);
    if (known !== undefined) return known;
    const number = this.names.size + 1;
    this.names.set(loraName, number);
    const bytes = Buffer.from(loraName, "utf16le");
    this.sink.reserve(MOST_FIXED_BYTES + bytes.length);
    this.sink.uint8(NAME_RECORD);
    this.sink.varint(loraName.length);
    this.sink.raw(bytes);
    return number;
  }

  /** Slot and number of every entry that is not 0; `count` = how many these are. */
  private perSlot(values: readonly (number | undefined)[], count: number): void {
    const { sink } = this;
    sink.varint(count);
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (value === undefined || value === 0) continue;
      sink.varint(i);
      sink.varint(value);
    }
  }
}

function hasDigestOrTail(block: Block): boolean {
  return block.isPlaced ? block.digest !== undefined : block.hasTail || block.maybeTailTokens > 0;
}

function countOf(values: readonly (number | undefined)[]): number {
  let count = 0;
  for (const value of values) if (value !== undefined && value !== 0) count += 1;
  return count;
}

/** A block as read. Its parent is named by the number that the parent had when it was written; 0 = none. */
export interface ReadBlock {
  readonly block: Block;
  readonly parentSerial: number;
}

/** Receives records. */
export interface RecordTarget {
  /** `serial` is the number that the block had; the block itself has none yet. */
  block(serial: number, read: ReadBlock): void;
  forgotten(serial: number): void;
}

/** Reads records until the end; false = the source is not what a writer wrote. `slots`: the checkpoint's. */
export function readRecords(
  source: ByteSource,
  slots: readonly Slot[],
  target: RecordTarget,
): boolean {
  const names: string[] = [];
  while (source.left > 0 && !source.isFailed) {
    const tag = source.uint8();
    if (tag === BLOCK_RECORD) {
      readBlock(source, slots, names, target);
    } else if (tag === FORGOTTEN_RECORD) {
      target.forgotten(source.varint());
    } else if (tag === NAME_RECORD) {
      const length = source.varint();
      if (length > LIMITS.textBytes.value) source.fail();
      names.push(source.utf16(length));
    } else {
      source.fail();
    }
  }
  return !source.isFailed;
}

function readBlock(
  source: ByteSource,
  slots: readonly Slot[],
  names: readonly string[],
  target: RecordTarget,
): void {
  const serial = source.varint();
  const flags = source.uint8();
  const hash = readHash(source);
  if (hash === undefined || serial === 0) {
    source.fail();
    return;
  }
  const block = new Block(hash, serial);
  block.isPlain = (flags & IS_PLAIN) !== 0;
  block.blockSizeTokens = readTokens(source);
  if ((flags & IS_UNHELD) !== 0) {
    block.historyStamp = source.varint();
    if (block.historyStamp === 0) source.fail();
  } else {
    readPerSlot(source, slots, (slot, count) => block.setCopies(slot, count));
    if (block.heldSlots === 0) source.fail();
  }
  if ((flags & HAS_PARTIALS) !== 0) {
    const partialOf: number[] = [];
    readPerSlot(source, slots, (slot, whole) => {
      if (!isUint32(whole)) source.fail();
      partialOf[slot.index] = whole;
    });
    block.partialOf = partialOf;
  }
  const parentSerial = readPlace(source, flags, block, names);
  if (!source.isFailed) target.block(serial, { block, parentSerial });
}

/** Gives the parent's number; 0 = none. */
function readPlace(
  source: ByteSource,
  flags: number,
  block: Block,
  names: readonly string[],
): number {
  if ((flags & IS_PLACED) === 0) {
    if ((flags & (HAS_PARENT_KEY | HAS_PARENT | HAS_NAME)) !== 0) source.fail();
    if ((flags & HAS_DIGEST_OR_TAIL) !== 0) {
      block.tailLow = source.uint32();
      block.tailHigh = source.uint32();
      block.maybeTailTokens = readTokens(source);
      block.hasTail = block.maybeTailTokens === 0;
    }
    return 0;
  }
  if ((flags & HAS_DIGEST_OR_TAIL) !== 0) {
    block.digest = readDigest(source);
    if (block.digest === undefined) source.fail();
  }
  const endTokens = readTokens(source);
  if (endTokens === 0) source.fail();
  block.keyLow = source.uint32();
  block.keyHigh = source.uint32();
  const words = new Uint32Array(STATE_WORDS);
  for (let i = 0; i < STATE_WORDS; i++) words[i] = source.uint32();
  block.restorePlace(endTokens, words);
  if ((flags & HAS_PARENT_KEY) !== 0) {
    block.hasParentKey = true;
    block.parentLow = source.uint32();
    block.parentHigh = source.uint32();
  }
  let parentSerial = 0;
  if ((flags & HAS_PARENT) !== 0) {
    parentSerial = source.varint();
    if (parentSerial === 0 || !block.hasParentKey) source.fail();
  }
  if ((flags & HAS_NAME) !== 0) {
    block.loraName = names[source.varint() - 1];
    if (block.loraName === undefined) source.fail();
  }
  return parentSerial;
}

/** Tokens are counted in 32 bits, here and on the wire. */
function readTokens(source: ByteSource): number {
  const tokens = source.varint();
  if (!isUint32(tokens)) source.fail();
  return tokens;
}

function readHash(source: ByteSource): BlockHash | undefined {
  const length = source.varint();
  if (length > LIMITS.hashBytes.value) return undefined;
  const text = source.latin1(length);
  return isBlockHash(text) ? text : undefined;
}

function readDigest(source: ByteSource): Digest | undefined {
  const length = source.varint();
  if (length > LIMITS.hashBytes.value) return undefined;
  const text = source.latin1(length);
  for (const name of HASH_ALGORITHMS) if (isDigestOf(text, name)) return text;
  return undefined;
}

function readPerSlot(
  source: ByteSource,
  slots: readonly Slot[],
  take: (slot: Slot, value: number) => void,
): void {
  const count = source.varint();
  let last = -1;
  for (let i = 0; i < count && !source.isFailed; i++) {
    const slot = slots[source.varint()];
    const value = source.varint();
    if (slot === undefined || slot.index <= last || value === 0) {
      source.fail();
      return;
    }
    last = slot.index;
    take(slot, value);
  }
}
