/**
 * What it is: batches that arrived before those that come first, kept until the gap before them is filled.
 * Owns: copies of their payloads, bounded in number and bytes.
 * Refuses: a batch beyond a bound: the newest is dropped and counted, because the engine's replay buffer still has
 * it; `top` remembers that it was seen.
 * Does not do: judge order, or ask for anything.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { GateBatch } from "./gate-step.ts";
import type { Likeness } from "./payload-digests.ts";

/** Both bounds. */
export interface HeldLimits {
  readonly batches: number;
  readonly bytes: number;
}

interface Held {
  readonly batch: GateBatch;
  /** Number of the replay request that was the last one made when it arrived live; OF_REPLAY for others. */
  era: number;
}

/** In place of an era: the batch came with a reply. */
export const OF_REPLAY = Number.POSITIVE_INFINITY;

/** Batches of one publisher, by number. */
export class HeldBatches {
  private readonly limits: HeldLimits;
  private readonly held = new Map<SequenceNumber, Held>();
  private bytes = 0;
  private topEra = 0;
  private topSequence: SequenceNumber | undefined = undefined;
  private droppedCount = 0;

  constructor(limits: HeldLimits) {
    this.limits = limits;
  }

  /** The highest number seen since `clear`, held or dropped. */
  get top(): SequenceNumber | undefined {
    return this.topSequence;
  }

  /** Batches held. */
  get count(): number {
    return this.held.size;
  }

  /** Bytes of their payloads. */
  get sizeBytes(): number {
    return this.bytes;
  }

  /** Batches dropped at a bound since the begin. */
  get dropped(): number {
    return this.droppedCount;
  }

  /** Whether a payload held under `sequence` is this one. */
  compare(batch: GateBatch): Likeness {
    const known = this.held.get(batch.sequence)?.batch;
    if (known === undefined) return "unknown";
    return known.digest === batch.digest ? "equal" : "differs";
  }

  /** Keeps a copy; `era` is the number of the last replay request made, or OF_REPLAY. */
  add(batch: GateBatch, era: number): void {
    this.seen(batch.sequence, era);
    const known = this.held.get(batch.sequence);
    if (known !== undefined) {
      if (era === OF_REPLAY) known.era = era;
      return;
    }
    const { limits } = this;
    if (this.held.size >= limits.batches || this.bytes + batch.payload.length > limits.bytes) {
      this.droppedCount += 1;
      return;
    }
    this.held.set(batch.sequence, { batch: { ...batch, payload: batch.payload.slice() }, era });
    this.bytes += batch.payload.length;
  }

  /** This number is known to be published, though nothing is held under it. */
  noteSeen(sequence: SequenceNumber): void {
    this.seen(sequence, OF_REPLAY);
  }

  /** Takes the batch with this number out. */
  take(sequence: SequenceNumber): GateBatch | undefined {
    const held = this.held.get(sequence);
    if (held === undefined) return undefined;
    this.held.delete(sequence);
    this.bytes -= held.batch.payload.length;
    return held.batch;
  }

  /** The lowest number held. Linear in what is held; asked once a gap. */
  lowest(): SequenceNumber | undefined {
    let lowest: SequenceNumber | undefined;
    for (const sequence of this.held.keys()) {
      if (lowest === undefined || sequence < lowest) lowest = sequence;
    }
    return lowest;
  }

  /** True when `dropForeign` would drop something. */
  hasForeign(era: number, last: SequenceNumber | undefined): boolean {
    for (const [sequence, held] of this.held)
      if (isForeign(sequence, held.era, era, last)) return true;
    return isForeign(this.topSequence, this.topEra, era, last);
  }

  /**
   * Drops what arrived before request `era` was made and lies beyond `last`, where the complete answer to that
   * request ended: the engine that answered never published it. Gives how many.
   */
  dropForeign(era: number, last: SequenceNumber | undefined): number {
    let dropped = 0;
    for (const [sequence, held] of this.held) {
      if (!isForeign(sequence, held.era, era, last)) continue;
      this.take(sequence);
      dropped += 1;
    }
    if (!isForeign(this.topSequence, this.topEra, era, last)) return dropped;
    this.topSequence = undefined;
    for (const [sequence, held] of this.held) this.seen(sequence, held.era);
    return Math.max(dropped, 1);
  }

  /** Drops what came live; gives whether there was any. */
  dropLive(): boolean {
    let hasLive = false;
    for (const [sequence, { era }] of this.held) {
      if (era === OF_REPLAY) continue;
      this.take(sequence);
      hasLive = true;
    }
    return hasLive;
  }

  /** Forgets all. */
  clear(): void {
    this.held.clear();
    this.bytes = 0;
    this.topSequence = undefined;
    this.topEra = 0;
  }

  /** Recomputes the account. */
  audit(): void {
    let bytes = 0;
    for (const { batch } of this.held.values()) bytes += batch.payload.length;
    invariant(bytes === this.bytes, "held bytes are counted");
    invariant(this.held.size <= this.limits.batches, "held batches are bounded");
    invariant(bytes <= this.limits.bytes, "held bytes are bounded");
  }

  private seen(sequence: SequenceNumber, era: number): void {
    if (this.topSequence !== undefined && sequence <= this.topSequence) return;
    this.topSequence = sequence;
    this.topEra = era;
  }
}

/** It came live before request `era`, and lies beyond `last`. */
function isForeign(
  sequence: SequenceNumber | undefined,
  arrived: number,
  era: number,
  last: SequenceNumber | undefined,
): boolean {
  return sequence !== undefined && arrived < era && (last === undefined || sequence > last);
}
