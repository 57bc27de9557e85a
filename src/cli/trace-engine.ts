/**
 * What it is: the translation of a trace's header to the engine configuration that an operator would write.
 * Owns: nothing.
 * Refuses: nothing (the header was checked when it was read).
 * Does not do: run anything.
 */
import type { EngineConfig } from "@kv-group-bridge/bridge";
import { KvEventsError, parseGroupId } from "@kv-group-bridge/protocol";
import type { TraceEngine } from "./trace-file.ts";

/** The engine of a trace as configuration: roster complete, every layout fact stated. */
export function engineConfigOfTrace(engine: TraceEngine): EngineConfig {
  return {
    vllmVersion: engine.vllm,
    groups: engine.groups.map((group) => {
      const groupId = parseGroupId(group.id);
      if (groupId === undefined) throw new KvEventsError("trace_invalid", "group id is no uint32");
      return {
        groupId,
        kind: group.kind,
        blockSizeTokens: group.block_size,
        windowTokens: group.sliding_window ?? undefined,
        chunkTokens: group.chunk ?? undefined,
        isPrivate: !group.prefix_cacheable,
        dropsBlock: group.eagle,
        specClass: group.spec_class,
      };
    }),
    isRosterComplete: true,
    schedulerBlockSizeTokens: engine.scheduler_block_size,
    hashBlockSizeTokens: engine.hash_block_size,
    isFine: engine.fine,
    lookaheadTokens: engine.lookahead_hash_tokens,
    eagleBound: engine.eagle_bound === "unset" ? "last_token" : "hash_end",
    replayTokens: engine.replay_tokens,
    retentionInterval: engine.retention ?? undefined,
    digestBytes: engine.hash_algo?.startsWith("xxhash") === true ? 16 : 32,
    unsupportedReason: engine.unsupported,
    removalRule: "per_copy",
  };
}
