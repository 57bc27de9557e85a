/**
 * What it is: how a record is written: word 0 is medium (4 bits), rank slot (20), group bit (5) and
 * stride as a power of two (3); word 1 is first offset (16 bits) and last offset (16).
 * Owns: the layout of the words.
 * Refuses: nothing.
 * Does not do: keep records.
 */

/** Media of one rank: ids 0 ... 15. */
export const MEDIA_COUNT = 16;

/** Largest stride of a record as a power of two. */
export const MAX_SHIFT = 7;

/** A holder as 29 bits; holders of medium 0 come first in order. */
export function holderOf(mediumId: number, slot: number, bit: number): number {
  return (mediumId << 25) | (slot << 5) | bit;
}

/** The stride, as a power of two, of two progressions written as one, or -1 when they are not one. */
export function jointShift(
  first: number,
  last: number,
  shift: number,
  nextFirst: number,
  nextLast: number,
  nextShift: number,
): number {
  const gap = nextFirst - last;
  const joint = 31 - Math.clz32(gap);
  if (gap !== 1 << joint || joint > MAX_SHIFT) return -1;
  if (first !== last && shift !== joint) return -1;
  if (nextFirst !== nextLast && nextShift !== joint) return -1;
  return joint;
}
