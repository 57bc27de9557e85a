/**
 * What it is: the bounds of following an engine: order, replay, its sockets, this process.
 * Owns: the numbers.
 * Refuses: nothing.
 * Does not do: read configuration; see limits.ts.
 */
import { type Limit, limit } from "./limit.ts";

/** Part of `LIMITS`. */
export const ORDER_LIMITS = {
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
  stallMs: limit(
    2_000,
    "milliseconds",
    "a process that stood still (stopped, suspended) does not know what its sockets would have told it",
    "the engine counts as disconnected until wakeGraceMs after it runs again",
  ),
  wakeGraceMs: limit(
    1_000,
    "milliseconds",
    "time in which sockets tell of what happened while the process stood still",
    "what they have told by then counts",
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
} as const satisfies Record<string, Limit>;
