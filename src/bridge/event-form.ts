/**
 * What it is: the two wire forms of an event (positional list up to vLLM 0.23, named map from 0.24)
 * read into one.
 * Owns: which position is which field, from 0.9.0 (6 elements) to 0.23.0 (12 elements).
 * Refuses: events that are neither list nor map, or have no tag.
 * Does not do: judge fields. A field that is missing at the end of a list is absent (undefined);
 * further elements and unknown names are left alone.
 */
import { ok, type Refusal, type Result, refuse } from "@kv-group-bridge/protocol";
import { ODD_NAME } from "./decode.ts";

/** The fields that we know, under vLLM's names. undefined = absent, null = nil. */
export interface EventFields {
  readonly block_hashes?: unknown;
  readonly parent_block_hash?: unknown;
  readonly token_ids?: unknown;
  readonly block_size?: unknown;
  readonly lora_id?: unknown;
  readonly medium?: unknown;
  readonly lora_name?: unknown;
  readonly extra_keys?: unknown;
  readonly group_idx?: unknown;
  readonly kv_cache_spec_kind?: unknown;
  readonly kv_cache_spec_sliding_window?: unknown;
  readonly locality?: unknown;
  readonly ownership?: unknown;
  readonly lookahead_token_ids?: unknown;
  readonly remaining_copy_counts?: unknown;
}

/** One event before its fields are judged. */
export interface EventForm {
  readonly tag: string;
  /** Where it stands, for refusals: "events[3]". */
  readonly path: string;
  readonly fields: EventFields;
  /** Set: absent fields may be there after all, so the event cannot be taken at its word. */
  readonly flaw: Refusal | undefined;
}

/** A decoded map: no list, no bytes. */
export function isNamedMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Uint8Array)
  );
}

/** Reads either form. Refused with event_shape or event_tag. */
export function parseEventForm(value: unknown, path: string): Result<EventForm> {
  if (Array.isArray(value)) return parseListForm(value, path);
  if (!isNamedMap(value)) return refuse("event_shape", path);
  const tag = value["type"];
  if (typeof tag !== "string") return refuse("event_tag", `${path}.type`);
  const isOdd = Object.hasOwn(value, ODD_NAME);
  const flaw: Refusal | undefined = isOdd ? { reason: "text_invalid", path } : undefined;
  return ok({ tag, path, fields: value as EventFields, flaw });
}

function parseListForm(list: readonly unknown[], path: string): Result<EventForm> {
  if (list.length === 0) return refuse("event_shape", path);
  const tag = list[0];
  if (typeof tag !== "string") return refuse("event_tag", `${path}[0]`);
  const isWhole = hasWholeArity(tag, list);
  const flaw: Refusal | undefined = isWhole ? undefined : { reason: "event_arity", path };
  return ok({ tag, path, fields: listFields(tag, list), flaw });
}

/**
 * A store needs all up to `block_size`, a removal its hashes. A clear has no fields in any list
 * form: a further element could be a scope, whose meaning is nobody's to guess.
 */
function hasWholeArity(tag: string, list: readonly unknown[]): boolean {
  switch (tag) {
    case "BlockStored":
      return list.length >= 5;
    case "BlockRemoved":
      return list.length >= 2;
    case "AllBlocksCleared":
      return list.every((element, index) => index === 0 || element === null);
    default:
      return true;
  }
}

const NO_FIELDS: EventFields = {};

function listFields(tag: string, list: readonly unknown[]): EventFields {
  if (tag === "BlockStored") {
    return {
      block_hashes: list[1],
      parent_block_hash: list[2],
      token_ids: list[3],
      block_size: list[4],
      lora_id: list[5],
      medium: list[6],
      lora_name: list[7],
      extra_keys: list[8],
      group_idx: list[9],
      kv_cache_spec_kind: list[10],
      kv_cache_spec_sliding_window: list[11],
    };
  }
  if (tag === "BlockRemoved") {
    return { block_hashes: list[1], medium: list[2], group_idx: list[3] };
  }
  return NO_FIELDS;
}
