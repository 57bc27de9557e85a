/**
 * What it is: the seam to chance, as an interface, with the real one.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: make ids (an epoch of 0 is not one: the caller of `uint64` must ask again).
 */
import { randomBytes } from "node:crypto";

/** Uniform random values. */
export interface Randomness {
  /** 0 … 2^32 − 1. */
  uint32(): number;
  /** 0 … 2^64 − 1. */
  uint64(): bigint;
  /** At least 0, below 1, a multiple of 2^-53. */
  fraction(): number;
}

/** The operating system's generator. */
export const systemRandomness: Randomness = {
  uint32: () => randomBytes(4).readUInt32LE(),
  uint64: () => randomBytes(8).readBigUInt64LE(),
  fraction: () => Number(randomBytes(8).readBigUInt64LE() >> 11n) / 2 ** 53,
};
