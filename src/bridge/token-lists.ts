/**
 * What it is: the reading of `token_ids` and `lookahead_token_ids`, and the sums that must hold
 * between tokens, hashes and block size.
 * Owns: nothing.
 * Refuses: what is not a uint32, lists that are too long, spans that do not go with the hashes.
 * Does not do: pair hashes with tokens: a sparse store has fewer hashes than blocks, and no ordinal
 * says which.
 */
import { LIMITS, ok, type Result, refuse } from "@kv-group-bridge/protocol";
import type { EventForm } from "./event-form.ts";
import { parseUint32List } from "./integers.ts";

const NO_TOKENS = new Uint32Array(0);

/**
 * Reads `token_ids`; absent or nil (Mooncake's connector) = none. Refused with tokens_invalid or
 * too_many_tokens.
 */
export function parseTokens(form: EventForm): Result<Uint32Array> {
  const value = form.fields.token_ids;
  if (value === undefined || value === null) return ok(NO_TOKENS);
  const path = `${form.path}.token_ids`;
  if (!Array.isArray(value)) return refuse("tokens_invalid", path);
  if (value.length > LIMITS.tokensPerEvent.value) return refuse("too_many_tokens", path);
  const tokens = parseUint32List(value);
  return tokens === undefined ? refuse("tokens_invalid", path) : ok(tokens);
}

/** The three numbers of a span. */
interface SpanSizes {
  readonly tokenCount: number;
  readonly hashCount: number;
  readonly blockSizeTokens: number;
}

/**
 * Passes spans of whole blocks with at most as many hashes as blocks, and events without tokens
 * (any block size, 0 included: placeholders of offload tiers). Refused with block_size_invalid
 * (tokens in blocks of 0) or tokens_misaligned (LMCache's blocks of one token too many among them).
 */
export function checkSpan(form: EventForm, sizes: SpanSizes): Result<undefined> {
  const { tokenCount, hashCount, blockSizeTokens } = sizes;
  if (tokenCount === 0) return ok(undefined);
  if (blockSizeTokens === 0) return refuse("block_size_invalid", `${form.path}.block_size`);
  const isAligned = tokenCount % blockSizeTokens === 0;
  if (!isAligned || hashCount * blockSizeTokens > tokenCount) {
    return refuse("tokens_misaligned", `${form.path}.token_ids`);
  }
  return ok(undefined);
}

/**
 * Reads `lookahead_token_ids` (vLLM 0.33.0, EAGLE and MTP): one list a hash, all of one length;
 * undefined = absent or nil. Refused with lookahead_invalid or too_many_tokens (all lists
 * together).
 */
export function parseLookahead(
  form: EventForm,
  hashCount: number,
): Result<readonly Uint32Array[] | undefined> {
  const value = form.fields.lookahead_token_ids;
  if (value === undefined || value === null) return ok(undefined);
  const path = `${form.path}.lookahead_token_ids`;
  if (!Array.isArray(value) || value.length !== hashCount) return refuse("lookahead_invalid", path);
  const first: unknown = value[0];
  const length = Array.isArray(first) ? first.length : 0;
  if (length * hashCount > LIMITS.tokensPerEvent.value) return refuse("too_many_tokens", path);
  const lists: Uint32Array[] = [];
  for (let i = 0; i < value.length; i++) {
    const entry: unknown = value[i];
    if (!Array.isArray(entry) || entry.length !== length) return refuse("lookahead_invalid", path);
    const tokens = parseUint32List(entry);
    if (tokens === undefined) return refuse("lookahead_invalid", path);
    lists.push(tokens);
  }
  return ok(lists);
}
