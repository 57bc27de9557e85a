/**
 * What it is: the reading of integers and lists of integers, whatever width their encoder chose.
 * Owns: nothing.
 * Refuses: everything that is not a uint32 (by undefined).
 * Does not do: name reasons or paths.
 */
import { isUint32 } from "@kv-group-bridge/protocol";

/**
 * 64-bit encodings of small values (some encoders write every integer so) as numbers; anything else
 * unchanged.
 */
export function narrowInteger(value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  const narrowed = Number(value);
  return Number.isSafeInteger(narrowed) ? narrowed : value;
}

/** A list of uint32 as a typed array of its own; undefined when `list` holds anything else. */
export function parseUint32List(list: readonly unknown[]): Uint32Array | undefined {
  const values = new Uint32Array(list.length);
  for (let i = 0; i < list.length; i++) {
    let value = list[i];
    if (typeof value === "bigint") value = narrowInteger(value);
    if (!isUint32(value)) return undefined;
    values[i] = value;
  }
  return values;
}
