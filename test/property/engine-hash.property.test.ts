/**
 * What it is: laws of the engine's block hashes over generated prompts.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: say that they are vLLM's (test/unit/engine-hash/vllm-vectors.test.ts does).
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { blockHashes, type HashedPrompt, seedDigest } from "../../src/engine-hash/dist/index.js";
import { HASH_ALGORITHMS, type HashScheme } from "../../src/protocol/dist/index.js";

const FC_SEED = 20_261_130;
const text = fc.string({ unit: "grapheme", maxLength: 8 });
const prompt: fc.Arbitrary<HashedPrompt> = fc.record({
  tokens: fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }), { maxLength: 60 }),
  loraName: fc.option(fc.constantFrom("one", "two"), { nil: undefined }),
  cacheSalt: fc.option(text, { nil: undefined }),
  items: fc.array(
    fc.record({ identifier: text, offset: fc.nat({ max: 60 }), length: fc.nat({ max: 20 }) }),
    { maxLength: 4 },
  ),
});
const scheme: fc.Arbitrary<HashScheme> = fc
  .record({
    algorithm: fc.constantFrom(...HASH_ALGORITHMS),
    extraKeyForm: fc.constantFrom("tagged", "untagged"),
    unitTokens: fc.integer({ min: 1, max: 20 }),
  })
  .map((drawn) => ({
    ...drawn,
    seedOrigin: "common" as const,
    rootDigest: seedDigest(drawn.algorithm, "42"),
    loraPaths: new Map([
      ["one", "/one"],
      ["two", "/two"],
    ]),
  }));
const lookahead = fc.integer({ min: 0, max: 3 });

describe("block hashes of a prompt", () => {
  test("one digest for every whole unit whose look-ahead is there, all different", () => {
    fc.assert(
      fc.property(prompt, scheme, lookahead, (one, how, ahead) => {
        const digests = blockHashes(one, how, ahead);
        const units = Math.floor((one.tokens.length - ahead) / how.unitTokens);
        expect(digests).toHaveLength(Math.max(0, units));
        expect(new Set(digests.map(({ digest }) => digest)).size).toBe(digests.length);
      }),
      { seed: FC_SEED, numRuns: 500 },
    );
  });

  test("a digest depends on nothing after its end and look-ahead", () => {
    const cut = fc.nat({ max: 60 });
    fc.assert(
      fc.property(prompt, scheme, lookahead, cut, (one, how, ahead, length) => {
        const tokens = Array.from(one.tokens).slice(0, length);
        const begun = blockHashes({ ...one, tokens }, how, ahead);
        expect(blockHashes(one, how, ahead).slice(0, begun.length)).toEqual(begun);
      }),
      { seed: FC_SEED, numRuns: 500 },
    );
  });

  test("another token changes every digest from the first that covers it, and none before", () => {
    fc.assert(
      fc.property(prompt, scheme, lookahead, fc.nat(), (one, how, ahead, draw) => {
        fc.pre(one.tokens.length > 0);
        const at = draw % one.tokens.length;
        const tokens = Array.from(one.tokens, (id, index) => (index === at ? id ^ 1 : id) >>> 0);
        const before = blockHashes(one, how, ahead);
        for (const [index, { digest, endTokens }] of blockHashes(
          { ...one, tokens },
          how,
          ahead,
        ).entries()) {
          expect(digest === before[index]?.digest).toBe(at >= endTokens + ahead);
        }
      }),
      { seed: FC_SEED, numRuns: 500 },
    );
  });
});
