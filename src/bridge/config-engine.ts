/**
 * What it is: the engine description as an operator writes it → `EngineConfig`.
 * Owns: the schema of `engine.description`.
 * Refuses: unknown keys, duplicate groups, a sliding kind without a window, a chunked one without
 * its chunk, sizes that do not divide. The message has the path, never a value.
 * Does not do: read files, or add facts that are not stated.
 */
import {
  digestBytesOf,
  HASH_ALGORITHMS,
  KvEventsError,
  LIMITS,
  MAX_LORA_PATHS,
  parseGroupId,
} from "@kv-group-bridge/protocol";
import { z } from "zod";
import type { EngineConfig, GroupConfig } from "./engine-config.ts";

const count = z.int().min(0).max(0xffff_ffff);
const tokens = z.int().min(1).max(0xffff_ffff);
const text = z.string().min(1).max(LIMITS.textBytes.value);

const groupSchema = z.strictObject({
  group_id: count,
  kind: text.optional(),
  block_size: tokens.optional(),
  sliding_window: tokens.optional(),
  chunk_tokens: tokens.optional(),
  private: z.boolean().default(false),
  drops_block: z.boolean().default(false),
  spec_class: count.optional(),
});

const engineSchema = z.strictObject({
  vllm_version: text.optional(),
  groups: z.array(groupSchema).max(LIMITS.groupsPerRank.value).default([]),
  roster_complete: z.boolean().default(false),
  scheduler_block_size: tokens.optional(),
  hash_block_size: tokens.optional(),
  fine: z.boolean().optional(),
  lookahead_tokens: count.optional(),
  eagle_bound: z.enum(["hash_end", "last_token"]).optional(),
  replay_tokens: count.optional(),
  retention_interval: count.optional(),
  digest_bytes: z.int().min(8).max(LIMITS.hashBytes.value).optional(),
  unsupported_reason: text.optional(),
  removal_rule: z.enum(["per_copy", "last_copy"]).default("per_copy"),
  hash_recognition: z.boolean().default(true),
  hash_algorithm: z.enum(HASH_ALGORITHMS).optional(),
  python_hash_seed: text.optional(),
  lora_paths: z
    .record(z.string().max(LIMITS.textBytes.value), text)
    .refine((paths) => Object.keys(paths).length <= MAX_LORA_PATHS, "too many adapters")
    .default({}),
});

type StatedEngine = z.infer<typeof engineSchema>;
type StatedGroup = StatedEngine["groups"][number];

/** `root` begins every path in a message. Fails with `config_invalid`. */
export function parseEngineDescription(raw: unknown, root = "engine.description"): EngineConfig {
  const parsed = engineSchema.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(root, issue === undefined ? ": not an engine description" : describe(issue));
  }
  const stated = parsed.data;
  const problem = contradiction(stated);
  if (problem !== undefined) throw invalid(root, problem);
  return {
    vllmVersion: stated.vllm_version,
    groups: stated.groups.map((group, index) => groupConfig(group, `${root}.groups[${index}]`)),
    isRosterComplete: stated.roster_complete,
    schedulerBlockSizeTokens: stated.scheduler_block_size,
    hashBlockSizeTokens: stated.hash_block_size,
    isFine: stated.fine,
    lookaheadTokens: stated.lookahead_tokens,
    eagleBound: stated.eagle_bound,
    replayTokens: stated.replay_tokens,
    retentionInterval: stated.retention_interval,
    digestBytes: stated.digest_bytes,
    unsupportedReason: stated.unsupported_reason,
    removalRule: stated.removal_rule,
    hashing: {
      isRecognised: stated.hash_recognition,
      algorithm: stated.hash_algorithm,
      seedText: stated.python_hash_seed,
      loraPaths: new Map(Object.entries(stated.lora_paths)),
    },
  };
}

function groupConfig(group: StatedGroup, path: string): GroupConfig {
  const groupId = parseGroupId(group.group_id);
  if (groupId === undefined) throw invalid(path, ".group_id: not a group id");
  return {
    groupId,
    kind: group.kind,
    blockSizeTokens: group.block_size,
    windowTokens: group.sliding_window,
    chunkTokens: group.chunk_tokens,
    isPrivate: group.private,
    dropsBlock: group.drops_block,
    specClass: group.spec_class,
  };
}

/** The path below the root and what is wrong there. */
function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map((part) =>
    typeof part === "number" ? `[${part}]` : `.${String(part)}`,
  );
  if (issue.code !== "unrecognized_keys") return `${path.join("")}: ${issue.message}`;
  return `${path.join("")}.${issue.keys[0] ?? ""}: unknown key`;
}

/** What single values do not show. */
function contradiction(stated: StatedEngine): string | undefined {
  const seen = new Set<number>();
  for (const [index, group] of stated.groups.entries()) {
    const path = `.groups[${index}]`;
    if (seen.has(group.group_id)) return `${path}.group_id: stands twice`;
    seen.add(group.group_id);
    const problem = kindProblem(group) ?? sizeProblem(group, stated);
    if (problem !== undefined) return path + problem;
  }
  if (stated.roster_complete && stated.groups.length === 0) {
    return ".roster_complete: no group is listed";
  }
  const { digest_bytes: bytes, hash_algorithm: algorithm } = stated;
  if (bytes !== undefined && algorithm !== undefined && bytes !== digestBytesOf(algorithm)) {
    return `.digest_bytes: ${algorithm} has ${digestBytesOf(algorithm)}`;
  }
  const { scheduler_block_size: scheduler, hash_block_size: hash } = stated;
  if (scheduler !== undefined && hash !== undefined && scheduler % hash !== 0) {
    return ".scheduler_block_size: not a multiple of hash_block_size";
  }
  return undefined;
}

function kindProblem(group: StatedGroup): string | undefined {
  if (group.kind === undefined) return undefined;
  const isSliding = group.kind.startsWith("sliding_window");
  const isChunked = group.kind === "chunked_local_attention";
  if (isSliding !== (group.sliding_window !== undefined)) {
    return `.sliding_window: ${isSliding ? "needed by this kind" : "this kind has no window"}`;
  }
  if (isChunked !== (group.chunk_tokens !== undefined)) {
    return `.chunk_tokens: ${isChunked ? "needed by this kind" : "this kind has no chunks"}`;
  }
  return undefined;
}

function sizeProblem(group: StatedGroup, stated: StatedEngine): string | undefined {
  const { block_size: block } = group;
  const { scheduler_block_size: scheduler, hash_block_size: hash } = stated;
  if (block === undefined) return undefined;
  if (hash !== undefined && !group.private && block % hash !== 0) {
    return ".block_size: not a multiple of hash_block_size";
  }
  if (scheduler !== undefined && scheduler % block !== 0) {
    return ".block_size: does not divide scheduler_block_size";
  }
  return undefined;
}

function invalid(root: string, problem: string): KvEventsError {
  return new KvEventsError("config_invalid", root + problem);
}
