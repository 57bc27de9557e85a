/**
 * What it is: BlockRemoved and AllBlocksCleared → their events.
 * Owns: what can still be told of the scope when the event as a whole cannot be read.
 * Refuses: nothing silently: negative evidence that cannot be read is itself an event
 * (`UnreadableRemoval`), because its scope must be withdrawn.
 * Does not do: withdraw.
 */
import type { BlockHash, Refusal } from "@kv-group-bridge/protocol";
import { type HashOptions, parseHashes } from "./block-hashes.ts";
import type { EventForm } from "./event-form.ts";
import { parseUint32List } from "./integers.ts";
import { parseRemovalMetadata, parseScope } from "./metadata.ts";
import type { ClearEvent, RemoveEvent, UnreadableRemoval } from "./vllm-event.ts";

/**
 * Reads one removal. Where only its small fields are unusable, its hashes are still told; where one
 * hash is bad, none is. An absent medium is the GPU, unless the form is flawed: then it may be
 * there under a name that we cannot read.
 */
export function validateRemoval(
  form: EventForm,
  options: HashOptions,
): RemoveEvent | UnreadableRemoval {
  const list = parseHashes(form, options);
  const hashes = list.ok ? list.value.hashes : undefined;
  if (form.flaw !== undefined) return unreadable(form.flaw, parseScope(form, undefined), hashes);
  const metadata = parseRemovalMetadata(form);
  if (!metadata.ok) return unreadable(metadata.error, parseScope(form, "GPU"), hashes);
  if (!list.ok) return unreadable(list.error, metadata.value, undefined);
  const notes: Refusal[] = [];
  const remainingCopies = parseRemainingCopies(form, list.value.hashes.length, notes);
  return { type: "removed", ...metadata.value, hashes: list.value.hashes, remainingCopies, notes };
}

/**
 * Reads one clear: everything, or the group and medium that it names (no vLLM release names one; a
 * scoped clear is never widened). A scope that we cannot honour makes it unreadable.
 */
export function validateClear(form: EventForm): ClearEvent | UnreadableRemoval {
  const scope = parseScope(form, undefined);
  if (form.flaw !== undefined) return unreadable(form.flaw, scope, undefined);
  const metadata = parseRemovalMetadata(form);
  if (!metadata.ok) return unreadable(metadata.error, scope, undefined);
  for (const field of ["locality", "ownership"] as const) {
    if (metadata.value[field] === "") continue;
    const refusal: Refusal = { reason: `${field}_invalid`, path: `${form.path}.${field}` };
    return unreadable(refusal, scope, undefined);
  }
  return { type: "cleared", ...scope };
}

type Scope = Pick<UnreadableRemoval, "groupId" | "medium">;

function unreadable(
  refusal: Refusal,
  scope: Scope,
  hashes: readonly BlockHash[] | undefined,
): UnreadableRemoval {
  const { groupId, medium } = scope;
  return { type: "removal_unreadable", refusal, groupId, medium, hashes };
}

/**
 * `remaining_copy_counts` (proposed, in no release): one uint32 a hash. An unusable list is ignored
 * with a note, and the removal counts as one copy less, as without the field.
 */
function parseRemainingCopies(
  form: EventForm,
  hashCount: number,
  notes: Refusal[],
): readonly number[] | undefined {
  const value = form.fields.remaining_copy_counts;
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value) && value.length === hashCount) {
    const counts = parseUint32List(value);
    if (counts !== undefined) return Array.from(counts);
  }
  notes.push({ reason: "event_arity", path: `${form.path}.remaining_copy_counts` });
  return undefined;
}
