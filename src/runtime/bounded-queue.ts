/**
 * What it is: a first-in-first-out queue with two bounds: items and bytes. Synchronous.
 * Owns: its items. Invariant: neither bound is ever exceeded; `sizeBytes` is the sum over what is
 * queued.
 * Refuses: an item that would pass a bound ("full"), also one that is larger than the queue when it
 * is empty.
 * Does not do: wait, drop, or decide what "full" means: that is the caller's policy.
 */
import { invariant } from "./invariant.ts";

/** Both bounds are part of the contract of who owns the queue. */
export interface QueueLimits {
  readonly maxItems: number;
  readonly maxBytes: number;
}

/** What became of an offer. */
export type Offer = "queued" | "full";

/** `T` excludes undefined, which means "empty". */
export class BoundedQueue<T extends NonNullable<unknown> | null> {
  private readonly maxItems: number;
  private readonly maxBytes: number;
  private items: (T | undefined)[] = [];
  private sizes: number[] = [];
  /** Index of the oldest item; what is before it has been taken. */
  private head = 0;
  private bytes = 0;

  constructor(limits: QueueLimits) {
    invariant(Number.isSafeInteger(limits.maxItems) && limits.maxItems > 0, "maxItems is positive");
    invariant(Number.isSafeInteger(limits.maxBytes) && limits.maxBytes > 0, "maxBytes is positive");
    this.maxItems = limits.maxItems;
    this.maxBytes = limits.maxBytes;
  }

  /** Items queued. */
  get itemCount(): number {
    return this.items.length - this.head;
  }

  /** Bytes queued, as told by `offer`. */
  get sizeBytes(): number {
    return this.bytes;
  }

  /** Queues `item` as the newest, or leaves everything as it was: "full". Size 0 is allowed. */
  offer(item: T, sizeBytes: number): Offer {
    invariant(
      Number.isSafeInteger(sizeBytes) && sizeBytes >= 0,
      "a size is a whole number of bytes",
    );
    if (this.itemCount >= this.maxItems || this.bytes + sizeBytes > this.maxBytes) return "full";
    this.items.push(item);
    this.sizes.push(sizeBytes);
    this.bytes += sizeBytes;
    return "queued";
  }

  /** The oldest item, which leaves the queue; undefined = empty. */
  take(): T | undefined {
    if (this.head === this.items.length) return undefined;
    const item = this.items[this.head];
    this.items[this.head] = undefined;
    this.bytes -= this.sizes[this.head] ?? 0;
    this.head += 1;
    invariant(this.bytes >= 0, "a queue owes no bytes");
    // Taken places are given back when they are half of the array: constant cost on average.
    if (this.head * 2 >= this.items.length) {
      this.items = this.items.slice(this.head);
      this.sizes = this.sizes.slice(this.head);
      this.head = 0;
    }
    return item;
  }

  /** Drops everything; returns how many items that were. */
  clear(): number {
    const count = this.itemCount;
    this.items = [];
    this.sizes = [];
    this.head = 0;
    this.bytes = 0;
    return count;
  }

  /**
   * Recomputes the invariants from the raw arrays; throws `InvariantViolation` if one is broken.
   */
  audit(): void {
    let bytes = 0;
    for (let i = this.head; i < this.sizes.length; i++) bytes += this.sizes[i] ?? 0;
    invariant(bytes === this.bytes, "sizeBytes is the sum of the sizes");
    invariant(this.items.length === this.sizes.length, "every item has a size");
    invariant(this.bytes <= this.maxBytes, "bytes are bounded");
    invariant(this.itemCount <= this.maxItems, "items are bounded");
    for (let i = 0; i < this.head; i++) {
      invariant(this.items[i] === undefined, "a taken item is not kept alive");
    }
  }
}
