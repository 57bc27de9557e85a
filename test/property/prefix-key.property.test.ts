/**
 * What it is: laws of the prefix key over generated input, and its statistics: diffusion and
 * collisions.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: prove security. The statistics notice a part that is not mixed in (tried: the end
 * left out); they do not notice fewer rounds or a wrong rotation (tried as well): the dull twin and
 * the vectors do.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KeyedHasher, STATE_WORDS } from "../../src/protocol/dist/index.js";
import { type DullPrompt, dullPrefixKey } from "../support/dull-prefix-key.ts";
import { absorbTo, keyIn, realPrefixKey, rootState } from "../support/real-prefix-key.ts";
import { SeededRandomness } from "../support/seeded-randomness.ts";

const FC_SEED = 20_261_130;
const token = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const text = fc.string({ unit: "grapheme", maxLength: 12 });
const prompt: fc.Arbitrary<DullPrompt> = fc.record({
  seed: fc.string({ unit: "grapheme", minLength: 16, maxLength: 40 }),
  loraName: fc.option(text, { nil: undefined }),
  cacheSalt: fc.option(text, { nil: undefined }),
  items: fc.array(fc.record({ identifier: text, startTokens: fc.nat({ max: 70 }) }), {
    maxLength: 4,
  }),
  tokens: fc.array(token, { maxLength: 64 }),
});

describe("laws", () => {
  test("the product equals its dull twin", () => {
    fc.assert(
      fc.property(prompt, (one) => realPrefixKey(one) === dullPrefixKey(one)),
      { seed: FC_SEED, numRuns: 400 },
    );
  });

  test("any way of splitting, saving and loading gives the key of one go, at every end", () => {
    const splits = fc.array(fc.record({ end: fc.nat({ max: 64 }), isSaved: fc.boolean() }));
    fc.assert(
      fc.property(prompt, splits, (one, parts) => {
        const hasher = new KeyedHasher(one.seed);
        let state = rootState(hasher, one);
        const stops = [...parts].sort((a, b) => a.end - b.end);
        for (const { end, isSaved } of [...stops, { end: 64, isSaved: false }]) {
          absorbTo(state, hasher, one, Math.min(end, one.tokens.length));
          const words = new Uint32Array(STATE_WORDS);
          state.save(words, 0);
          if (isSaved) {
            const { endTokens } = state;
            state = rootState(hasher, one);
            state.load(words, 0, endTokens);
          }
          state.finish();
          const whole = { ...one, tokens: one.tokens.slice(0, state.endTokens) };
          expect(keyIn(state)).toBe(realPrefixKey(whole, hasher));
        }
      }),
      { seed: FC_SEED, numRuns: 300 },
    );
  });

  test("two different prompts of one namespace and seed have different keys", () => {
    const tokens = fc.array(fc.nat({ max: 3 }), { maxLength: 6 });
    const hasher = new KeyedHasher("one seed for all of them");
    const seen = new Map<bigint, string>();
    fc.assert(
      fc.property(tokens, (list) => {
        const key = realPrefixKey({ seed: "", tokens: list }, hasher);
        const name = list.join(",");
        const known = seen.get(key) ?? name;
        seen.set(key, known);
        return known === name;
      }),
      { seed: FC_SEED, numRuns: 5_000 },
    );
    expect(seen.size).toBeGreaterThan(1_000);
  });
});

const TRIALS = 6_000;

/** Key differences of `TRIALS` pairs, judged: mean 32 ± 1 flipped bits, each bit in 45 to 55 %. */
function expectAvalanche(difference: (random: SeededRandomness, trial: number) => bigint): void {
  const random = new SeededRandomness(4_711);
  const flips = new Array<number>(64).fill(0);
  for (let trial = 0; trial < TRIALS; trial++) {
    const changed = difference(random, trial);
    for (let bit = 0; bit < 64; bit++) {
      if (((changed >> BigInt(bit)) & 1n) === 1n) flips[bit] = (flips[bit] ?? 0) + 1;
    }
  }
  const mean = flips.reduce((sum, count) => sum + count, 0) / TRIALS;
  expect(Math.abs(mean - 32)).toBeLessThan(1);
  expect(Math.min(...flips) / TRIALS).toBeGreaterThan(0.45);
  expect(Math.max(...flips) / TRIALS).toBeLessThan(0.55);
}

