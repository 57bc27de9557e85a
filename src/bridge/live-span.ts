/**
 * What it is: which numbers the live socket has brought since the publisher appeared.
 * Owns: the lowest and the highest of them.
 * Refuses: nothing.
 * Does not do: keep batches.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";

/** One a gate. */
export class LiveSpan {
  private bottom: SequenceNumber | undefined = undefined;
  private top: SequenceNumber | undefined = undefined;

  /** The live socket has brought this number. */
  add(sequence: SequenceNumber): void {
    if (this.bottom === undefined || sequence < this.bottom) this.bottom = sequence;
    if (this.top === undefined || sequence > this.top) this.top = sequence;
  }

  /** Nothing of what came counts any more. */
  forget(): void {
    this.bottom = undefined;
    this.top = undefined;
  }

  /** The number lies between the lowest and the highest. */
  includes(sequence: SequenceNumber): boolean {
    const { bottom, top } = this;
    return bottom !== undefined && top !== undefined && sequence >= bottom && sequence <= top;
  }

  /** A higher number has come, or this one. */
  reaches(sequence: SequenceNumber): boolean {
    return this.top !== undefined && this.top >= sequence;
  }

  /** Something has come, and nothing above `last`. */
  isBelow(last: SequenceNumber | undefined): boolean {
    return this.top !== undefined && last !== undefined && this.top <= last;
  }
}
