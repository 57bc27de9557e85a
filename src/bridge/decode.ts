/**
 * What it is: the stage bytes → plain values. 64-bit integers are exact (bigint); smaller ones are
 * numbers.
 * Owns: the settings of the msgpack decoder.
 * Refuses: payloads that are too large or are not exactly one sound msgpack value; never by
 * throwing.
 * Does not do: give values a meaning. Of two equal names in one map the last one counts, as in
 * Python.
 */

import { LIMITS, ok, type Result, refuse } from "@kv-group-bridge/protocol";
import { DecodeError, Decoder } from "@msgpack/msgpack";
import { prescan } from "./prescan.ts";

/**
 * The name under which a map keeps what stood under a name that is no text (a number, bytes, a
 * string that is not UTF-8, `__proto__`). A map that has it cannot be read by names with
 * confidence.
 */
export const ODD_NAME = "\0";

function mapName(key: unknown): string {
  return typeof key === "string" ? key : ODD_NAME;
}

/**
 * Decodes one payload: nil → null, bytes → Uint8Array (a view of `payload`, to be copied by who
 * keeps it), int64 and uint64 encodings → bigint, whatever their value. Inside events, what no
 * field may hold (extension types, floats, strings that are not UTF-8) comes out as a list that
 * begins with `true`. Refused with payload_too_large or payload_malformed.
 */
export function decodePayload(payload: Uint8Array): Result<unknown> {
  if (payload.length > LIMITS.payloadBytes.value) return refuse("payload_too_large", "payload");
  const bytes = prescan(payload);
  if (bytes === undefined) return refuse("payload_malformed", "payload");
  // One decoder a payload: a shared one would keep the last payload and its values alive.
  const decoder = new Decoder({ useBigInt64: true, maxExtLength: 0, mapKeyConverter: mapName });
  try {
    return ok(decoder.decode(bytes));
  } catch (error) {
    if (error instanceof DecodeError || error instanceof RangeError) {
      return refuse("payload_malformed", "payload");
    }
    throw error;
  }
}
