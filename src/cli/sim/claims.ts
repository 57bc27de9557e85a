/**
 * What it is: which moment of the engines' history each cursor of each epoch stands for.
 * Owns: the record, made from what the bridges really applied.
 * Refuses: nothing.
 * Does not do: judge answers.
 */
import type { Moment } from "./true-answers.ts";

interface EpochRecord {
  readonly moments: Map<bigint, Moment>;
  last: Moment;
  /** When a batch of another process was applied in the same epoch; undefined = never. */
  mixedAtMs: number | undefined;
}

/** See the file header. */
export class Claims {
  private readonly epochs = new Map<bigint, EpochRecord>();

  /** A bridge applied a batch. Returns true when it was the first of another process in its epoch. */
  note(cursor: { epoch: bigint; sequence: bigint }, moment: Moment, nowMs: number): boolean {
    const record = this.epochs.get(cursor.epoch);
    if (record === undefined) {
      const moments = new Map([[cursor.sequence, moment]]);
      this.epochs.set(cursor.epoch, { moments, last: moment, mixedAtMs: undefined });
      return false;
    }
    const isMixed = record.last.process !== moment.process;
    if (isMixed) record.mixedAtMs ??= nowMs;
    record.last = moment;
    record.moments.set(cursor.sequence, moment);
    return isMixed;
  }

  /** What a view with this cursor claims to know; undefined = the record does not have it. */
  at(epoch: bigint, sequence: bigint): Moment | undefined {
    return this.epochs.get(epoch)?.moments.get(sequence);
  }

  /** Since when an epoch has batches of two processes. */
  mixedAtMs(epoch: bigint): number | undefined {
    return this.epochs.get(epoch)?.mixedAtMs;
  }
}
