/**
 * What it is: the reading of numbers and texts from bytes that may be anything.
 * Owns: a position.
 * Refuses: to read beyond the end, and numbers in another form than the sink writes: from then on it has failed, and
 * every further answer is 0 or empty.
 * Does not do: allocate more than what is there.
 */

/** Little-endian, as `ByteSink` writes. Ask `isFailed` before anything that was read is used. */
export class ByteSource {
  private readonly bytes: Buffer;
  private at = 0;
  private failed = false;

  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Something was not as it must be. */
  get isFailed(): boolean {
    return this.failed;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.bytes.length - this.at;
  }

  /** Says that what was read makes no sense. */
  fail(): void {
    this.failed = true;
    this.at = this.bytes.length;
  }

  /** One byte. */
  uint8(): number {
    return this.has(1) ? (this.bytes[this.at++] ?? 0) : 0;
  }

  /** Four bytes. */
  uint32(): number {
    if (!this.has(4)) return 0;
    const value = this.bytes.readUInt32LE(this.at);
    this.at += 4;
    return value;
  }

  /** A safe integer; every value has one form. */
  varint(): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 8; count++) {
      if (!this.has(1)) return 0;
      const byte = this.bytes[this.at++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) {
        if ((byte === 0 && count > 0) || !Number.isSafeInteger(value)) break;
        return value;
      }
      scale *= 128;
    }
    this.fail();
    return 0;
  }

  /** A text of `length` characters of one byte each. */
  latin1(length: number): string {
    if (!this.has(length)) return "";
    const text = this.bytes.toString("latin1", this.at, this.at + length);
    this.at += length;
    return text;
  }

  /** A text of `length` characters of two bytes each: any text comes back as it was. */
  utf16(length: number): string {
    if (!this.has(length * 2)) return "";
    const text = this.bytes.toString("utf16le", this.at, this.at + length * 2);
    this.at += length * 2;
    return text;
  }

  private has(count: number): boolean {
    if (count <= this.left) return true;
    this.fail();
    return false;
  }
}
