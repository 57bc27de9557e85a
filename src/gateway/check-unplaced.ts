/**
 * What it is: the judge of all that a batch or a snapshot piece holds: its events and its unplaced blocks.
 * Owns: nothing.
 * Refuses: what breaks kvgroup/v1/event.proto, by a reason from the list of check-events.ts.
 * Does not do: apply.
 */
import type { KvGroupEvent, UnplacedBlocks } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { MAX_POSITION_TOKENS } from "@kv-group-bridge/prefix-index";
import {
  checkEvents,
  checkKeys,
  checkNames,
  type EventRefusal,
  type EventsVerdict,
} from "./check-events.ts";

/** What one message changes; a snapshot piece has no `unplacedRemoved`. */
export interface MessageContents {
  readonly events: readonly KvGroupEvent[];
  readonly unplacedRemoved: readonly UnplacedBlocks[];
  readonly unplacedStored: readonly UnplacedBlocks[];
}

/** Judges a message as a whole. `unknown_operation` is said only of one that is sound otherwise. */
export function checkContents(contents: MessageContents, isSnapshot: boolean): EventsVerdict {
  const verdict = checkEvents(contents.events, isSnapshot);
  if (verdict !== "sound" && verdict !== "unknown_operation") return verdict;
  for (const blocks of contents.unplacedRemoved) {
    const refusal = checkKeys(blocks.hashKeys) ?? checkNames(blocks);
    if (refusal !== undefined) return refusal;
  }
  for (const blocks of contents.unplacedStored) {
    const refusal = checkKeys(blocks.hashKeys) ?? checkStored(blocks) ?? checkNames(blocks);
    if (refusal !== undefined) return refusal;
  }
  return verdict;
}

function checkStored(blocks: UnplacedBlocks): EventRefusal | undefined {
  if (blocks.tailKeys.length !== blocks.hashKeys.length) return "keys_invalid";
  const isSize = blocks.blockSize >= 1 && blocks.blockSize <= MAX_POSITION_TOKENS;
  return isSize ? undefined : "block_size_invalid";
}
