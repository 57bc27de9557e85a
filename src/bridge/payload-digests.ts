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

/** Digests of one publisher. */
export class PayloadDigests {
  private readonly digests = new Map<SequenceNumber, string>();
  private readonly limit: number;
  private newest: SequenceNumber | undefined = undefined;
  /** The numbers in the order of their coming, over and over; the map's own iterator would step over all that it lost. */
  private readonly order: SequenceNumber[] = [];
  private next = 0;

  /** `limit`: how many are kept. */
  constructor(limit: number) {
    invariant(limit > 0, "at least one digest is kept");
    this.limit = limit;
  }

  /** Whether the payload delivered under `sequence` was this one. */
  compare(sequence: SequenceNumber, digest: string): Likeness {
    const known = this.digests.get(sequence);
    if (known === undefined) return "unknown";
    return known === digest ? "equal" : "differs";
  }

  /** Remembers a delivered payload. Numbers grow; one that does not is of another process, and what was known is void. */
  add(sequence: SequenceNumber, digest: string): void {
    if (this.newest !== undefined && sequence <= this.newest) this.clear();
    this.newest = sequence;
    const oldest = this.digests.size === this.limit ? this.order[this.next] : undefined;
    if (oldest !== undefined) this.digests.delete(oldest);
    this.order[this.next] = sequence;
    this.next = (this.next + 1) % this.limit;
    this.digests.set(sequence, digest);
  }

  /** Forgets all: another publisher begins. */
  clear(): void {
    this.digests.clear();
    this.order.length = 0;
    this.next = 0;
    this.newest = undefined;
  }

  /** Oldest first; for a checkpoint. */
  entries(): readonly (readonly [SequenceNumber, string])[] {
    return [...this.digests];
  }
}
