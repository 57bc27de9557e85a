/**
 * What it is: every bound of the product, with its unit, its reason and what happens at the bound.
 * Owns: the numbers. `docs/protocol.md` shows this table; a test compares both.
 * Refuses: nothing.
 * Does not do: read configuration (a configuration value may only lower or raise what is marked so there).
 */

import { type Limit, limit } from "./limit.ts";
import { CHECKPOINT_LIMITS } from "./limits-checkpoint.ts";
import { HASHING_LIMITS } from "./limits-hashing.ts";
import { LORA_LIMITS } from "./limits-lora.ts";
import { ORDER_LIMITS } from "./limits-order.ts";
import { UNPLACED_LIMITS } from "./limits-unplaced.ts";

export type { Limit };

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
  engineWordsBytes: limit(
    512 * 1024 * 1024,
    "bytes",
    "1.2 M blocks of 16 tokens, kept for snapshots of the ENGINE projection",
    "the words of further blocks are not kept; ENGINE snapshots lack these blocks and say incomplete",
  ),
  engineSnapshotTokens: limit(
    16_384,
    "tokens",
    "as snapshotChunkBlocks, for pieces that carry tokens",
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
  http1SilenceMs: limit(
    60_000,
    "milliseconds",
    "a request over HTTP/1.1 that is sent in part and never goes on; Node bounds it for servers that listen themselves",
    "the connection is destroyed",
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
  ...ORDER_LIMITS,
  ...CHECKPOINT_LIMITS,
  ...LORA_LIMITS,
  ...HASHING_LIMITS,
  ...UNPLACED_LIMITS,
} as const satisfies Record<string, Limit>;

/** Name of a bound. */
export type LimitName = keyof typeof LIMITS;
