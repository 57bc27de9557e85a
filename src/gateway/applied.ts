/**
 * What it is: what becomes of a message that a view takes.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: decide (rank-view.ts does).
 */
import type { MessageRefusal } from "./check-start.ts";
import type { MessageProgress } from "./subscription.ts";

/** How far a message led, or why it was refused. */
export type Applied =
  | { readonly ok: true; readonly value: MessageProgress }
  | { readonly ok: false; readonly error: MessageRefusal };

/** No further than the one before. */
export const NOTHING: Applied = { ok: true, value: "none" };
/** A start; a snapshot follows. */
export const STARTED: Applied = { ok: true, value: "started" };
/** A start that goes on. */
export const RESUMED: Applied = { ok: true, value: "resumed" };
/** The last piece of a snapshot. */
export const WHOLE: Applied = { ok: true, value: "snapshot_whole" };

/** Nothing of the message was applied. */
export function refuse(error: MessageRefusal): Applied {
  return { ok: false, error };
}
