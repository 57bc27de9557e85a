/**
 * What it is: the account of replay requests of one gate: the one in flight, what its reply has shown so far, and how
 * often the same range was asked.
 * Owns: those numbers.
 * Refuses: a second request while one is in flight (our bug).
 * Does not do: decide what follows from a reply (the gate does).
 */
import {
  FIRST_SEQUENCE,
  LIMITS,
  type SequenceNumber,
  sequenceBefore,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { DeliveryOrder } from "./delivery-order.ts";

/** A socket that never answered is not asked as often as one that did. */
const ATTEMPTS_WITHOUT_ANSWER = 2;

/** One a gate. */
export class ReplayAccount {
  private readonly maxAttempts: number;
  /** A request is in flight. */
  isOpen = false;
  /** The reply has shown the batch delivered last, or there was none to show: it is of the same engine. */
  isAnchored = false;
  /** Requests made since the begin; names the present one. */
  era = 0;
  /** Batches of the present reply. */
  batches = 0;
  /** The first number of the present reply. */
  bottom: SequenceNumber | undefined = undefined;
  /** The highest number in the present reply. */
  top: SequenceNumber | undefined = undefined;
  private hasHole = false;
  /** An epoch began without it: when it works again it may bring what is older. */
  isOwed = false;
  /** The socket has answered since it was last given up. */
  hasAnswered = false;
  private attempts = 0;
  private expected: SequenceNumber | undefined = undefined;

  constructor(maxAttempts: number) {
    this.maxAttempts = maxAttempts;
  }

  /**
   * Begins a request for what follows `last`; gives the number to ask from. Some batches that are known already
   * prove the engine: the last one alone might be the first of another engine, delivered before the loss of the
   * connection was told. `isReaching`: asks from the engine's first batch.
   */
  open(
    { last, expected }: Pick<DeliveryOrder, "last" | "expected">,
    isReaching = false,
  ): SequenceNumber {
    invariant(!this.isOpen, "one request at a time");
    this.isOpen = true;
    this.era += 1;
    this.batches = 0;
    this.bottom = undefined;
    this.top = undefined;
    this.hasHole = false;
    this.isAnchored = last === undefined;
    this.expected = isReaching ? FIRST_SEQUENCE : expected;
    if (last === undefined || isReaching) return FIRST_SEQUENCE;
    return sequenceBefore(last, LIMITS.replayOverlapBatches.value - 1);
  }

  /** A batch of the reply has come. */
  note(sequence: SequenceNumber): void {
    this.hasAnswered = true;
    this.batches += 1;
    if (this.top !== undefined && sequence !== this.top + 1n) this.hasHole = true;
    this.bottom ??= sequence;
    this.top = sequence;
  }

  /** The reply is over; `hasMarker`: with the engine's end marker. */
  close(hasMarker: boolean): void {
    this.isOpen = false;
    if (hasMarker) this.hasAnswered = true;
  }

  /** Too short for the engine's socket to have dropped something of it. */
  get isShort(): boolean {
    return this.batches < LIMITS.replayShortBatches.value;
  }

  /** Nothing of it can have been dropped: what it does not have, the engine has not published. */
  get isWhole(): boolean {
    return this.isShort && !this.hasHole;
  }

  /** The reply has brought something new. `expected`: the number that is missing now. */
  hasAdvanced(expected: SequenceNumber): boolean {
    return this.expected === undefined || expected > this.expected;
  }

  /**
   * What a reply tells in which the batch delivered last does not stand: the engine has published so much since that
   * it has forgotten that number, it never published it, or neither is sure.
   */
  verdict(last: SequenceNumber | undefined): "forgotten" | "never" | "unsure" {
    const { bottom, top } = this;
    if (bottom !== undefined && last !== undefined && bottom > last) return "forgotten";
    if (this.isWhole && (top === undefined || last === undefined || top < last)) return "never";
    return "unsure";
  }

  /** Another range is asked from now on. */
  beginRange(): void {
    this.attempts = 0;
  }

  /**
   * Milliseconds until the range may be asked again; undefined = it was asked often enough. `expected`: the next
   * number that is missing; a reply that moved it begins the count anew.
   */
  pauseMs(expected: SequenceNumber): number | undefined {
    if (this.expected !== undefined && this.hasAdvanced(expected)) this.attempts = 0;
    this.attempts += 1;
    const allowed = this.hasAnswered
      ? this.maxAttempts
      : Math.min(ATTEMPTS_WITHOUT_ANSWER, this.maxAttempts);
    if (this.attempts >= allowed) return undefined;
    const pauseMs = LIMITS.replayPauseMs.value * 2 ** (this.attempts - 1);
    return Math.min(pauseMs, LIMITS.replayPauseMaxMs.value);
  }
}
