/**
 * What it is: every bound of the product, with its unit, its reason and what happens at the bound.
 * Owns: the numbers. `docs/protocol.md` shows this table; a test compares both.
 * Refuses: nothing.
 * Does not do: read configuration (a configuration value may only lower or raise what is marked so there).
 */

/** One bound. `atBound` says the policy in one sentence. */
export interface Limit {
  readonly value: number;
  readonly unit: string;
  readonly reason: string;
  readonly atBound: string;
}

function limit(value: number, unit: string, reason: string, atBound: string): Limit {
  return { value, unit, reason, atBound };
}

/** All bounds by name. */
export const LIMITS = {
  payloadBytes: limit(
    64 * 1024 * 1024,
    "bytes",
    "one engine step stores at most some ten thousand blocks",
    "the batch is refused as payload_too_large; its epoch ends",
  ),
  frameBytes: limit(
    64 * 1024 * 1024,
    "bytes",
    "as payloadBytes; libzmq drops the connection beyond it",
    "the connection is closed by libzmq and opened again; the gap shows in the sequence",
  ),
  nestingDepth: limit(
    8,
    "levels",
    "vLLM's deepest value has 5: batch, events, event, extra_keys, item",
    "the batch is refused as payload_malformed; its epoch ends",
  ),
  eventsPerBatch: limit(
    65_536,
    "events",
    "one removal event per evicted block of a step",
    "the batch is refused as too_many_events; its epoch ends",
  ),
  hashesPerEvent: limit(
    131_072,
    "hashes",
    "a prompt of 2 M tokens in blocks of 16",
    "the event is refused as too_many_hashes; a removal withdraws its group",
  ),
  tokensPerEvent: limit(
    4_194_304,
    "tokens",
    "twice the longest context in the field",
    "the event is refused as too_many_tokens",
  ),
  hashBytes: limit(
    2_048,
    "bytes",
    "64 digests of 32 bytes in one coarse block (vLLM 0.20 to 0.23)",
    "the event is refused as hash_invalid; a removal withdraws its group",
  ),
  textBytes: limit(
    1_024,
    "characters",
    "kinds, media, LoRA names and salts are short",
    "the event is refused as text_too_long; of a removal, its hashes are withdrawn",
  ),
  extraKeysPerBlock: limit(
    256,
    "items",
    "images of one block",
    "the block and those after it get no place; they are counted unplaced",
  ),
  groupsPerRank: limit(
    32,
    "groups",
    "the widest published model has about 23",
    "stores of further groups are refused as too_many_groups, and the engine is unsupported: unknown",
  ),
  mediaPerRank: limit(
    16,
    "media",
    "beside the GPU: CPU, STORAGE and a few names of connectors",
    "stores in further media are refused as too_many_media",
  ),
  unknownEventNames: limit(
    32,
    "names",
    "bounds the labels of one metric",
    "further names are counted under 'other'",
  ),
  mirrorBlocks: limit(
    4_000_000,
    "hashes",
    "more blocks than a node's GPUs and tiers hold",
    "the rank is withdrawn (limit_reached) and fills again",
  ),
  historyBlocks: limit(
    200_000,
    "hashes",
    "places of removed blocks, which later events name as parents",
    "the place unneeded for longest is forgotten; its children stay unplaced",
  ),
  duplicateDigests: limit(
    4_096,
    "batches",
    "tells a repeated batch from a restarted engine",
    "an older repeat is taken for a restart: new epoch",
  ),
  heldBatches: limit(
    16_384,
    "batches",
    "what arrives live while a missing range is asked again; more than vLLM's default replay buffer",
    "the newest one is dropped and asked from the engine's replay buffer",
  ),
  heldBytes: limit(64 * 1024 * 1024, "bytes", "as heldBatches", "as heldBatches"),
  replayOverlapBatches: limit(
    32,
    "batches",
    "known batches asked again with a missing range: their digests prove the engine",
    "older ones are not compared",
  ),
  replayAttempts: limit(
    5,
    "requests",
    "holes in a reply, or replies without an end (2 where the socket never answered)",
    "the missing batches are lost: new epoch",
  ),
  replayPauseMs: limit(
    100,
    "milliseconds",
    "first pause before a range is asked again",
    "the pause doubles up to replayPauseMaxMs",
  ),
  replayPauseMaxMs: limit(
    2_000,
    "milliseconds",
    "longest pause before a range is asked again",
    "the pause stays there",
  ),
  replayShortBatches: limit(
    900,
    "batches",
    "below the high-water mark of 1,000 of the replay socket up to vLLM 0.32",
    "a longer reply may lack its newest batches: the range after it is asked too",
  ),
  replayForeignReplies: limit(
    2,
    "replies",
    "live batches that the answering engine never published, reply after reply",
    "the live socket is opened anew",
  ),
  replayContradictions: limit(
    4,
    "replies",
    "replies that contradict the live socket, a new one too: another engine's, or one that keeps nothing",
    "the replay socket is only probed, and what the live socket brings counts, until a reply agrees with it",
  ),
  replayProbeMs: limit(
    30_000,
    "milliseconds",
    "silence proves nothing: an engine may be idle, dead or replaced",
    "the newest known batches are asked again and compared",
  ),
  replayProbeFailures: limit(
    2,
    "requests",
    "probes without an answer from a replay socket that had answered before",
    "the engine counts as disconnected: answers are stale",
  ),
  deafGraceMs: limit(
    5_000,
    "milliseconds",
    "a probe found batches that the live socket did not bring",
    "the live socket is opened anew",
  ),
  subscribersPerRank: limit(
    64,
    "subscribers",
    "gateway replicas of a fleet",
    "a further subscription is refused with RESOURCE_EXHAUSTED",
  ),
  subscriberQueueBytes: limit(
    32 * 1024 * 1024,
    "bytes",
    "some seconds of a busy engine",
    "the queue is emptied and the subscriber gets a new start and snapshot",
  ),
  resumeRingBytes: limit(
    16 * 1024 * 1024,
    "bytes",
    "minutes of a busy engine: a gateway that reconnects need not have everything again",
    "the oldest batches leave the ring; who needs them gets a snapshot",
  ),
  resumeRingBatches: limit(
    32_768,
    "batches",
    "some minutes at a hundred steps a second",
    "as resumeRingBytes",
  ),
  snapshotChunkBlocks: limit(
    4_096,
    "blocks",
    "keeps one piece under 100 kB and a few milliseconds",
    "the next piece begins",
  ),
  responseBytes: limit(
    64 * 1024 * 1024,
    "bytes",
    "one batch of the largest payload",
    "the message is refused by the receiver with RESOURCE_EXHAUSTED; it subscribes again",
  ),
  requestBytes: limit(
    8 * 1024 * 1024,
    "bytes",
    "a prompt of 2 M tokens",
    "the request is refused with RESOURCE_EXHAUSTED",
  ),
  subscribeRequestBytes: limit(
    65_536,
    "bytes",
    "a subscription has a handful of small fields",
    "the request is refused with RESOURCE_EXHAUSTED",
  ),
  promptTokens: limit(
    2_097_152,
    "tokens",
    "the longest context in the field is 1 M",
    "the query is refused with INVALID_ARGUMENT",
  ),
  multimodalItems: limit(
    4_096,
    "items",
    "images of one prompt",
    "the query is refused with INVALID_ARGUMENT",
  ),
  workersPerGateway: limit(10_000, "workers", "a fleet", "adding a further worker is refused"),
  indexNodes: limit(
    20_000_000,
    "keys",
    "memory of a gateway's pod",
    "a store is refused and counted; answers are lower bounds",
  ),
  indexEntriesPerRank: limit(
    4_000_000,
    "blocks",
    "as mirrorBlocks",
    "a store is refused and counted; answers are lower bounds",
  ),
  heartbeatIntervalMs: limit(
    5_000,
    "milliseconds",
    "half of the shortest idle limit of common proxies",
    "a heartbeat is sent",
  ),
  staleAfterMs: limit(
    16_000,
    "milliseconds",
    "three missed heartbeats",
    "answers of the rank are marked stale",
  ),
  keepaliveIntervalMs: limit(
    10_000,
    "milliseconds",
    "HTTP/2 ping of the gateway's connection",
    "a ping is sent",
  ),
  keepaliveTimeoutMs: limit(
    5_000,
    "milliseconds",
    "a half-open connection must be noticed",
    "the connection is closed and the subscription backs off",
  ),
  reconnectMinMs: limit(
    200,
    "milliseconds",
    "first pause after a failed subscription",
    "the pause doubles, with full jitter",
  ),
  reconnectMaxMs: limit(
    15_000,
    "milliseconds",
    "longest pause after failed subscriptions",
    "the pause stays there",
  ),
  connectTimeoutMs: limit(
    10_000,
    "milliseconds",
    "a black-holed address must not hang a subscription",
    "the attempt fails and the subscription backs off",
  ),
  shutdownGraceMs: limit(
    5_000,
    "milliseconds",
    "streams end and sessions close",
    "remaining connections are destroyed",
  ),
  receiveSliceMs: limit(
    2,
    "milliseconds",
    "the reader yields so that timers and streams are served",
    "the loop yields to the event loop once",
  ),
  zmqReceiveHighWaterMark: limit(
    10_000,
    "messages",
    "bounded memory in libzmq",
    "libzmq drops, which shows as a gap",
  ),
  zmqHeartbeatIntervalMs: limit(
    5_000,
    "milliseconds",
    "ZMTP ping to the engine: it closes no connection when it is stopped or cut off",
    "a ping is sent",
  ),
  zmqHeartbeatTimeoutMs: limit(
    15_000,
    "milliseconds",
    "an engine whose process is busy still answers: libzmq does, in a thread of its own",
    "the connection is closed and opened again; the rank is disconnected meanwhile",
  ),
  zmqReconnectMaxMs: limit(
    2_000,
    "milliseconds",
    "longest pause between attempts to reach the engine, which is in the same pod",
    "the pause stays there",
  ),
  zmqZombieMs: limit(
    1_000,
    "milliseconds",
    "libzmq never connects again after some failures; a normal loss is retried within one reconnectMinMs",
    "the address is disconnected and connected again",
  ),
  replayReceiveHighWaterMark: limit(
    10_000,
    "messages",
    "vLLM's default replay buffer: a whole reply waits here when it comes faster than it is read",
    "libzmq holds the engine back, or the engine's socket drops: the hole is asked again",
  ),
  replaySilenceMs: limit(
    5_000,
    "milliseconds",
    "an engine answers between two batches, or within 0.1 s when idle",
    "the replay request fails with timeout",
  ),
  replayRequestMs: limit(
    30_000,
    "milliseconds",
    "the whole of vLLM's default buffer takes a few seconds",
    "the replay request fails with timeout; what came until then counts",
  ),
  checkpointBytes: limit(
    384 * 1024 * 1024,
    "bytes",
    "mirrorBlocks and historyBlocks at 80 bytes each; a typical rank has 50 MB",
    "no checkpoint is written, an older one stays; a larger file is refused as checkpoint_too_large",
  ),
  checkpointIntervalMs: limit(
    60_000,
    "milliseconds",
    "a process that dies without notice loses so much; the engine's replay buffer brings it back",
    "the next checkpoint may be written",
  ),
  checkpointPieceBlocks: limit(
    4_096,
    "blocks",
    "a few milliseconds",
    "the piece is written and the loop yields to the event loop once",
  ),
  checkpointFinalMs: limit(
    8_000,
    "milliseconds",
    "time of the last checkpoint at the end of a process; below the 30 s that a pod is given",
    "it is given up, and the one before it stays",
  ),
} as const satisfies Record<string, Limit>;

/** Name of a bound. */
export type LimitName = keyof typeof LIMITS;
