/**
 * What it is: digests of the payloads delivered last, by sequence number: what tells a repeated batch from another
 * engine process (block hashes cannot: vLLM's default hash seed is fixed, but payloads differ at least in `ts`).
 * Owns: a bounded number of digests, the oldest goes first.
 * Refuses: nothing.
 * Does not do: compute digests or judge order.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** What is known of a payload under a number. */
export type Likeness = "equal" | "differs" | "unknown";

/** Digests of one publisher: a ring in which numbers ascend, because there is one for every batch. */
export class PayloadDigests {
  private readonly limit: number;
  private readonly sequences: SequenceNumber[] = [];
  private readonly digests: string[] = [];
  /** Where the oldest one stands; not 0 only in a full ring. */
  private first = 0;

  /** `limit`: how many are kept. */
  constructor(limit: number) {
    invariant(limit > 0, "at least one digest is kept");
    this.limit = limit;
  }

  /** Whether the payload delivered under `sequence` was this one. */
  compare(sequence: SequenceNumber, digest: string): Likeness {
    const at = this.find(sequence);
    if (at === undefined) return "unknown";
    return this.digests[at] === digest ? "equal" : "differs";
  }

  /** Remembers a delivered payload. Numbers grow; one that does not is of another process, and what was known is void. */
  add(sequence: SequenceNumber, digest: string): void {
    const newest = this.sequences[this.place(this.sequences.length - 1)];
    if (newest !== undefined && sequence <= newest) this.clear();
    const isFull = this.sequences.length === this.limit;
    const at = isFull ? this.first : this.sequences.length;
    this.sequences[at] = sequence;
    this.digests[at] = digest;
    if (isFull) this.first = (at + 1) % this.limit;
  }

  /** Forgets all: another publisher begins. */
  clear(): void {
    this.sequences.length = 0;
    this.digests.length = 0;
    this.first = 0;
  }

  /** Oldest first; for a checkpoint. */
  entries(): readonly (readonly [SequenceNumber, string])[] {
    return this.sequences.map((_, index) => {
      const at = this.place(index);
      const sequence = this.sequences[at];
      const digest = this.digests[at];
      invariant(sequence !== undefined && digest !== undefined, "a ring has no holes");
      return [sequence, digest] as const;
    });
  }

  /** Where the index-th oldest one stands. */
  private place(index: number): number {
    const at = this.first + index;
    return at >= this.limit ? at - this.limit : at;
  }

  private find(sequence: SequenceNumber): number | undefined {
    let low = 0;
    let high = this.sequences.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const at = this.place(middle);
      const found = this.sequences[at];
      if (found === undefined || found === sequence) return at;
      if (found < sequence) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }
}
