/**
 * What it is: block hashes straight from the bytes.
 * Owns: nothing.
 * Refuses: by giving up: signed integers (vLLM up to 0.10.1), values that are no hash, two encodings in one list.
 * Does not do: hold hashes against each other (the events do).
 */
import {
  type BlockHash,
  integerHashAt,
  LIMITS,
  parseByteHash,
  parseIntegerHash,
} from "@kv-group-bridge/protocol";
import type { FastCursor } from "./fast-read-cursor.ts";

/** The encoding of a hash; "none": there is none. */
type Encoding = "none" | "integer" | "bytes";

/** Reads hashes of one payload. */
export class FastHashes {
  private readonly cursor: FastCursor;
  private readonly digestBytes: number;
  /** Of the hash that was read last. */
  encoding: Encoding = "none";

  constructor(cursor: FastCursor, digestBytes: number) {
    this.cursor = cursor;
    this.digestBytes = digestBytes;
  }

  /** One hash; undefined after giving up. */
  one(): BlockHash | undefined {
    const { cursor } = this;
    const head = cursor.peek();
    if (head === 0xcf) {
      const at = cursor.at + 1;
      this.encoding = "integer";
      cursor.moveTo(at + 8);
      return cursor.isLost ? undefined : integerHashAt(cursor.bytes, at);
    }
    if (head === 0xc4 || head === 0xc5) return this.digest(head);
    this.encoding = "integer";
    const value = cursor.uint32();
    return cursor.isLost ? undefined : parseIntegerHash(value);
  }

  /** A list of hashes of one encoding, which is `encoding` then ("none" when it is empty). */
  list(): readonly BlockHash[] {
    const { cursor } = this;
    const count = cursor.listHeader();
    const hashes: BlockHash[] = [];
    let encoding: Encoding = "none";
    if (count > LIMITS.hashesPerEvent.value) cursor.giveUp();
    for (let i = 0; i < count && !cursor.isLost; i++) {
      const hash = this.one();
      if (i === 0) encoding = this.encoding;
      if (hash === undefined || this.encoding !== encoding) cursor.giveUp();
      else hashes.push(hash);
    }
    this.encoding = encoding;
    return hashes;
  }

  private digest(head: number): BlockHash | undefined {
    const { cursor, digestBytes } = this;
    const isShort = head === 0xc4;
    const size = isShort ? (cursor.bytes[cursor.at + 1] ?? 0) : cursor.uint16At(cursor.at + 1);
    const start = cursor.at + (isShort ? 2 : 3);
    const end = start + size;
    this.encoding = "bytes";
    cursor.moveTo(end);
    if (cursor.isLost) return undefined;
    const maxBytes = LIMITS.hashBytes.value;
    return parseByteHash(cursor.bytes.subarray(start, end), { digestBytes, maxBytes });
  }
}
