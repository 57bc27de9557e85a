/**
 * What it is: the stage plain values → typed batch, each event judged alone.
 * Owns: the shape of the batch and the dispatch by tag.
 * Refuses: batches without a list of events, with too many of them, or with a rank that is none.
 * One bad event costs itself only.
 * Does not do: compare events with each other or with the past, count refusals, know which rank it
 * serves.
 */
import { isUint32, LIMITS, ok, type Refusal, type Result, refuse } from "@kv-group-bridge/protocol";
import type { HashOptions } from "./block-hashes.ts";
import { decodePayload, ODD_NAME } from "./decode.ts";
import { type EventForm, isNamedMap, parseEventForm } from "./event-form.ts";
import { readFast } from "./fast-read.ts";
import { narrowInteger } from "./integers.ts";
import { validateClear, validateRemoval } from "./validate-removal.ts";
import { validateStore } from "./validate-store.ts";
import type { RefusedEvent, VllmBatch, VllmEvent } from "./vllm-event.ts";

/** How payloads are read. */
export interface DecodeOptions extends HashOptions {
  /** Called for each payload that the fast reader leaves to the general one. */
  readonly onReadSlowly?: (() => void) | undefined;
}

/** Longest tag that is passed on, in characters. */
const TAG_LENGTH = 64;

/**
 * Decodes and validates one payload. Refused with payload_too_large, payload_malformed, batch_shape
 * or too_many_events; anything less than that is in the batch, as a refused event or an unreadable
 * removal.
 */
export function decodeBatch(payload: Uint8Array, options: DecodeOptions = {}): Result<VllmBatch> {
  const batch = readFast(payload, options);
  if (batch !== undefined) return ok(batch);
  options.onReadSlowly?.();
  return decodeBatchSlowly(payload, options);
}

/** The same for every payload, without the fast reader: the judge of what that one gives. */
export function decodeBatchSlowly(
  payload: Uint8Array,
  options: HashOptions = {},
): Result<VllmBatch> {
  const decoded = decodePayload(payload);
  return decoded.ok ? validateBatch(decoded.value, options) : decoded;
}

/**
 * Validates one decoded batch: `[ts, events]` (0.9.0), `[ts, events, rank]` (from 0.9.1), longer
 * lists, or a map with `ts`, `events` and perhaps `data_parallel_rank`. An unusable timestamp is
 * undefined; nothing depends on it.
 */
export function validateBatch(value: unknown, options: HashOptions = {}): Result<VllmBatch> {
  const parts = batchParts(value);
  if (parts === undefined) return refuse("batch_shape", "batch");
  const { events } = parts;
  if (!Array.isArray(events)) return refuse("batch_shape", "batch.events");
  if (events.length > LIMITS.eventsPerBatch.value) return refuse("too_many_events", "batch.events");
  const rank = narrowInteger(parts.rank) ?? undefined;
  if (rank !== undefined && !isUint32(rank)) {
    return refuse("batch_shape", "batch.data_parallel_rank");
  }
  const validated: VllmEvent[] = [];
  for (let i = 0; i < events.length; i++) {
    validated.push(validateEvent(events[i], `events[${i}]`, options));
  }
  return ok({ timestampSeconds: parseTimestamp(parts.ts), dpRank: rank, events: validated });
}

interface BatchParts {
  readonly ts: unknown;
  readonly events: unknown;
  readonly rank: unknown;
}

function batchParts(value: unknown): BatchParts | undefined {
  if (Array.isArray(value)) {
    return value.length < 2 ? undefined : { ts: value[0], events: value[1], rank: value[2] };
  }
  if (!isNamedMap(value) || Object.hasOwn(value, ODD_NAME)) return undefined;
  return { ts: value["ts"], events: value["events"], rank: value["data_parallel_rank"] };
}

/** Seconds; integers are accepted. */
function parseTimestamp(ts: unknown): number | undefined {
  const seconds = typeof ts === "bigint" ? Number(ts) : ts;
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0
    ? seconds
    : undefined;
}

function validateEvent(value: unknown, path: string, options: HashOptions): VllmEvent {
  const form = parseEventForm(value, path);
  if (!form.ok) return refused(form.error);
  switch (form.value.tag) {
    case "BlockStored": {
      const store = validateStore(form.value, options);
      return store.ok ? store.value : refused(store.error);
    }
    case "BlockRemoved":
      return validateRemoval(form.value, options);
    case "AllBlocksCleared":
      return validateClear(form.value);
    default:
      return unknownEvent(form.value);
  }
}

function refused(refusal: Refusal): RefusedEvent {
  return { type: "refused", refusal, tag: undefined };
}

/** The tag goes to logs and metric labels: what is not printable there is replaced. */
function unknownEvent(form: EventForm): RefusedEvent {
  const tag = form.tag.slice(0, TAG_LENGTH).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?");
  return { type: "refused", refusal: { reason: "event_unknown", path: form.path }, tag };
}
