/**
 * What it is: bytes → typed batch in one step, for what vLLM's publisher sends day by day.
 * Owns: the promise that what it gives is what decode and validate give for the same bytes; a test holds both against
 * each other.
 * Invariants: it keeps nothing of a payload but small texts that come again and again (fast-read-texts.ts).
 * Refuses: nothing. What it does not know with certainty, and everything that would be refused or noted, it leaves to
 * the other reader, the whole batch with it: refusals and their reasons are that one's alone.
 * Does not do: read the oldest hashes (signed integers), odd encodings or maps for batches.
 */
import { LIMITS } from "@kv-group-bridge/protocol";
import { DEFAULT_DIGEST_BYTES, type HashOptions } from "./block-hashes.ts";
import { FastCursor } from "./fast-read-cursor.ts";
import { FastHashes } from "./fast-read-hashes.ts";
import { FIELD, REMOVAL_POSITIONS, readFieldName, STORE_POSITIONS } from "./fast-read-names.ts";
import { FastRemoval } from "./fast-read-removal.ts";
import { FastStore } from "./fast-read-store.ts";
import { MAX_CONTAINERS } from "./prescan.ts";
import type { VllmBatch, VllmEvent } from "./vllm-event.ts";

/** A payload up to this size cannot hold more lists, maps, values or tokens than the other reader takes. */
const MAX_BYTES = Math.min(MAX_CONTAINERS, LIMITS.payloadBytes.value);

/** Reads one payload; undefined = the other reader must. */
export function readFast(payload: Uint8Array, options: HashOptions): VllmBatch | undefined {
  if (payload.length > MAX_BYTES) return undefined;
  const cursor = new FastCursor(payload);
  const parts = cursor.listHeader();
  if (parts !== 2 && parts !== 3) return undefined;
  const timestampSeconds = cursor.double();
  if (!(Number.isFinite(timestampSeconds) && timestampSeconds >= 0)) return undefined;
  const hashes = new FastHashes(cursor, options.digestBytes ?? DEFAULT_DIGEST_BYTES);
  const events = readEvents(cursor, hashes);
  if (events === undefined) return undefined;
  const dpRank = parts === 2 || cursor.takeNil() ? undefined : cursor.uint32();
  if (cursor.isLost || cursor.at !== cursor.size) return undefined;
  return { timestampSeconds, dpRank, events };
}

function readEvents(cursor: FastCursor, hashes: FastHashes): readonly VllmEvent[] | undefined {
  const count = cursor.listHeader();
  if (count > LIMITS.eventsPerBatch.value) return undefined;
  const events: VllmEvent[] = [];
  for (let i = 0; i < count; i++) {
    const event = readEvent(cursor, hashes);
    if (event === undefined) return undefined;
    events.push(event);
  }
  return events;
}

/** Reads either form. */
function readEvent(cursor: FastCursor, hashes: FastHashes): VllmEvent | undefined {
  const isMap = cursor.isAtMap;
  const count = isMap ? cursor.mapHeader() : cursor.listHeader();
  if (count === 0 || (isMap && readFieldName(cursor) !== FIELD.type)) return undefined;
  switch (cursor.name()) {
    case "BlockStored": {
      const store = new FastStore(cursor, hashes);
      return store.finish(readFields(cursor, store, { count, isMap, positions: STORE_POSITIONS }));
    }
    case "BlockRemoved": {
      const removal = new FastRemoval(cursor, hashes);
      const form = { count, isMap, positions: REMOVAL_POSITIONS };
      return removal.finish(readFields(cursor, removal, form));
    }
    case "AllBlocksCleared":
      if (count !== 1 || cursor.isLost) return undefined;
      return { type: "cleared", groupId: undefined, medium: undefined };
    default:
      return undefined;
  }
}

interface EventForm {
  /** Fields, the tag included. */
  readonly count: number;
  readonly isMap: boolean;
  /** Which field stands where in a list. */
  readonly positions: readonly number[];
}

/** Reads all fields after the tag; gives a bit for each, or gives up at an unknown one or at one that comes twice. */
function readFields(
  cursor: FastCursor,
  event: { read(field: number): void },
  { count, isMap, positions }: EventForm,
): number {
  let seen = 1 << FIELD.type;
  for (let i = 1; i < count && !cursor.isLost; i++) {
    const field = isMap ? readFieldName(cursor) : (positions[i] ?? FIELD.type);
    const bit = 1 << field;
    if ((seen & bit) === 0) event.read(field);
    else cursor.giveUp();
    seen |= bit;
  }
  return seen;
}
