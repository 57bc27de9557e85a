/**
 * What it is: what CPython's C pickler writes, protocol 5, for the values that vLLM hashes: a block's tuple, and the text of
 * a seed.
 * Owns: the memo's numbering, and which texts are one Python object.
 * Refuses: what does not fit in one frame (64 KiB): the pickler splits it at places that are not reproduced here.
 * Does not do: hash.
 */
import type { Digest } from "@kv-group-bridge/protocol";
import type { BlockTokens } from "./block-content.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { type HashedValue, Tag } from "./hashed-value.ts";

/** CPython's FRAME_SIZE_TARGET: the pickler closes a frame as soon as it has this many bytes. */
export const PICKLE_FRAME_BYTES = 65_536;

const PROTO = 0x80;
const FRAME = 0x95;
const NONE = 0x4e;
const MARK = 0x28;
const TUPLE = 0x74;
const EMPTY_TUPLE = 0x29;
const TUPLE_1 = 0x85;
const MEMOIZE = 0x94;
const STOP = 0x2e;
const BYTE_INTEGER = 0x4b;
const SHORT_INTEGER = 0x4d;
const INTEGER = 0x4a;
const LONG_1 = 0x8a;
const SHORT_BYTES = 0x43;
const SHORT_TEXT = 0x8c;
const TEXT = 0x58;
const SHORT_RECALL = 0x68;
const RECALL = 0x6a;

/** Protocol, its version, and the frame's opcode with its length of 8 bytes. */
const HEAD_BYTES = 11;
/** The longest integer: opcode, length, 8 bytes. */
const INTEGER_BYTES = 10;

/** Writes pickles, one at a time. Not re-entrant. */
export class PickleForm {
  private memoized = 0;
  /** Memo numbers of what occurs as one object. */
  private readonly memo = new Map<Tag | string, number>();
  private readonly writer: ByteWriter;

  constructor(writer: ByteWriter) {
    this.writer = writer;
  }

  /** Writes `(parent, tuple of ids, extra)`. False = not reproducible; then the writer holds nothing of worth. */
  block(parent: Digest, block: BlockTokens, extra: HashedValue): boolean {
    const { writer } = this;
    this.begin();
    this.shortBytes(parent);
    if (!this.tokens(block)) return false;
    this.value(extra);
    writer.reserve(3);
    writer.byte(TUPLE_1 + 2);
    this.memoize();
    return this.end();
  }

  /** Writes the text alone, as for a seed. False = not reproducible. */
  text(text: string): boolean {
    this.begin();
    this.value(text);
    return this.end();
  }

  private begin(): void {
    this.memoized = 0;
    this.memo.clear();
    const { writer } = this;
    writer.length = 0;
    writer.reserve(HEAD_BYTES);
    writer.byte(PROTO);
    writer.byte(5);
    writer.byte(FRAME);
    writer.length = HEAD_BYTES;
  }

  private end(): boolean {
    const { writer } = this;
    if (writer.length - HEAD_BYTES >= PICKLE_FRAME_BYTES) return false;
    writer.reserve(1);
    writer.byte(STOP);
    writer.bytes.writeUInt32LE(writer.length - HEAD_BYTES, HEAD_BYTES - 8);
    writer.bytes.writeUInt32LE(0, HEAD_BYTES - 4);
    return true;
  }

  /** At most 255 bytes. */
  private shortBytes(bytes: Digest): void {
    const { writer } = this;
    writer.reserve(3);
    writer.byte(SHORT_BYTES);
    writer.byte(bytes.length);
    writer.latin1(bytes);
    this.memoize();
  }

  private tokens({ tokens, from, to }: BlockTokens): boolean {
    const count = to - from;
    const { writer } = this;
    // A token takes two bytes at least, so the rest could not be one frame.
    if (count * 2 >= PICKLE_FRAME_BYTES) return false;
    writer.reserve(3 + count * INTEGER_BYTES);
    if (count > 3) writer.byte(MARK);
    for (let i = from; i < to; i++) this.integer(tokens[i] ?? 0);
    this.endTuple(count);
    return true;
  }

  private value(value: HashedValue): void {
    const { writer } = this;
    writer.reserve(INTEGER_BYTES);
    if (value === null) writer.byte(NONE);
    else if (typeof value === "number") this.integer(value);
    else if (typeof value === "string") this.string(value, isOneObject(value) ? value : undefined);
    else if (value instanceof Tag) this.string(value.text, value);
    else {
      if (value.length > 3) writer.byte(MARK);
      for (const member of value) this.value(member);
      writer.reserve(2);
      this.endTuple(value.length);
    }
  }

  private endTuple(count: number): void {
    if (count === 0) {
      this.writer.byte(EMPTY_TUPLE); // one object, never memoized
      return;
    }
    this.writer.byte(count > 3 ? TUPLE : TUPLE_1 + count - 1);
    this.memoize();
  }

  /** `identity` is there when an equal one would be the same object. */
  private string(text: string, identity: Tag | string | undefined): void {
    const { writer } = this;
    if (identity !== undefined) {
      const number = this.memo.get(identity);
      if (number !== undefined) {
        this.recall(number);
        return;
      }
      this.memo.set(identity, this.memoized);
    }
    const count = Buffer.byteLength(text, "utf8");
    if (count < 256) {
      writer.byte(SHORT_TEXT);
      writer.byte(count);
    } else {
      writer.byte(TEXT);
      writer.little32(count);
    }
    writer.utf8(text, count);
    writer.reserve(1);
    this.memoize();
  }

  private recall(number: number): void {
    const { writer } = this;
    if (number < 256) {
      writer.byte(SHORT_RECALL);
      writer.byte(number);
    } else {
      writer.byte(RECALL);
      writer.little32(number);
    }
  }

  private memoize(): void {
    this.writer.byte(MEMOIZE);
    this.memoized++;
  }

  private integer(value: number): void {
    const { writer } = this;
    if (value >>> 0 !== value || value > 0x7fff_ffff) this.wideInteger(value);
    else if (value < 256) {
      writer.byte(BYTE_INTEGER);
      writer.byte(value);
    } else if (value < 65_536) {
      writer.byte(SHORT_INTEGER);
      writer.byte(value & 255);
      writer.byte(value >>> 8);
    } else {
      writer.byte(INTEGER);
      writer.byte(value & 255);
      writer.byte((value >>> 8) & 255);
      writer.byte((value >>> 16) & 255);
      writer.byte(value >>> 24);
    }
  }

  private wideInteger(value: number): void {
    const { writer } = this;
    if ((value | 0) === value) {
      writer.byte(INTEGER);
      writer.littleSigned(value, 4);
      return;
    }
    let bytes = 5;
    while (bytes < 8 && Math.abs(value < 0 ? value + 1 : value) >= 2 ** (8 * bytes - 1)) bytes++;
    writer.byte(LONG_1);
    writer.byte(bytes);
    writer.littleSigned(value, bytes);
  }
}

/** CPython keeps the empty string and each text of one latin1 character once in a process. */
function isOneObject(text: string): boolean {
  return text === "" || (text.length === 1 && text.charCodeAt(0) < 256);
}
