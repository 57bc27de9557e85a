/**
 * What it is: the closed lists of what can go wrong, and the two forms in which it is said.
 * Owns: refusal reasons (bad input, counted) and error codes (the world failed, thrown by adapters).
 * Refuses: nothing.
 * Does not do: log, count or decide. Our own bugs are `invariant`'s.
 */

/**
 * Why input was refused. What each costs stands in docs/protocol.md; a test compares both lists.
 * Whole message: frame_count … rank_mismatch. One event: event_shape … hash_replaced.
 * text_too_long can be either: a topic that is too long refuses the message.
 */
export const REFUSAL_REASONS = [
  "frame_count",
  "sequence_width",
  "sequence_reserved",
  "topic_mismatch",
  "payload_too_large",
  "payload_malformed",
  "batch_shape",
  "too_many_events",
  "rank_mismatch",
  "event_shape",
  "event_tag",
  "event_unknown",
  "event_arity",
  "hashes_invalid",
  "hash_invalid",
  "hashes_mixed",
  "too_many_hashes",
  "parent_invalid",
  "parent_is_own_hash",
  "hash_repeated",
  "tokens_invalid",
  "too_many_tokens",
  "tokens_misaligned",
  "block_size_invalid",
  "extra_keys_invalid",
  "lookahead_invalid",
  "text_invalid",
  "text_too_long",
  "lora_invalid",
  "medium_invalid",
  "locality_invalid",
  "ownership_invalid",
  "group_invalid",
  "group_missing",
  "too_many_groups",
  "too_many_media",
  "kind_invalid",
  "kind_contradicts",
  "window_invalid",
  "window_contradicts",
  "lookahead_contradicts",
  "block_size_contradicts",
  "roster_contradicts",
  "group_private",
  "place_contradicts",
  "hash_replaced",
  "hash_not_reproduced",
] as const;

/** One of `REFUSAL_REASONS`. */
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** Bad input: where and why. `path` names fields, never values. */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly path: string;
  /** The sizes that disagree, where that helps an operator; never token ids or hashes. */
  readonly detail?: string;
}

/** Either a value or why there is none. */
export type Result<T, E = Refusal> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: E };

/** A good result. */
export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

/** A refusal as a result. */
export function refuse(
  reason: RefusalReason,
  path: string,
  detail?: string,
): { readonly ok: false; readonly error: Refusal } {
  return { ok: false, error: detail === undefined ? { reason, path } : { reason, path, detail } };
}

/** What can fail in the world outside. */
export const ERROR_CODES = [
  "config_invalid",
  "config_unreadable",
  "listen_failed",
  "listen_insecure",
  "tls_invalid",
  "engine_endpoint_invalid",
  "engine_socket_failed",
  "checkpoint_failed",
  "bridge_unreachable",
  "worker_exists",
  "worker_unknown",
  "worker_limit",
  "prompt_invalid",
  "trace_invalid",
] as const;

/** One of `ERROR_CODES`. */
export type ErrorCode = (typeof ERROR_CODES)[number];

/** The world failed, or a caller asked for what cannot be. Match on `code`, never on the message. */
export class KvEventsError extends Error {
  override readonly name = "KvEventsError";
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
