/**
 * What it is: randomness from a seed: the same values on every machine, for tests and simulations.
 * Owns: its state (xoshiro128**, filled by splitmix32).
 * Refuses: nothing.
 * Does not do: resist anyone.
 */
import { basename } from "node:path";
import { invariant, type Randomness } from "@kv-group-bridge/runtime";

/** `Randomness` that a seed decides. */
export class SeededRandomness implements Randomness {
  private readonly state = new Uint32Array(4);

  /** `seed`: any number; its low 32 bits count. */
  constructor(seed: number) {
    let z = seed | 0;
    for (let i = 0; i < 4; i++) {
      z = (z + 0x9e3779b9) | 0;
      let t = z ^ (z >>> 16);
      t = Math.imul(t, 0x21f0aaad);
      t ^= t >>> 15;
      t = Math.imul(t, 0x735a2d97);
      this.state[i] = t ^ (t >>> 15);
    }
  }

  uint32(): number {
    const s = this.state;
    const [s0 = 0, s1 = 0, s2 = 0, s3 = 0] = s;
    const times5 = Math.imul(s1, 5);
    const result = Math.imul((times5 << 7) | (times5 >>> 25), 9) >>> 0;
    const t2 = s2 ^ s0;
    const t3 = s3 ^ s1;
    s[1] = s1 ^ t2;
    s[0] = s0 ^ t3;
    s[2] = t2 ^ (s1 << 9);
    s[3] = (t3 << 11) | (t3 >>> 21);
    return result;
  }

  uint64(): bigint {
    const high = BigInt(this.uint32());
    return (high << 32n) | BigInt(this.uint32());
  }

  fraction(): number {
    const high = this.uint32();
    return (high * 2 ** 21 + (this.uint32() >>> 11)) / 2 ** 53;
  }

  /** A whole number 0 … bound − 1, uniform up to 2^-21 for bounds below 2^32. */
  below(bound: number): number {
    invariant(bound > 0, "a bound is positive");
    return Math.floor(this.fraction() * bound);
  }

  /** A whole number `least` … `most`. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  /** One of `list`. */
  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0];
  }
}

/** A seed for one file: its name, not its folder, decides. */
export function mixSeed(seed: number, file: string): number {
  let mixed = seed | 0;
  for (const character of basename(file)) {
    mixed = (Math.imul(mixed, 31) + character.charCodeAt(0)) | 0;
  }
  return mixed;
}
