/**
 * What it is: the head of a checkpoint as JSON text, and back.
 * Owns: the schema of that text.
 * Refuses: a text that this version does not write, and numbers outside their range.
 * Does not do: judge whose checkpoint it is.
 */
import {
  HASH_ALGORITHMS,
  HASH_STATES,
  isBlockHash,
  isDigestOf,
  isUint32,
  LIMITS,
  parseDpRank,
  parseEpoch,
  parseGroupId,
  parseSequenceNumber,
  SEED_ORIGINS,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";
import { z } from "zod";
import type { Slot } from "./block.ts";
import type { CheckpointHead } from "./checkpoint-state.ts";
import { RESERVED_SEQUENCE } from "./frames.ts";

/** A slot without its number: it stands at its index. */
export type SlotMemory = Pick<Slot, "groupId" | "medium" | "locality" | "ownership">;

/** All that is not a record. */
export interface HeadText {
  readonly head: CheckpointHead;
  readonly slots: readonly SlotMemory[];
}

/** A value that `parse` makes of another one, or refuses. */
function parsed<In extends z.ZodType, Out>(
  schema: In,
  parse: (value: z.output<In>) => Out | undefined,
): z.ZodType<Out> {
  return schema.transform((value, context) => {
    const out = parse(value);
    if (out !== undefined) return out;
    context.addIssue({ code: "custom", message: "out of range" });
    return z.NEVER;
  });
}

const uint64 = z.string().regex(/^(?:0|[1-9]\d{0,19})$/);
const groupId = parsed(z.number(), parseGroupId);
const sequence = parsed(uint64, (text) => parseSequenceNumber(BigInt(text)));
const tokens = z.number().refine(isUint32);
/** JSON has no undefined. */
const optional = <T extends z.ZodType>(type: T) =>
  type.nullable().transform((value) => value ?? undefined);
const text = z.string().max(LIMITS.textBytes.value);
/** base64 of a SHA-256. */
const digest = z.string().max(64);

const groupMemory = z.strictObject({
  groupId,
  kind: optional(text),
  windowTokens: optional(tokens),
  largestBlockTokens: tokens,
  hasPartial: z.boolean(),
  isUngrouped: z.boolean(),
  isSeen: z.boolean(),
});

const headSchema = z.strictObject({
  fingerprint: z.string().max(128),
  dpRank: parsed(z.number(), parseDpRank),
  epoch: parsed(uint64, (value) => parseEpoch(BigInt(value))),
  instance: parsed(uint64, (value) => parseEpoch(BigInt(value))).transform(
    (value): bigint => value,
  ),
  gate: z
    .strictObject({
      last: sequence,
      digests: z.array(z.tuple([sequence, digest])).max(LIMITS.duplicateDigests.value),
    })
    .refine(({ last, digests }) => last !== RESERVED_SEQUENCE && endsWith(digests, last)),
  isComplete: z.boolean(),
  facts: z.strictObject({
    groups: z
      .array(groupMemory)
      .max(LIMITS.groupsPerRank.value)
      .refine((groups) => new Set(groups.map((group) => group.groupId)).size === groups.length),
    lookaheadTokens: optional(tokens),
    unitTokens: tokens,
    hasTooManyGroups: z.boolean(),
  }),
  grouping: z.enum(["unknown", "ungrouped", "grouped"]),
  hashing: z.strictObject({
    state: z.enum(HASH_STATES),
    way: optional(
      z
        .strictObject({
          algorithm: z.enum(HASH_ALGORITHMS),
          seedOrigin: z.enum(SEED_ORIGINS),
          rootDigest: optional(text),
          unitTokens: tokens.refine((unit) => unit > 0),
        })
        .transform((way, context) => {
          const { algorithm, rootDigest } = way;
          if (rootDigest === undefined) return { ...way, rootDigest };
          if (isDigestOf(rootDigest, algorithm) && isBlockHash(rootDigest)) {
            return { ...way, rootDigest };
          }
          context.addIssue({ code: "custom", message: "not a digest" });
          return z.NEVER;
        }),
    ),
    form: z.enum(["integer", "bytes"]),
    extraKeyForm: optional(z.enum(["tagged", "untagged"])),
    isExtraKeyFormRefuted: z.boolean(),
  }),
  writtenAtMs: z.number(),
});

/** Numbers grow, and the last one is `last`: without its digest nothing would prove the engine. */
function endsWith(
  digests: readonly (readonly [SequenceNumber, string])[],
  last: SequenceNumber,
): boolean {
  let before: SequenceNumber | undefined;
  for (const [number] of digests) {
    if (before !== undefined && number <= before) return false;
    before = number;
  }
  return before === last;
}

const slot = z.strictObject({ groupId, medium: text, locality: text, ownership: text });

const headTextSchema = z.strictObject({ head: headSchema, slots: z.array(slot) });

/** The text of a head. */
export function headText(head: CheckpointHead, slots: readonly Slot[]): string {
  const plain = {
    head,
    slots: slots.map(({ groupId: id, medium, locality, ownership }) => ({
      groupId: id,
      medium,
      locality,
      ownership,
    })),
  };
  // What reads it again is strict: a field that is undefined would be missing.
  return JSON.stringify(plain, (_key, value: unknown) => {
    if (typeof value === "bigint") return value.toString();
    return value === undefined ? null : value;
  });
}

/** The head of a text; undefined = no head of this version. */
export function parseHeadText(source: string): HeadText | undefined {
  let raw: unknown;
  try {
    raw = JSON.parse(source);
  } catch {
    return undefined;
  }
  const result = headTextSchema.safeParse(raw);
  return result.success ? result.data : undefined;
}
