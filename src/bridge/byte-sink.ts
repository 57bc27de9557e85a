/**
 * What it is: bytes that grow while numbers and texts are written to them.
 * Owns: one buffer, used again after every `take`.
 * Refuses: nothing; that values fit their form is the caller's to know.
 * Does not do: know what is written.
 */
import { invariant } from "@kv-group-bridge/runtime";

const FIRST_BYTES = 64 * 1024;

/** Little-endian. `reserve` before writing: the other methods do not grow the buffer. */
export class ByteSink {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  private end = 0;

  /** Bytes since the last `take`. */
  get length(): number {
    return this.end;
  }

  /** Makes room for `count` further bytes. */
  reserve(count: number): void {
    if (this.end + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.end + count));
    this.bytes.copy(larger, 0, 0, this.end);
    this.bytes = larger;
  }

  /** One byte. */
  uint8(value: number): void {
    this.bytes[this.end++] = value;
  }

  /** Four bytes. */
  uint32(value: number): void {
    const { bytes } = this;
    let { end } = this;
    bytes[end++] = value;
    bytes[end++] = value >>> 8;
    bytes[end++] = value >>> 16;
    bytes[end++] = value >>> 24;
    this.end = end;
  }

  /** A safe integer of at least 0 in groups of seven bits, the low ones first: 1 to 8 bytes. */
  varint(value: number): void {
    let rest = value;
    // Beyond 32 bits there are no bit operations.
    while (rest > 0x7fff_ffff) {
      this.bytes[this.end++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    while (rest > 127) {
      this.bytes[this.end++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.bytes[this.end++] = rest;
  }

  /** A text whose characters are bytes. */
  latin1(text: string): void {
    const { bytes } = this;
    // A call into native code costs more than a few characters.
    if (text.length > 16) {
      this.end += bytes.write(text, this.end, "latin1");
      return;
    }
    for (let i = 0; i < text.length; i++) bytes[this.end++] = text.charCodeAt(i);
  }

  /** Bytes as they are. */
  raw(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.end);
    this.end += bytes.length;
  }

  /** What was written, as a copy; the sink is empty again. */
  take(): Uint8Array {
    invariant(this.end <= this.bytes.length, "room was reserved");
    const taken = new Uint8Array(this.bytes.subarray(0, this.end));
    this.end = 0;
    return taken;
  }
}