describe("avalanche", () => {
  const seed = "a fixed seed for avalanche";
  const hasher = new KeyedHasher(seed);
  const keyOf = (tokens: readonly number[]): bigint => realPrefixKey({ seed, tokens }, hasher);

  test("one bit of any token changes half of the key", () => {
    expectAvalanche((random) => {
      const tokens = Array.from({ length: 1 + random.below(20) }, () => random.uint32());
      const at = random.below(tokens.length);
      const changed = [...tokens];
      changed[at] = ((tokens[at] ?? 0) ^ (1 << random.below(32))) >>> 0;
      return keyOf(tokens) ^ keyOf(changed);
    });
  });

  // The last token has the fewest rounds behind it: one, the end's, and three.
  test("one bit of the last token, among small ones, changes half of the key", () => {
    expectAvalanche((random) => {
      const tokens = Array.from({ length: 16 }, () => random.below(1_000));
      const changed = [...tokens];
      changed[15] = ((tokens[15] ?? 0) ^ (1 << random.below(17))) >>> 0;
      return keyOf(tokens) ^ keyOf(changed);
    });
  });

  test("the position of a token changes half of the key", () => {
    expectAvalanche((random) => {
      const at = random.below(64);
      const moved = at ^ (1 << random.below(6));
      const filler = random.below(1_000);
      const marked = random.below(150_000) + 1_000;
      const place = (where: number): number[] =>
        Array.from({ length: 64 }, (_, i) => (i === where ? marked : filler));
      return keyOf(place(at)) ^ keyOf(place(moved));
    });
  });

  test("one bit of the end changes half of the key, the state being equal", () => {
    expectAvalanche((random) => {
      const state = rootState(hasher, { seed, tokens: [] });
      state.absorb([random.below(150_000)], 0, 1);
      state.endTokens = random.below(2 ** 21);
      state.finish();
      const first = keyIn(state);
      state.endTokens ^= 1 << random.below(21);
      state.finish();
      return first ^ keyIn(state);
    });
  });

  test("one bit of the seed changes half of the key", () => {
    expectAvalanche((random) => {
      const letters = Array.from({ length: 16 }, () => 32 + random.below(64));
      const changed = [...letters];
      const at = random.below(16);
      changed[at] = (letters[at] ?? 0) ^ (1 << random.below(5));
      const [one, other] = [letters, changed].map((codes) => String.fromCharCode(...codes));
      const tokens = [1, 2, 3];
      return (
        realPrefixKey({ seed: one ?? "", tokens }) ^ realPrefixKey({ seed: other ?? "", tokens })
      );
    });
  });
});

const KEYS = 20_000;
const NARROW_BITS = 24n;

/** Sets of prompts that a weak hash would map alike. Each generator yields `KEYS` prompts. */
const families: readonly [string, (index: number) => readonly number[]][] = [
  ["counting tokens", (index) => [index]],
  ["counting tokens at the end of a block", (index) => [...Array<number>(15).fill(7), index]],
  ["shifted windows", (index) => Array.from({ length: 16 }, (_, i) => index + i)],
  ["permutations", (index) => permutation(index, 8)],
  ["single-bit differences", (index) => singleBit(index)],
  ["runs of one token", (index) => Array<number>(index % 500).fill(Math.floor(index / 500))],
];

function permutation(index: number, size: number): number[] {
  const left = Array.from({ length: size }, (_, i) => i);
  const out: number[] = [];
  let rest = index;
  for (let n = size; n > 0; n--) {
    out.push(...left.splice(rest % n, 1));
    rest = Math.floor(rest / n);
  }
  return out;
}

function singleBit(index: number): number[] {
  const tokens = new Array<number>(625).fill(0);
  tokens[index >> 5] = (1 << (index & 31)) >>> 0;
  return tokens;
}

describe("collisions at 24 bits, among 20,000 keys", () => {
  const hasher = new KeyedHasher("a fixed seed for collisions");
  const expected = (KEYS * (KEYS - 1)) / 2 / 2 ** Number(NARROW_BITS);

  test.each(families)("%s: as many as chance gives, and none at 64 bits", (_name, tokensOf) => {
    const keys: bigint[] = [];
    const prompts = new Set<string>();
    for (let index = 0; index < KEYS; index++) {
      const tokens = tokensOf(index);
      const name = tokens.join(",");
      if (prompts.has(name)) continue;
      prompts.add(name);
      keys.push(realPrefixKey({ seed: "", tokens }, hasher));
    }
    // "Runs" has one empty prompt many times; every other family is all different.
    expect(keys.length).toBeGreaterThan(KEYS - 100);
    expect(new Set(keys).size).toBe(keys.length);
    for (const shift of [0n, 20n, 40n]) {
      const seen = new Map<bigint, number>();
      let pairs = 0;
      for (const key of keys) {
        const narrow = (key >> shift) & ((1n << NARROW_BITS) - 1n);
        const before = seen.get(narrow) ?? 0;
        pairs += before;
        seen.set(narrow, before + 1);
      }
      expect(Math.abs(pairs - expected)).toBeLessThan(4 * Math.sqrt(expected));
    }
  });
});
