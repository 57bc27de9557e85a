/**
 * What it is: a place in the bytes of one payload, for the reader that builds no values in between.
 * Owns: which encodings that reader takes: those that vLLM's publisher writes, and no other.
 * Invariants: once it has given up it stands at the end, so every further reading gives up at once and no count that it
 * tells is above 0. No count is above the bytes that are left.
 * Refuses: everything else, by giving up: `isLost` is set and a value that means nothing is given.
 * Does not do: know of events; say what was wrong.
 */
import { Buffer } from "node:buffer";
import { TextCache } from "./fast-read-texts.ts";

const NIL = 0xc0;
const MAP_16 = 0xde;
/** A head that msgpack leaves unused: what is read at the end. */
const UNUSED = 0xc1;

const texts = new TextCache();

const doubleBytes = new Uint8Array(8);
const doubleView = new DataView(doubleBytes.buffer);

/** One a payload; `at` may be moved by who has read something of its own. */
export class FastCursor {
  readonly bytes: Uint8Array;
  readonly size: number;
  at = 0;
  isLost = false;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.size = bytes.length;
  }

  /** Something stands here that the other reader must judge. */
  giveUp(): void {
    this.isLost = true;
    this.at = this.size;
  }

  /** The byte that comes next. */
  peek(): number {
    return this.bytes[this.at] ?? UNUSED;
  }

  /** Takes a nil if one comes next. */
  takeNil(): boolean {
    if (this.bytes[this.at] !== NIL) return false;
    this.at += 1;
    return true;
  }

  /** Elements of the list that begins here. */
  listHeader(): number {
    const head = this.peek();
    if (head >= 0x90 && head < 0xa0) return this.counted(1, head & 15);
    if (head === 0xdc) return this.counted(3, this.uint16At(this.at + 1));
    if (head === 0xdd) return this.counted(5, this.uint32At(this.at + 1));
    return this.counted(1, Number.POSITIVE_INFINITY);
  }

  /** True when a map begins here. */
  get isAtMap(): boolean {
    const head = this.peek();
    return (head >= 0x80 && head < 0x90) || head === MAP_16;
  }

  /** Pairs of the map that begins here; vLLM's encoder writes the wider head where fields may be left out. */
  mapHeader(): number {
    const head = this.peek();
    if (head === MAP_16) return this.counted(3, this.uint16At(this.at + 1));
    return this.counted(1, head >= 0x80 && head < 0x90 ? head & 15 : Number.POSITIVE_INFINITY);
  }

  /** An integer of 0 … 2^32 − 1, in an unsigned encoding of up to 32 bits. */
  uint32(): number {
    const head = this.peek();
    if (head < 0x80) {
      this.at += 1;
      return head;
    }
    const { at } = this;
    if (head === 0xcc) return this.sized(2, this.bytes[at + 1] ?? 0);
    if (head === 0xcd) return this.sized(3, this.uint16At(at + 1));
    if (head === 0xce) return this.sized(5, this.uint32At(at + 1));
    this.giveUp();
    return 0;
  }

  /** As `uint32`, and the signed encodings of up to 32 bits. */
  int33(): number {
    const head = this.peek();
    const { at } = this;
    if (head >= 0xe0) return this.sized(1, head - 0x100);
    if (head === 0xd0) return this.sized(2, ((this.bytes[at + 1] ?? 0) << 24) >> 24);
    if (head === 0xd1) return this.sized(3, (this.uint16At(at + 1) << 16) >> 16);
    if (head === 0xd2) return this.sized(5, this.uint32At(at + 1) | 0);
    return this.uint32();
  }

  /** Exactly `count` integers as in `uint32`; the caller has bounded it. */
  uint32s(count: number): Uint32Array {
    const { bytes } = this;
    const values = new Uint32Array(count);
    let { at } = this;
    for (let i = 0; i < count; i++) {
      const head = bytes[at] ?? UNUSED;
      if (head < 0x80) {
        values[i] = head;
        at += 1;
      } else if (head === 0xcd) {
        values[i] = ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
        at += 3;
      } else if (head === 0xce) {
        values[i] = this.uint32At(at + 1);
        at += 5;
      } else if (head === 0xcc) {
        values[i] = bytes[at + 1] ?? 0;
        at += 2;
      } else {
        this.giveUp();
        return values;
      }
    }
    this.moveTo(at);
    return values;
  }

  /** A float of 64 bits. */
  double(): number {
    if (this.peek() !== 0xcb) {
      this.giveUp();
      return 0;
    }
    for (let i = 0; i < 8; i++) doubleBytes[i] = this.bytes[this.at + 1 + i] ?? 0;
    return this.sized(9, doubleView.getFloat64(0));
  }

  /** A text of ASCII, up to 255 characters, that comes again and again: one string for all equal ones. */
  name(): string {
    const end = this.textEnd();
    const start = this.at;
    this.at = end;
    return this.isLost
      ? ""
      : (texts.find(this.bytes, start, end) ?? this.newText(start, end, true));
  }

  /** As `name`, a string of its own. */
  text(): string {
    const end = this.textEnd();
    const start = this.at;
    this.at = end;
    return this.isLost ? "" : this.newText(start, end, false);
  }

  /** Bytes start … end − 1 as one character each. */
  latin1(start: number, end: number): string {
    const { buffer, byteOffset } = this.bytes;
    return Buffer.from(buffer, byteOffset + start, end - start).toString("latin1");
  }

  /** A big-endian number of 16 bits; 0 beyond the end. */
  uint16At(at: number): number {
    return ((this.bytes[at] ?? 0) << 8) | (this.bytes[at + 1] ?? 0);
  }

  /** A big-endian number of 32 bits; 0 beyond the end. */
  uint32At(at: number): number {
    return ((this.uint16At(at) << 16) | this.uint16At(at + 2)) >>> 0;
  }

  /** Goes to a place; beyond the end it gives up. */
  moveTo(at: number): void {
    if (at > this.size) this.giveUp();
    else this.at = at;
  }

  /** Moves to a text's first character and gives its end. */
  private textEnd(): number {
    const head = this.peek();
    if (head >= 0xa0 && head < 0xc0) this.at += 1;
    else if (head === 0xd9) this.at += 2;
    else this.giveUp();
    const length = head === 0xd9 ? (this.bytes[this.at - 1] ?? 0) : head & 31;
    const end = this.at + length;
    if (end > this.size) this.giveUp();
    return Math.min(end, this.size);
  }

  private newText(start: number, end: number, isKept: boolean): string {
    for (let i = start; i < end; i++) {
      if ((this.bytes[i] ?? 0) < 0x80) continue;
      this.giveUp();
      return "";
    }
    const text = this.latin1(start, end);
    if (isKept) texts.keep(text);
    return text;
  }

  private sized(size: number, value: number): number {
    this.moveTo(this.at + size);
    return value;
  }

  private counted(headerSize: number, count: number): number {
    this.at += headerSize;
    if (count <= this.size - this.at) return count;
    this.giveUp();
    return 0;
  }
}
