/**
 * What it is: reads of typed arrays in hot loops. All state of the index is in Int32Arrays, so that
 * these reads have one shape everywhere.
 * Owns: nothing.
 * Refuses: nothing; callers stay inside the arrays.
 * Does not do: check bounds (an index outside reads as 0 in integer arithmetic; audits find the bug).
 */

/** A word of an array. */
export function word(words: Int32Array, at: number): number {
  return words[at] as number;
}

/** An array of a list of arrays. */
export function chunkAt(chunks: readonly Int32Array[], at: number): Int32Array {
  return chunks[at] as Int32Array;
}

/** A copy with room for `length` words. */
export function resized(words: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const next = new Int32Array(length);
  next.set(words);
  return next;
}

/** Words of a run of ends: first, last, step. */
export const RUN_WORDS = 3;

/** The largest multiple of `unit` that is at most `value`. */
export function floorTo(value: number, unit: number): number {
  return value - (value % unit);
}
