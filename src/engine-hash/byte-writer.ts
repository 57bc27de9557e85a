/**
 * What it is: one growing buffer that the encoders write into, used again for every block.
 * Owns: the buffer.
 * Refuses: nothing; the encoders bound what they write.
 * Does not do: know a format.
 */

const FIRST_BYTES = 4_096;

/** Bytes 0 … `length` − 1 of `bytes` are written. Whoever writes reserves first. */
export class ByteWriter {
  bytes: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  length = 0;

  /** Forgets everything that was ever written. */
  wipe(): void {
    if (this.length === 0) return;
    this.bytes.fill(0);
    this.length = 0;
  }

  /** Makes room for that many further bytes; `bytes` may be another buffer afterwards. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
  }

  /** One byte, reserved before. */
  byte(value: number): void {
    this.bytes[this.length++] = value;
  }

  /** Two bytes, least significant first, reserved before. */
  little16(value: number): void {
    this.length = this.bytes.writeUInt16LE(value, this.length);
  }

  /** Four bytes of a uint32, least significant first, reserved before. */
  little32(value: number): void {
    this.length = this.bytes.writeUInt32LE(value, this.length);
  }

  /** `count` bytes of the two's complement of a safe integer, least significant first, reserved before. */
  littleSigned(value: number, count: number): void {
    let rest = BigInt(value);
    for (let i = 0; i < count; i++) {
      this.byte(Number(BigInt.asUintN(8, rest)));
      rest >>= 8n;
    }
  }

  /** Bytes of a latin1 string; reserves. */
  latin1(text: string): void {
    const count = text.length;
    this.reserve(count);
    const { bytes, length } = this;
    for (let i = 0; i < count; i++) bytes[length + i] = text.charCodeAt(i);
    this.length = length + count;
  }

  /** The UTF-8 bytes of a text; reserves. A lone surrogate would be written as U+FFFD: refuse it before. */
  utf8(text: string, count: number): void {
    this.reserve(count);
    this.length += this.bytes.write(text, this.length, count, "utf8");
  }
}

/** False for texts with a lone surrogate: they have no UTF-8 form. */
export function hasUtf8Form(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}
