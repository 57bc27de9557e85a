/**
 * What it is: a place in the history of one rank, and the only code that compares such places.
 * Owns: nothing.
 * Refuses: nothing; it answers.
 * Does not do: decide what to do about a gap (the sequence gate and the subscription do).
 */
import { type Epoch, parseEpoch, parseSequenceNumber, type SequenceNumber } from "./ids.ts";

/** `sequence` undefined = nothing of this epoch is contained yet. */
export interface Cursor {
  readonly epoch: Epoch;
  readonly sequence: SequenceNumber | undefined;
}

/** Where a subscriber that has a whole view would go on. */
export interface ResumePoint {
  /** The last cursor that it applied. */
  readonly cursor: Cursor;
  /** `Start.instance` of the stream that led there; never 0. */
  readonly instance: bigint;
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

/** A cursor of the wire; undefined when it is absent or has no epoch. */
export function parseCursor(
  wire: { readonly epoch: bigint; readonly sequenceNumber?: bigint | undefined } | undefined,
): Cursor | undefined {
  const epoch = wire === undefined ? undefined : parseEpoch(wire.epoch);
  if (wire === undefined || epoch === undefined) return undefined;
  if (wire.sequenceNumber === undefined) return { epoch, sequence: undefined };
  const sequence = parseSequenceNumber(wire.sequenceNumber);
  return sequence === undefined ? undefined : { epoch, sequence };
}

/** True when both name the same place. */
export function isSameCursor(a: Cursor, b: Cursor): boolean {
  return a.epoch === b.epoch && a.sequence === b.sequence;
}

/** True when a view at `applied` contains everything up to `target` of the same epoch. */
export function contains(applied: Cursor, target: Cursor): boolean {
  if (applied.epoch !== target.epoch) return false;
  if (target.sequence === undefined) return true;
  return applied.sequence !== undefined && applied.sequence >= target.sequence;
}
