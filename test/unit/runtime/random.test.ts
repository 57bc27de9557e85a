/**
 * What it is: tests of the seam to chance, and of its seeded twin.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: judge the operating system's generator beyond ranges.
 */
import { describe, expect, test } from "vitest";
import { type Randomness, systemRandomness } from "../../../src/runtime/dist/index.js";
import { SeededRandomness } from "../../support/seeded-randomness.ts";

const sources: readonly [string, Randomness][] = [
  ["system", systemRandomness],
  ["seeded", new SeededRandomness(1)],
];

describe.each(sources)("%s randomness", (_name, source) => {
  test("values stay in their ranges and use the upper half of them", () => {
    let isHigh32 = false;
    let isHigh64 = false;
    let sum = 0;
    for (let i = 0; i < 1_000; i++) {
      const narrow = source.uint32();
      expect(Number.isInteger(narrow) && narrow >= 0 && narrow < 2 ** 32).toBe(true);
      isHigh32 ||= narrow >= 2 ** 31;
      const wide = source.uint64();
      expect(wide >= 0n && wide < 1n << 64n).toBe(true);
      isHigh64 ||= wide >= 1n << 63n;
      const fraction = source.fraction();
      expect(fraction >= 0 && fraction < 1).toBe(true);
      sum += fraction;
    }
    expect([isHigh32, isHigh64]).toEqual([true, true]);
    // 1,000 fractions: the mean has a standard deviation of 0.0091; ten of them never happen.
    expect(Math.abs(sum / 1_000 - 0.5)).toBeLessThan(0.091);
  });
});

describe("seeded randomness", () => {
  test("equal seeds give equal values, other seeds others", () => {
    const draw = (seed: number): number[] => {
      const source = new SeededRandomness(seed);
      return Array.from({ length: 8 }, () => source.uint32());
    };
    expect(draw(42)).toEqual(draw(42));
    expect(draw(42)).not.toEqual(draw(43));
  });

  test("the sequence of seed 42 is the same on every machine", () => {
    const source = new SeededRandomness(42);
    expect([
      source.uint32(),
      source.uint32(),
      source.uint64(),
      source.below(10),
    ]).toMatchInlineSnapshot(`
      [
        660444221,
        3652823732,
        333600959877943329n,
        5,
      ]
    `);
  });

  test("below and pick reach every value", () => {
    const source = new SeededRandomness(7);
    const seen = new Set<number>();
    const picked = new Set<string>();
    for (let i = 0; i < 200; i++) {
      seen.add(source.below(5));
      picked.add(source.pick(["a", "b", "c"]));
    }
    expect([...seen].sort()).toEqual([0, 1, 2, 3, 4]);
    expect([...picked].sort()).toEqual(["a", "b", "c"]);
  });
});
