/**
 * What it is: the schemas of an event's small fields: medium, locality, ownership, group, LoRA,
 * block size.
 * Owns: the difference between absent (a default or undefined) and present but unusable (a
 * refusal).
 * Refuses: unusable fields, by a reason each.
 * Does not do: look at hashes, tokens or extra keys: lists are read by loops, schemas cost 100
 * times as much there.
 */
import {
  type GroupId,
  isUint32,
  LIMITS,
  ok,
  parseGroupId,
  type Refusal,
  type RefusalReason,
  type Result,
} from "@kv-group-bridge/protocol";
import { z } from "zod";
import type { EventForm } from "./event-form.ts";
import { narrowInteger } from "./integers.ts";
import type { Residency } from "./vllm-event.ts";

const text = z.string().max(LIMITS.textBytes.value);
const uint32 = z.preprocess(narrowInteger, z.custom<number>(isUint32));
const int64 = z.union([
  z.int().transform((value) => BigInt(value)),
  z
    .bigint()
    .min(-(1n << 63n))
    .max((1n << 63n) - 1n),
]);

const removalShape = {
  medium: text.nullish(),
  locality: text.nullish(),
  ownership: text.nullish(),
  group_idx: uint32.nullish(),
};
const removalSchema = z.object(removalShape);
const storeSchema = z.object({
  ...removalShape,
  block_size: uint32,
  lora_id: int64.nullish(),
  lora_name: text.nullish(),
});

const REASONS: Readonly<Record<string, RefusalReason>> = {
  medium: "medium_invalid",
  locality: "locality_invalid",
  ownership: "ownership_invalid",
  group_idx: "group_invalid",
  block_size: "block_size_invalid",
  lora_id: "lora_invalid",
  lora_name: "lora_invalid",
};

/** The small fields of a removal. */
interface RemovalMetadata extends Residency {
  readonly groupId: GroupId | undefined;
}

/** The small fields of a store. */
interface StoreMetadata extends RemovalMetadata {
  readonly blockSizeTokens: number;
  readonly loraId: bigint | undefined;
  readonly loraName: string | undefined;
}

/**
 * Reads a store's small fields; refused with the reason of the first unusable one, or
 * text_too_long.
 */
export function parseStoreMetadata(form: EventForm): Result<StoreMetadata> {
  const parsed = storeSchema.safeParse(form.fields);
  if (!parsed.success) return { ok: false, error: firstRefusal(form, parsed.error) };
  const fields = parsed.data;
  return ok({
    ...residencyOf(fields),
    groupId: parseGroupId(fields.group_idx),
    blockSizeTokens: fields.block_size,
    loraId: fields.lora_id ?? undefined,
    loraName: fields.lora_name ?? undefined,
  });
}

/**
 * Reads a removal's small fields; refused with the reason of the first unusable one, or
 * text_too_long.
 */
export function parseRemovalMetadata(form: EventForm): Result<RemovalMetadata> {
  const parsed = removalSchema.safeParse(form.fields);
  if (!parsed.success) return { ok: false, error: firstRefusal(form, parsed.error) };
  return ok({ ...residencyOf(parsed.data), groupId: parseGroupId(parsed.data.group_idx) });
}

/** What an event says of its scope, field by field. */
interface Scope {
  /** Undefined = absent or unusable. */
  readonly groupId: GroupId | undefined;
  /** Undefined = unusable, or absent and `absentMedium` was undefined. */
  readonly medium: string | undefined;
}

/** The scope as far as it can be told when the event as a whole cannot be read. */
export function parseScope(form: EventForm, absentMedium: "GPU" | undefined): Scope {
  const medium = removalShape.medium.safeParse(form.fields.medium);
  const group = removalShape.group_idx.safeParse(form.fields.group_idx);
  return {
    groupId: group.success ? parseGroupId(group.data) : undefined,
    medium: medium.success ? upperCaseOr(medium.data, absentMedium) : undefined,
  };
}

interface ResidencyFields {
  readonly medium?: string | null | undefined;
  readonly locality?: string | null | undefined;
  readonly ownership?: string | null | undefined;
}

/** Absent or nil medium is the GPU (0.9 to 0.10.1 had no such field); "" is a medium of its own. */
function residencyOf(fields: ResidencyFields): Residency {
  return {
    medium: upperCaseOr(fields.medium, "GPU"),
    locality: fields.locality ?? "",
    ownership: fields.ownership ?? "",
  };
}

/** Upper case in ASCII only: other letters may become longer ("ß"), and no engine sends them. */
export function upperCase(text: string): string {
  return text.replaceAll(/[a-z]/g, (letter) => letter.toUpperCase());
}

function upperCaseOr<T>(text: string | null | undefined, absent: T): string | T {
  return text === undefined || text === null ? absent : upperCase(text);
}

function firstRefusal(form: EventForm, error: z.ZodError): Refusal {
  const issue = error.issues[0];
  const field = String(issue?.path[0] ?? "");
  const isTooLong = issue?.code === "too_big" && issue.origin === "string";
  const reason = isTooLong ? "text_too_long" : (REASONS[field] ?? "event_shape");
  return { reason, path: field === "" ? form.path : `${form.path}.${field}` };
}
