/**
 * What it is: a recording played through the real bridge, whose stream is then read by the dull index instead of the
 * gateway: the place where planted mutants of the consumer meet real engines.
 * Owns: nothing between calls.
 * Refuses: recordings without a rank.
 * Does not do: judge; it counts answers above and below the engine's own.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { BatchSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type KvGroupEvent,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { EngineConfig } from "../../src/bridge/dist/index.js";
import { type RankOutput, RankPipeline } from "../../src/bridge/dist/index.js";
import { engineConfigOfTrace } from "../../src/cli/dist/trace-engine.js";
import { openTrace, type TraceEngine, type TracePrompt } from "../../src/cli/dist/trace-file.js";
import type { RankLayout, ReuseRule } from "../../src/prefix-index/dist/index.js";
import {
  KeyedHasher,
  PrefixState,
  parseDpRank,
  parseEpoch,
} from "../../src/protocol/dist/index.js";
import { DullIndex, scoringMedium } from "./dull-index.ts";

/** What is broken on purpose; nothing by default. */
export interface Twist {
  readonly index?: DullIndex;
  readonly engine?: (engine: EngineConfig) => EngineConfig;
  readonly prompt?: (prompt: TracePrompt) => TracePrompt;
}

/** How the answers compare with the engine's. */
export interface Outcome {
  readonly lookups: number;
  readonly above: number;
  readonly below: number;
}

const RULES: Readonly<Record<string, ReuseRule>> = {
  full_attention: "full",
  mla_attention: "full",
  sliding_window: "sliding_window",
  sliding_window_mla: "sliding_window",
  mamba: "mamba",
  chunked_local_attention: "chunked_local",
};

/** The layout as the recording's header says it. */
function layoutOf(engine: TraceEngine): RankLayout {
  const groups = engine.groups.filter((group) => group.prefix_cacheable);
  return {
    groups: groups.map((group, index) => ({
      groupId: group.id,
      rule: RULES[group.kind] ?? "full",
      blockSizeTokens: group.block_size,
      windowTokens: group.sliding_window ?? 0,
      chunkTokens: group.chunk ?? 0,
      specClass: group.spec_class ?? index,
      dropsBlock: group.eagle && engine.lookahead_hash_tokens === 0,
    })),
    coordinator: engine.groups.length === 1 ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: engine.scheduler_block_size,
    hashBlockSizeTokens: engine.hash_block_size,
    isFine: engine.fine,
    lookaheadTokens: engine.lookahead_hash_tokens,
    eagleBound: engine.eagle_bound === "unset" ? "last_token" : "hash_end",
    replayTokens: engine.replay_tokens,
  };
}

/** Plays one recording with one thing broken. */
export async function playTwin(file: string, twist: Twist = {}): Promise<Outcome> {
  const trace = await openTrace(file);
  const index = twist.index ?? new DullIndex();
  const layout = layoutOf(trace.engine);
  const hasher = new KeyedHasher("sixteen characters");
  let rank = index.addRank(layout);
  const emit = (output: RankOutput): void => {
    if (output.type === "epoch") {
      index.retireRank(rank);
      rank = index.addRank(layout);
    }
    if (output.type !== "batch") return;
    for (const event of fromBinary(BatchSchema, output.keyBytes).batch?.events ?? []) {
      write(index, rank, event);
    }
  };
  const dpRank = parseDpRank(trace.engine.dp_rank);
  const epoch = parseEpoch(1n);
  if (dpRank === undefined || epoch === undefined) throw new RangeError("no rank");
  const stated = engineConfigOfTrace(trace.engine);
  const pipeline = new RankPipeline({
    dpRank,
    engine: twist.engine?.(stated) ?? stated,
    hasher,
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => epoch,
    emit,
  });
  const counts = { lookups: 0, above: 0, below: 0 };
  for await (const entry of trace.entries) {
    if (entry.type === "frame") pipeline.receive(entry.frames, 0);
    else if (entry.type === "restart") pipeline.publisherReplaced();
    else {
      const prompt = twist.prompt?.(entry.prompt) ?? entry.prompt;
      const keyAt = keysOf(hasher, prompt, layout);
      const answer = index.score(keyAt, prompt.tokens.length).get(rank) ?? 0;
      counts.lookups += 1;
      if (answer > entry.native) counts.above += 1;
      if (answer < entry.native) counts.below += 1;
    }
  }
  return counts;
}

function write(index: DullIndex, rank: number, event: KvGroupEvent): void {
  const isOwn = event.locality === "" && event.ownership === "";
  const medium = event.medium === "" && isOwn ? scoringMedium : `other ${event.medium}`;
  if (event.operation === Operation.CLEAR) {
    const where = event.medium === "" ? undefined : event.medium;
    index.clear(rank, event.clearsAllGroups ? undefined : event.groupId, where);
    return;
  }
  const keys = Buffer.from(event.prefixKeys).toString("hex");
  for (let i = 0; i * 16 < keys.length; i += 1) {
    const key = keys.slice(i * 16, i * 16 + 16);
    const end = event.endTokens + i * event.blockSize;
    if (event.operation === Operation.STORE) index.store(rank, event.groupId, medium, key, end);
    else index.remove(rank, event.groupId, medium, key);
  }
}

/** The keys of a prompt at every end that matters, and "" elsewhere. */
function keysOf(
  hasher: KeyedHasher,
  prompt: TracePrompt,
  layout: RankLayout,
): (positionTokens: number) => string {
  const { loraName, cacheSalt, tokens } = prompt;
  const keys = new Map<number, string>();
  const state = new PrefixState();
  state.load(hasher.rootWords({ loraName, cacheSalt }), 0, 0);
  const items = [...prompt.multimodalItems];
  for (let at = 0; at < tokens.length; at += 1) {
    while (items[0]?.offset === at) {
      const item = items.shift();
      if (item === undefined) break;
      state.absorbItem(hasher.itemWords({ identifier: item.identifier, startTokens: at }));
    }
    state.absorb(tokens, at, at + 1);
    const end = at + 1 - layout.lookaheadTokens;
    const isEnd = end > 0 && end % layout.hashBlockSizeTokens === 0;
    const isOwnEnd = (at + 1) % layout.hashBlockSizeTokens === 0;
    if (!isEnd && !isOwnEnd) continue;
    state.finish();
    const key = Buffer.alloc(8);
    key.writeUInt32LE(state.keyLow, 0);
    key.writeUInt32LE(state.keyHigh, 4);
    keys.set(at + 1, key.toString("hex"));
  }
  return (position) => keys.get(position) ?? "";
}
