/**
 * What it is: what one publisher has delivered in the present epoch, and what is held until its turn comes.
 * Owns: the last number, digests of the last payloads, the held batches.
 * Invariants: in an epoch numbers are delivered without a hole, each once.
 * Refuses: nothing.
 * Does not do: decide when to wait, to ask or to give up (the gate does).
 */
import {
  FIRST_SEQUENCE,
  LIMITS,
  type SequenceNumber,
  successorOf,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { EpochEnd, GateBatch, GateMemory, GateOptions, GateOutput } from "./gate-step.ts";
import { HeldBatches } from "./held-batches.ts";
import { type Likeness, PayloadDigests } from "./payload-digests.ts";

/** One a gate. Outputs go to `emit` in order. */
export class DeliveryOrder {
  readonly held: HeldBatches;
  readonly canReplay: boolean;
  private readonly digests: PayloadDigests;
  private readonly emit: (output: GateOutput) => void;
  private lastSequence: SequenceNumber | undefined = undefined;
  /** The first one delivered in this epoch; undefined = none, or an earlier process delivered it. */
  private firstSequence: SequenceNumber | undefined = undefined;
  /**
   * The live socket has shown, since it was connected, that it leads to the process whose batches were delivered.
   * Until then nothing held is delivered behind a replayed batch: during a replacement behind one address the two
   * sockets may lead to two processes.
   */
  isTied: boolean;
  /** The next batch may have any number: nothing before it can be had. */
  private acceptsAny: boolean;
  /** Nothing was delivered of the present process, so nothing is known of it. */
  private isBlank = true;

  constructor(
    options: GateOptions,
    memory: GateMemory | undefined,
    emit: (output: GateOutput) => void,
  ) {
    this.canReplay = options.canReplay;
    this.acceptsAny = !options.canReplay;
    this.isTied = !options.canReplay;
    this.emit = emit;
    this.digests = new PayloadDigests(options.digests ?? LIMITS.duplicateDigests.value);
    this.held = new HeldBatches({
      batches: options.heldBatches ?? LIMITS.heldBatches.value,
      bytes: options.heldBytes ?? LIMITS.heldBytes.value,
    });
    if (memory === undefined) return;
    for (const [sequence, digest] of memory.digests) this.digests.add(sequence, digest);
    this.lastSequence = memory.last;
    this.isBlank = false;
  }

  /** The last batch delivered in this epoch. */
  get last(): SequenceNumber | undefined {
    return this.lastSequence;
  }

  /** The number that comes next; 0 before the first, because vLLM numbers from 0. */
  get expected(): SequenceNumber {
    return this.lastSequence === undefined ? FIRST_SEQUENCE : successorOf(this.lastSequence);
  }

  /** Something is known to be published that was not delivered. */
  get hasHole(): boolean {
    return this.held.top !== undefined && this.held.top >= this.expected;
  }

  /** True for a number that an earlier batch of this epoch has, or had. */
  isPast(sequence: SequenceNumber): boolean {
    const last = this.lastSequence;
    return last !== undefined && sequence <= last && !this.acceptsAny;
  }

  /** True when nothing was delivered, and nothing is held from before this number. */
  canBegin(sequence: SequenceNumber): boolean {
    if (this.lastSequence !== undefined) return false;
    const lowest = this.held.lowest();
    return lowest === undefined || lowest >= sequence;
  }

  /** True when the batch can be delivered now. */
  isNext(sequence: SequenceNumber): boolean {
    return sequence === this.expected || this.acceptsAny;
  }

  /** Compares a batch of the past with what was delivered under its number. */
  comparePast(batch: GateBatch): Likeness {
    return this.digests.compare(batch.sequence, batch.digest);
  }

  /** Compares a batch with what was delivered or is held under its number. */
  compare(batch: GateBatch): Likeness {
    const likeness = this.comparePast(batch);
    return likeness === "unknown" ? this.held.compare(batch) : likeness;
  }

  /** True when something was delivered in this epoch, and its first number is above this one. */
  beginsAfter(sequence: SequenceNumber): boolean {
    return this.firstSequence !== undefined && this.firstSequence > sequence;
  }

  /** Ends the epoch if this is older than its first batch, and so can be had after all; gives whether it did. */
  beginAgainBefore(sequence: SequenceNumber): boolean {
    const last = this.lastSequence;
    if (last === undefined || !this.beginsAfter(sequence)) return false;
    this.endEpoch("lost");
    // What was delivered is known to be published: until it is delivered again there is a hole.
    this.held.noteSeen(last);
    this.digests.clear();
    this.untie();
    return true;
  }

  /** Delivers a batch, and what is held behind it. */
  deliver(batch: GateBatch): void {
    this.deliverOne(batch);
    this.drain();
  }

  /** Delivers what is held and comes next, once the live socket is tied. */
  drain(): void {
    while (this.isTied) {
      const batch = this.held.take(this.expected);
      if (batch === undefined) return;
      this.deliverOne(batch);
    }
  }

  /**
   * Delivers everything held, each hole as a loss; then the next batch may have any number if there was none. Gives
   * whether something that came live was dropped: behind replayed batches it must be tied first.
   */
  flush(hasReplayed: boolean): boolean {
    const hasDropped = hasReplayed && !this.isTied && this.held.dropLive();
    if (!hasReplayed) this.isTied = true;
    // Asking would not help, so whatever comes first begins.
    this.acceptsAny = this.lastSequence === undefined;
    for (let next = this.held.lowest(); next !== undefined; next = this.held.lowest()) {
      const batch = this.held.take(next);
      invariant(batch !== undefined, "the lowest batch is held");
      if (this.lastSequence !== undefined && next !== this.expected) {
        this.endEpoch("lost", next - this.expected);
      }
      this.deliver(batch);
    }
    return hasDropped;
  }

  /**
   * Ends the epoch if anything was delivered in it. `missing`: batches known to be lost. Another process is told after
   * a loss too, even if nothing came since: what a loss leaves is of the old one.
   */
  endEpoch(end: EpochEnd, missing = 0n): void {
    const hasRest = end !== "lost" && !this.isBlank;
    if (this.lastSequence !== undefined || hasRest) this.emit({ type: "epoch", end, missing });
    if (end !== "lost") this.isBlank = true;
    this.lastSequence = undefined;
    this.firstSequence = undefined;
    this.acceptsAny = end === "lost" || !this.canReplay;
    if (end === "lost") return;
    this.digests.clear();
    this.untie();
  }

  /** The live socket may lead to another process from here on. */
  untie(): void {
    this.isTied = !this.canReplay;
  }

  /** What a later process needs; undefined before the first batch of an epoch. */
  memory(): GateMemory | undefined {
    if (this.lastSequence === undefined) return undefined;
    return { last: this.lastSequence, digests: this.digests.entries() };
  }

  private deliverOne(batch: GateBatch): void {
    this.acceptsAny = false;
    this.isBlank = false;
    if (this.lastSequence === undefined) this.firstSequence = batch.sequence;
    this.lastSequence = batch.sequence;
    this.digests.add(batch.sequence, batch.digest);
    this.emit({ type: "deliver", batch });
  }
}
