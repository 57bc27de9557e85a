/**
 * What it is: what a rank said last in the present epoch, for subscribers that come back.
 * Owns: the kept items, in the order in which they were said, and the account of their bytes.
 * Invariants: neither bound is exceeded; from the cursor `base` on nothing is missing.
 * Refuses: nothing; at a bound the oldest items leave, whole batches at a time.
 * Does not do: judge instances and epochs (the fan-out does), or keep engine descriptions (a start
 * has the present one).
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { FieldItem } from "./field-item.ts";

/** One output as it was sent; `engine` undefined = the ENGINE projection is not allowed. */
export interface RingItem {
  readonly key: FieldItem;
  readonly engine: FieldItem | undefined;
}

/** Bounds of a ring. */
export interface ResumeRingOptions {
  readonly maxBytes: number;
  readonly maxBatches: number;
  /** The cursor's number at which this process began; undefined = at the begin of an epoch. */
  readonly begin?: SequenceNumber | undefined;
}

/** Charged for each item beside its bytes, and for each framed message of it: as measured. */
export const RING_ITEM_OVERHEAD_BYTES = 320;
export const RING_MESSAGE_OVERHEAD_BYTES = 256;

/** `after`: a batch's own number; of a withdrawal that of the batch before it. */
interface Entry extends RingItem {
  readonly after: SequenceNumber | undefined;
  readonly isBatch: boolean;
  readonly sizeBytes: number;
}

/** A rank's recent past. */
export class ResumeRing {
  private readonly options: ResumeRingOptions;
  private entries: Entry[] = [];
  /** Index of the oldest entry that is kept. */
  private head = 0;
  private sizeBytes = 0;
  private batchCount = 0;
  /** Everything after this number is kept; undefined = everything of the epoch. */
  private base: SequenceNumber | undefined;
  /** The number of the last batch, kept or not. */
  private last: SequenceNumber | undefined;
  /** A withdrawal left after the last batch: nobody can go on before the next one. */
  private isBroken = false;

  constructor(options: ResumeRingOptions) {
    invariant(options.maxBytes >= 0 && options.maxBatches >= 0, "bounds are not negative");
    this.options = options;
    this.base = options.begin;
    this.last = options.begin;
  }

  /** Bytes kept, with the overhead of each item. */
  get bytes(): number {
    return this.sizeBytes;
  }

  /** Batches kept. */
  get batches(): number {
    return this.batchCount;
  }

  /** The next batch. */
  pushBatch(sequence: SequenceNumber, item: RingItem): void {
    this.last = sequence;
    if (this.isBroken) {
      // What was lost belongs before this batch: who has it lacks nothing.
      this.isBroken = false;
      this.base = sequence;
      return;
    }
    this.batchCount++;
    this.push({ ...item, after: sequence, isBatch: true, sizeBytes: sizeOf(item) });
  }

  /** A withdrawal: it is for all who have no later batch. */
  pushWithdrawal(item: RingItem): void {
    if (this.isBroken) return;
    this.push({ ...item, after: this.last, isBatch: false, sizeBytes: sizeOf(item) });
  }

  /** A new epoch: what was said before is void, and nothing of the new one is missing. */
  beginEpoch(): void {
    this.clear();
    this.isBroken = false;
    this.base = undefined;
    this.last = undefined;
  }

  /**
   * What was said after the batch `sequence` (undefined = since the epoch began), in order;
   * undefined = not all of it is there, or there was no such batch.
   */
  since(sequence: SequenceNumber | undefined): readonly RingItem[] | undefined {
    if (this.isBroken) return undefined;
    if (sequence === this.base) return this.entries.slice(this.head);
    if (sequence === undefined) return undefined;
    const index = this.firstAt(sequence);
    const entry = this.entries[index];
    if (entry === undefined || !entry.isBatch || entry.after !== sequence) return undefined;
    return this.entries.slice(index + 1);
  }

  /** Recomputes the accounts. */
  audit(): void {
    const kept = this.entries.slice(this.head);
    const bytes = kept.reduce((sum, entry) => sum + entry.sizeBytes, 0);
    invariant(bytes === this.sizeBytes, "the bytes are those of what is kept");
    invariant(kept.filter((entry) => entry.isBatch).length === this.batchCount, "batches count");
    invariant(bytes <= this.options.maxBytes, "bytes are bounded");
    invariant(this.batchCount <= this.options.maxBatches, "batches are bounded");
    invariant(!this.isBroken || kept.length === 0, "a broken ring is empty");
  }

  private push(entry: Entry): void {
    this.entries.push(entry);
    this.sizeBytes += entry.sizeBytes;
    while (this.isOver()) this.dropOldest();
    // Left places are given back when they are half of the array: constant cost on average.
    if (this.head * 2 < this.entries.length) return;
    this.entries = this.entries.slice(this.head);
    this.head = 0;
  }

  private isOver(): boolean {
    return this.sizeBytes > this.options.maxBytes || this.batchCount > this.options.maxBatches;
  }

  /** Up to and with the oldest batch: only after a batch can anybody go on. */
  private dropOldest(): void {
    for (let entry = this.take(); entry !== undefined; entry = this.take()) {
      if (!entry.isBatch) continue;
      this.base = entry.after;
      return;
    }
    this.isBroken = true;
  }

  private take(): Entry | undefined {
    const entry = this.entries[this.head];
    if (entry === undefined) return undefined;
    this.head++;
    this.sizeBytes -= entry.sizeBytes;
    if (entry.isBatch) this.batchCount--;
    return entry;
  }

  private clear(): void {
    this.entries = [];
    this.head = 0;
    this.sizeBytes = 0;
    this.batchCount = 0;
  }

  /** Index of the first entry said at or after the batch `sequence`. */
  private firstAt(sequence: SequenceNumber): number {
    let low = this.head;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const after = this.entries[middle]?.after;
      if (after === undefined || after < sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function sizeOf({ key, engine }: RingItem): number {
  const bytes = RING_ITEM_OVERHEAD_BYTES + messageBytes(key);
  // A withdrawal is one message for both projections.
  return engine === undefined || engine === key ? bytes : bytes + messageBytes(engine);
}

function messageBytes(message: FieldItem): number {
  return message.delimited.length + RING_MESSAGE_OVERHEAD_BYTES;
}
