/**
 * What it is: the judge of a stream's start and of cursors, and the list of what a message can be
 * refused for.
 * Owns: nothing.
 * Refuses: starts of another rank, projection or key scheme, and such as this subscriber did not
 * ask for.
 * Does not do: apply.
 */
import { Projection, type Start } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type Cursor,
  type DpRank,
  type EngineDescription,
  engineDescriptionFromWire,
  isSameCursor,
  parseCursor,
} from "@kv-group-bridge/protocol";
import type { EventRefusal } from "./check-events.ts";

/**
 * Why a message was refused. Every one ends the stream; a new one brings a start and a snapshot.
 */
export type MessageRefusal =
  | EventRefusal
  | "start_missing"
  | "start_invalid"
  | "rank_differs"
  | "key_scheme_differs"
  | "engine_invalid"
  | "engine_changed"
  | "chunk_misplaced"
  | "batch_invalid"
  | "epoch_differs"
  | "sequence_gap"
  | "cursor_behind";

/** The subscriber's own key scheme; see kvgroup.v1.KeyScheme. */
export interface ExpectedKeyScheme {
  readonly id: string;
  readonly checkValue: Uint8Array;
}

/** What a start must agree with. */
export interface ExpectedStart {
  readonly dpRank: DpRank;
  readonly keyScheme: ExpectedKeyScheme;
}

/** What a sound start says. `engine` undefined = nothing is known of it yet. */
export interface CheckedStart {
  readonly cursor: Cursor;
  readonly engine: EngineDescription | undefined;
}

/**
 * The start's contents, or why it is refused. `asked` is the cursor from which this stream was asked
 * to go on; undefined = it was not, or its first start has come.
 */
export function checkStart(
  start: Start,
  expected: ExpectedStart,
  asked: Cursor | undefined,
): CheckedStart | MessageRefusal {
  if (start.dpRank !== expected.dpRank) return "rank_differs";
  const cursor = parseCursor(start.cursor);
  if (cursor === undefined) return "start_invalid";
  // A stream that goes on from elsewhere would leave out what is not here.
  if (start.isResumed && (asked === undefined || !isSameCursor(cursor, asked))) {
    return "start_invalid";
  }
  if (start.projection !== Projection.PREFIX_KEYS) return "start_invalid";
  if (!isScheme(start.keyScheme, expected.keyScheme)) return "key_scheme_differs";
  if (start.engine === undefined) return { cursor, engine: undefined };
  const engine = engineDescriptionFromWire(start.engine);
  return engine === undefined ? "engine_invalid" : { cursor, engine };
}

function isScheme(theirs: Start["keyScheme"], ours: ExpectedKeyScheme): boolean {
  if (theirs === undefined || theirs.id !== ours.id) return false;
  if (theirs.checkValue.length !== ours.checkValue.length) return false;
  return theirs.checkValue.every((byte, i) => byte === ours.checkValue[i]);
}
