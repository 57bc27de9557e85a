/**
 * What it is: a place in the history of one rank, and the only code that compares such places.
 * Owns: nothing.
 * Refuses: nothing; it answers.
 * Does not do: decide what to do about a gap (the sequence gate and the subscription do).
 */
import type { Epoch, SequenceNumber } from "./ids.ts";

/** `sequence` undefined = nothing of this epoch is contained yet. */
export interface Cursor {
  readonly epoch: Epoch;
  readonly sequence: SequenceNumber | undefined;
}

/** How `next` follows `last` inside one history. */
export type Succession = "first" | "successor" | "repeat" | "older" | "gap";

/** Compares two sequence numbers of one history; `last` undefined = nothing seen yet. */
export function succession(last: SequenceNumber | undefined, next: SequenceNumber): Succession {
  if (last === undefined) return "first";
  if (next === last + 1n) return "successor";
  if (next === last) return "repeat";
  return next < last ? "older" : "gap";
}

/** True when a view at `applied` contains everything up to `target` of the same epoch. */
export function contains(applied: Cursor, target: Cursor): boolean {
  if (applied.epoch !== target.epoch) return false;
  if (target.sequence === undefined) return true;
  return applied.sequence !== undefined && applied.sequence >= target.sequence;
}
