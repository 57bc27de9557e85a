/**
 * What it is: short ways from wire values to validated events, for tests of the decoding stages.
 * Owns: nothing.
 * Refuses: by throwing: a test that expects a store gets one or fails.
 * Does not do: assert what an event says.
 */
import type { BlockHash, Result } from "@kv-group-bridge/protocol";
import { parseByteHash, parseIntegerHash } from "@kv-group-bridge/protocol";
import { decodeBatch } from "../../src/bridge/dist/validate.js";
import type { StoreEvent, VllmBatch, VllmEvent } from "../../src/bridge/dist/vllm-event.js";
import { readBoth } from "./both-readers.ts";
import { batchOf, encodeWire } from "./wire-builder.ts";

/** The value of a good result; throws with the reason otherwise. */
export function unwrap<T>(result: Result<T>): T {
  if (!result.ok) throw new TypeError(`refused: ${result.error.reason} at ${result.error.path}`);
  return result.value;
}

/** Decodes a batch value through bytes; both readers must agree. */
export function decodeValue(batch: unknown): Result<VllmBatch> {
  const payload = encodeWire(batch);
  readBoth(payload);
  return decodeBatch(payload);
}

/** The events of a batch of these. */
export function eventsOf(...events: readonly unknown[]): readonly VllmEvent[] {
  return unwrap(decodeValue(batchOf(...events))).events;
}

/** The only event of a batch. */
export function eventOf(event: unknown): VllmEvent {
  const [first] = eventsOf(event);
  if (first === undefined) throw new TypeError("a batch of one event has one");
  return first;
}

/** The store that `event` is; throws when it is refused. */
export function storeOf(event: unknown): StoreEvent {
  const store = eventOf(event);
  if (store.type !== "stored") throw new TypeError(`not a store: ${JSON.stringify(store)}`);
  return store;
}

/** Reason of a refused event or unreadable removal; "" for a good one. */
export function reasonOf(event: VllmEvent): string {
  return "refusal" in event ? event.refusal.reason : "";
}

/** Reason and path together, as "reason at path". */
export function refusalOf(event: VllmEvent): string {
  return "refusal" in event ? `${event.refusal.reason} at ${event.refusal.path}` : "";
}

/** The identity of an integer hash. */
export function integerHash(value: number | bigint): BlockHash {
  const hash = parseIntegerHash(value);
  if (hash === undefined) throw new RangeError("no hash");
  return hash;
}

/** The identity of a byte hash of 32-byte digests. */
export function byteHash(bytes: Uint8Array): BlockHash {
  const hash = parseByteHash(bytes, { digestBytes: 32, maxBytes: 2048 });
  if (hash === undefined) throw new RangeError("no hash");
  return hash;
}
