/**
 * What it is: the reading of a group's kind and window, which a store carries since vLLM 0.22.0.
 * Owns: the rule that neither is ever said without a valid group.
 * Refuses: nothing; what is unusable is ignored and noted, because the blocks themselves are good.
 * Does not do: compare with what the group said before; give a kind a meaning beyond "sliding" or
 * not.
 */
import { type GroupId, isUint32, LIMITS, type Refusal } from "@kv-group-bridge/protocol";
import type { EventForm } from "./event-form.ts";
import { narrowInteger } from "./integers.ts";

/** Kind and window of a group. */
interface KindAndWindow {
  readonly kind: string | undefined;
  /** 1 … 2^32 − 1, of sliding kinds only. */
  readonly windowTokens: number | undefined;
}

/**
 * Reads kind and window of a store. Nothing here refuses the event: what is unusable becomes
 * undefined and a note (kind_invalid, text_too_long, window_invalid; group_missing when there is no
 * group for them).
 */
export function parseKindAndWindow(
  form: EventForm,
  groupId: GroupId | undefined,
  notes: Refusal[],
): KindAndWindow {
  const { kv_cache_spec_kind: kindField, kv_cache_spec_sliding_window: windowField } = form.fields;
  const kindPath = `${form.path}.kv_cache_spec_kind`;
  const windowPath = `${form.path}.kv_cache_spec_sliding_window`;
  if (groupId === undefined) {
    if (isPresent(kindField)) notes.push({ reason: "group_missing", path: kindPath });
    if (isPresent(windowField)) notes.push({ reason: "group_missing", path: windowPath });
    return { kind: undefined, windowTokens: undefined };
  }
  let kind: string | undefined;
  if (isPresent(kindField)) {
    const isTooLong = typeof kindField === "string" && kindField.length > LIMITS.textBytes.value;
    if (isTooLong) notes.push({ reason: "text_too_long", path: kindPath });
    else if (typeof kindField === "string" && kindField !== "") kind = kindField;
    else notes.push({ reason: "kind_invalid", path: kindPath });
  }
  let windowTokens: number | undefined;
  if (isPresent(windowField)) {
    const window = narrowInteger(windowField);
    const isSliding = kind?.startsWith("sliding_window") === true;
    if (isSliding && isUint32(window) && window > 0) windowTokens = window;
    else notes.push({ reason: "window_invalid", path: windowPath });
  }
  return { kind, windowTokens };
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}
