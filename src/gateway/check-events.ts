/**
 * What it is: the judge of a message's events, before any of them is applied.
 * Owns: nothing.
 * Refuses: what breaks kvgroup/v1/event.proto, by a reason from a closed list.
 * Does not do: apply.
 */
import {
  type KvGroupEvent,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { MAX_POSITION_TOKENS } from "@kv-group-bridge/prefix-index";
import { LIMITS } from "@kv-group-bridge/protocol";
import type { MediumNames } from "./media.ts";

/** Bytes of a prefix key on the wire. */
export const KEY_BYTES = 8;

/** Why an event cannot be read. */
export type EventRefusal =
  | "keys_invalid"
  | "too_many_keys"
  | "end_invalid"
  | "block_size_invalid"
  | "parent_invalid"
  | "medium_invalid"
  | "operation_misplaced";

/** `unknown_operation`: readable, but it cannot be told what was lost. */
export type EventsVerdict = "sound" | "unknown_operation" | EventRefusal;

/** Judges events of a batch, or of a snapshot (which has STOREs only). */
export function checkEvents(events: readonly KvGroupEvent[], isSnapshot: boolean): EventsVerdict {
  let verdict: EventsVerdict = "sound";
  for (const event of events) {
    switch (event.operation) {
      case Operation.STORE: {
        const refusal = checkStore(event) ?? checkNames(event);
        if (refusal !== undefined) return refusal;
        break;
      }
      case Operation.REMOVE: {
        if (isSnapshot) return "operation_misplaced";
        const refusal = checkKeys(event.prefixKeys) ?? checkNames(event);
        if (refusal !== undefined) return refusal;
        break;
      }
      case Operation.CLEAR: {
        if (isSnapshot) return "operation_misplaced";
        const refusal = checkNames(event);
        if (refusal !== undefined) return refusal;
        break;
      }
      default:
        verdict = "unknown_operation";
    }
  }
  return verdict;
}

/** Judges a list of keys, of whatever kind. */
export function checkKeys(keys: Uint8Array): EventRefusal | undefined {
  const bytes = keys.length;
  if (bytes % KEY_BYTES !== 0) return "keys_invalid";
  return bytes / KEY_BYTES > LIMITS.hashesPerEvent.value ? "too_many_keys" : undefined;
}

function checkStore(event: KvGroupEvent): EventRefusal | undefined {
  const refusal = checkKeys(event.prefixKeys);
  if (refusal !== undefined) return refusal;
  const parentBytes = event.parentPrefixKey.length;
  if (parentBytes !== 0 && parentBytes !== KEY_BYTES) return "parent_invalid";
  if (event.blockSize < 1 || event.blockSize > MAX_POSITION_TOKENS) return "block_size_invalid";
  const keys = event.prefixKeys.length / KEY_BYTES;
  const lastEnd = event.endTokens + Math.max(0, keys - 1) * event.blockSize;
  return event.endTokens < 1 || lastEnd > MAX_POSITION_TOKENS ? "end_invalid" : undefined;
}

/** Judges the names of a medium. */
export function checkNames({ medium, locality, ownership }: MediumNames): EventRefusal | undefined {
  const most = LIMITS.textBytes.value;
  const isShort = medium.length <= most && locality.length <= most && ownership.length <= most;
  return isShort ? undefined : "medium_invalid";
}
