/**
 * What it is: the seam between a rank's synchronous core and the engine's replay socket.
 * Owns: types only.
 * Refuses: nothing.
 * Does not do: ask, wait or judge.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";

/** Why a request brought no end marker. A closed list; counted as `replay_failed.<reason>`. */
export const REPLAY_FAILURES = [
  /** Nothing came for `LIMITS.replaySilenceMs`, or the end not within `LIMITS.replayRequestMs`. */
  "timeout",
  /** The socket could not be opened, or broke. */
  "socket_failed",
  /** A reply of neither of vLLM's forms, or of another topic. */
  "malformed",
] as const;

/** One of `REPLAY_FAILURES`. */
export type ReplayFailure = (typeof REPLAY_FAILURES)[number];

/** What one request brings, in this order: batches, then exactly one of `onEnd` and `onFailed`. */
export interface ReplayHandlers {
  /** A replayed batch. `payload` may be a view: nothing of it may be kept after the call. */
  onBatch(sequence: SequenceNumber, payload: Uint8Array): void;
  /** The engine's end marker. It does not prove that nothing is missing (vllm-events, 3.5). */
  onEnd(): void;
  /** No end marker will come. */
  onFailed(reason: ReplayFailure): void;
}

/** The engine's replay socket of one rank. At most one request is in flight. */
export interface ReplayPort {
  /**
   * Asks for every batch from `from` on that the engine still has. Handlers are called later, never inside this
   * call. The returned function ends the request: no handler is called after it.
   */
  request(from: SequenceNumber, handlers: ReplayHandlers): () => void;
}
