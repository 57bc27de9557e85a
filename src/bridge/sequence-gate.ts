/**
 * What it is: the judge of the order of live batches of one publisher.
 * Owns: the last sequence number and digests of the last payloads, which tell a repeated batch from a
 * restarted engine (block hashes cannot: vLLM's default hash seed is fixed).
 * Refuses: nothing; every input gets a decision.
 * Does not do: ask for replay. A gap is answered `lost`; the place where a replayed range will be awaited is
 * the branch that gives it.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { succession } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** What to do with a batch. */
export type GateDecision =
  /** Apply it. */
  | { readonly type: "deliver" }
  /** Drop it: the same bytes were applied before. */
  | { readonly type: "duplicate" }
  /** Batches before it are lost (`missing` of them): begin a new epoch, then apply it. */
  | { readonly type: "lost"; readonly missing: bigint }
  /** It comes from another engine process: begin a new epoch, then apply it. */
  | { readonly type: "restarted" };

/** One gate a rank. Every decision but "duplicate" moves the gate to the batch. */
export class SequenceGate {
  private lastSequence: SequenceNumber | undefined = undefined;
  private readonly digests = new Map<bigint, string>();
  private readonly digestLimit: number;

  /** `digestLimit`: how many payload digests are kept; older repeats are taken for a restart. */
  constructor(digestLimit: number) {
    invariant(digestLimit > 0, "a gate keeps at least one digest");
    this.digestLimit = digestLimit;
  }

  /** The last batch delivered; undefined before the first. */
  get last(): SequenceNumber | undefined {
    return this.lastSequence;
  }

  /** Judges a batch by its number and a digest of its payload. */
  step(sequence: SequenceNumber, digest: string): GateDecision {
    const order = succession(this.lastSequence, sequence);
    if (order === "repeat" || order === "older") {
      if (this.digests.get(sequence) === digest) return { type: "duplicate" };
      this.forget();
      this.accept(sequence, digest);
      return { type: "restarted" };
    }
    const missing =
      order === "gap" && this.lastSequence !== undefined ? sequence - this.lastSequence - 1n : 0n;
    this.accept(sequence, digest);
    return order === "gap" ? { type: "lost", missing } : { type: "deliver" };
  }

  /** The publisher is known to be another one: the next batch is a first one. */
  forget(): void {
    this.lastSequence = undefined;
    this.digests.clear();
  }

  private accept(sequence: SequenceNumber, digest: string): void {
    this.lastSequence = sequence;
    this.digests.set(sequence, digest);
    if (this.digests.size <= this.digestLimit) return;
    const oldest = this.digests.keys().next();
    if (oldest.done !== true) this.digests.delete(oldest.value);
    invariant(this.digests.size <= this.digestLimit, "the gate keeps a bounded number of digests");
  }
}
