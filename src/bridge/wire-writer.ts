/**
 * What it is: a writer of protobuf's wire format that goes from the last byte to the first, so that what a message's length
 * is is known when it is written.
 * Owns: one buffer, which grows by doubling and is let go where it became large.
 * Invariants: within a message fields come in the order of their numbers, as in every other writer: so they are written
 * from the highest to the lowest.
 * Refuses: nothing; values are of the types of their fields.
 * Does not do: know of messages. A field that has its default is left out, unless its method says otherwise.
 */
import { Buffer } from "node:buffer";

const FIRST_BYTES = 4 * 1024;
/** A larger buffer is not kept for the next message. */
const KEPT_BYTES = 1024 * 1024;

/** Wire types. */
const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;

const LOW_32 = 0xffff_ffffn;

const doubleBytes = new Uint8Array(8);
const doubleView = new DataView(doubleBytes.buffer);

/** One for many messages, one after another. */
export class WireWriter {
  private bytes = new Uint8Array(FIRST_BYTES);
  /** Where the bytes written so far begin. */
  private at = FIRST_BYTES;
  /** The last integer that was split, and its words. */
  private wide = 0n;
  private wideHigh = 0;
  private wideLow = 0;

  /** Bytes written so far; `close` takes it as the end of a message. */
  get written(): number {
    return this.bytes.length - this.at;
  }

  /** What was written; begins anew. */
  take(): Uint8Array {
    const taken = this.bytes.slice(this.at);
    if (this.bytes.length > KEPT_BYTES) this.bytes = new Uint8Array(FIRST_BYTES);
    this.at = this.bytes.length;
    return taken;
  }

  /** Makes a field of all that was written since `written` was `end`. */
  close(field: number, end: number): void {
    this.varint(this.written - end);
    this.tag(field, DELIMITED);
  }

  /** An integer of 0 … 2^53 − 1, or an enum. */
  uint(field: number, value: number): void {
    if (value === 0) return;
    this.varint(value);
    this.tag(field, VARINT);
  }

  bool(field: number, value: boolean): void {
    this.uint(field, value ? 1 : 0);
  }

  uint64(field: number, value: bigint): void {
    if (value !== 0n) this.optionalInt64(field, value);
  }

  /** Written whatever its value. */
  optionalInt64(field: number, value: bigint): void {
    const near = Number(value);
    if (near >= 0 && near <= Number.MAX_SAFE_INTEGER) this.varint(near);
    else {
      if (value !== this.wide) this.split(value);
      this.varint64(this.wideHigh, this.wideLow);
    }
    this.tag(field, VARINT);
  }

  double(field: number, value: number): void {
    if (Object.is(value, 0)) return;
    doubleView.setFloat64(0, value, true);
    this.put(doubleBytes);
    this.tag(field, FIXED64);
  }

  /** Bytes that are there whatever their number: an element of a list. */
  element(field: number, value: Uint8Array): void {
    this.put(value);
    this.varint(value.length);
    this.tag(field, DELIMITED);
  }

  byteField(field: number, value: Uint8Array): void {
    if (value.length > 0) this.element(field, value);
  }

  text(field: number, value: string): void {
    if (value !== "") this.optionalText(field, value);
  }

  /** Written whatever its value. */
  optionalText(field: number, value: string): void {
    const end = this.written;
    this.putText(value);
    this.close(field, end);
  }

  /** A packed list of uint32. */
  uint32s(field: number, values: readonly number[]): void {
    if (values.length === 0) return;
    const end = this.written;
    for (let i = values.length - 1; i >= 0; i--) this.varint(values[i] ?? 0);
    this.close(field, end);
  }

  /** Epochs are wide, and one comes in batch after batch. */
  private split(value: bigint): void {
    const bits = BigInt.asUintN(64, value);
    this.wide = value;
    this.wideHigh = Number(bits >> 32n);
    this.wideLow = Number(bits & LOW_32);
  }

  private tag(field: number, type: number): void {
    this.varint(field * 8 + type);
  }

  /** Of 0 … 2^53 − 1. */
  private varint(value: number): void {
    if (value < 0x80) {
      this.room(1);
      this.at -= 1;
      this.bytes[this.at] = value;
    } else this.varint64(Math.floor(value / 0x1_0000_0000), value >>> 0);
  }

  /** Two words of 32 bits. */
  private varint64(high: number, low: number): void {
    this.room(10);
    const size = varintSize(high, low);
    this.at -= size;
    let { at } = this;
    let restLow = low;
    let restHigh = high;
    for (const last = at + size - 1; at < last; at++) {
      this.bytes[at] = (restLow & 0x7f) | 0x80;
      restLow = ((restLow >>> 7) | (restHigh << 25)) >>> 0;
      restHigh >>>= 7;
    }
    this.bytes[at] = restLow;
  }

  private putText(value: string): void {
    this.room(value.length);
    const start = this.at - value.length;
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code >= 0x80) {
        this.put(Buffer.from(value, "utf8"));
        return;
      }
      this.bytes[start + i] = code;
    }
    this.at = start;
  }

  private put(value: Uint8Array): void {
    this.room(value.length);
    this.at -= value.length;
    this.bytes.set(value, this.at);
  }

  /** Room for so many bytes before those that are there. */
  private room(size: number): void {
    if (size <= this.at) return;
    const { written } = this;
    let capacity = this.bytes.length * 2;
    while (capacity - written < size) capacity *= 2;
    const grown = new Uint8Array(capacity);
    grown.set(this.bytes.subarray(this.at), capacity - written);
    this.bytes = grown;
    this.at = capacity - written;
  }
}

function varintSize(high: number, low: number): number {
  const bits = high === 0 ? 32 - Math.clz32(low) : 64 - Math.clz32(high);
  return Math.max(1, Math.ceil(bits / 7));
}
