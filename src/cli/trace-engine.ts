/**
 * What it is: the translation of a trace's header to the engine description that an operator would write.
 * Owns: nothing.
 * Refuses: what the bridge's configuration refuses: the description goes through the same check.
 * Does not do: run anything.
 */
import { type EngineConfig, parseEngineDescription } from "@kv-group-bridge/bridge";
import type { TraceEngine } from "./trace-file.ts";

/** What is stated beside the header. */
export interface TraceStatements {
  /** Paths of LoRA adapters by name. Default: none. */
  readonly loraPaths?: ReadonlyMap<string, string> | undefined;
  /** False: the bridge recomputes no hashes. Default true. */
  readonly isRecomputing?: boolean | undefined;
}

/** The description as JSON value, in the names of the bridge's configuration (`engine.description`). */
export function engineDescriptionOfTrace(
  engine: TraceEngine,
  { loraPaths, isRecomputing }: TraceStatements = {},
): Readonly<Record<string, unknown>> {
  return withoutAbsent({
    vllm_version: engine.vllm,
    roster_complete: true,
    groups: engine.groups.map((group) =>
      withoutAbsent({
        group_id: group.id,
        kind: group.kind,
        block_size: group.block_size,
        sliding_window: group.sliding_window ?? undefined,
        chunk_tokens: group.chunk ?? undefined,
        private: !group.prefix_cacheable,
        drops_block: group.eagle,
        spec_class: group.spec_class,
      }),
    ),
    scheduler_block_size: engine.scheduler_block_size,
    hash_block_size: engine.hash_block_size,
    fine: engine.fine,
    lookahead_tokens: engine.lookahead_hash_tokens,
    eagle_bound: engine.eagle_bound === "unset" ? "last_token" : "hash_end",
    replay_tokens: engine.replay_tokens,
    retention_interval: engine.retention ?? undefined,
    digest_bytes: engine.hash_algo?.startsWith("xxhash") === true ? 16 : 32,
    unsupported_reason: engine.unsupported,
    removal_rule: "per_copy",
    hash_recognition: isRecomputing,
    lora_paths:
      loraPaths === undefined || loraPaths.size === 0 ? undefined : Object.fromEntries(loraPaths),
  });
}

/** The engine of a trace as configuration: roster complete, every layout fact stated. */
export function engineConfigOfTrace(
  engine: TraceEngine,
  statements: TraceStatements = {},
): EngineConfig {
  return parseEngineDescription(engineDescriptionOfTrace(engine, statements), "the trace's header");
}

function withoutAbsent(
  object: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
