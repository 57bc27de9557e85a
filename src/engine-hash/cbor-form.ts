/**
 * What it is: the canonical CBOR (RFC 8949 section 4.2.1, as Python's cbor2 writes it) of the values that vLLM hashes.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: hash.
 */
import type { Digest } from "@kv-group-bridge/protocol";
import type { BlockTokens } from "./block-content.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { type HashedValue, Tag } from "./hashed-value.ts";

const UNSIGNED = 0x00;
const NEGATIVE = 0x20;
const BYTES = 0x40;
const TEXT = 0x60;
const LIST = 0x80;
const NULL = 0xf6;

/** The longest head: one byte and a length of 8. */
const HEAD_BYTES = 9;

/** Writes CBOR items, one at a time. */
export class CborForm {
  private readonly writer: ByteWriter;

  constructor(writer: ByteWriter) {
    this.writer = writer;
  }

  /** Writes `[parent, [ids …], extra]`. */
  block(parent: Digest, block: BlockTokens, extra: HashedValue): void {
    const { writer } = this;
    const { tokens, from, to } = block;
    writer.length = 0;
    writer.reserve(2 * HEAD_BYTES);
    writer.byte(LIST | 3);
    this.head(BYTES, parent.length);
    writer.latin1(parent);
    writer.reserve((to - from + 1) * HEAD_BYTES);
    this.head(LIST, to - from);
    for (let i = from; i < to; i++) this.integer(tokens[i] ?? 0);
    this.value(extra);
  }

  /** Writes the text alone, as for a seed. */
  text(text: string): void {
    this.writer.length = 0;
    this.value(text);
  }

  private value(value: HashedValue): void {
    const { writer } = this;
    writer.reserve(HEAD_BYTES);
    if (value === null) writer.byte(NULL);
    else if (typeof value === "number") this.integer(value);
    else if (typeof value === "string") this.string(value);
    else if (value instanceof Tag) this.string(value.text);
    else {
      this.head(LIST, value.length);
      for (const member of value) this.value(member);
    }
  }

  private string(text: string): void {
    const count = Buffer.byteLength(text, "utf8");
    this.head(TEXT, count);
    this.writer.utf8(text, count);
  }

  private integer(value: number): void {
    if (value < 0) this.head(NEGATIVE, -1 - value);
    else this.head(UNSIGNED, value);
  }

  /** The shortest head of a kind; reserved before. */
  private head(kind: number, count: number): void {
    const { writer } = this;
    if (count < 24) writer.byte(kind | count);
    else if (count < 0x100) {
      writer.byte(kind | 24);
      writer.byte(count);
    } else if (count < 0x1_0000) {
      writer.byte(kind | 25);
      writer.byte(count >>> 8);
      writer.byte(count & 255);
    } else if (count < 0x1_0000_0000) {
      writer.byte(kind | 26);
      this.big32(count);
    } else {
      writer.byte(kind | 27);
      this.big32(Math.floor(count / 0x1_0000_0000));
      this.big32(count >>> 0);
    }
  }

  private big32(word: number): void {
    const { writer } = this;
    writer.byte(word >>> 24);
    writer.byte((word >>> 16) & 255);
    writer.byte((word >>> 8) & 255);
    writer.byte(word & 255);
  }
}
