// Goal: the digests are those of vLLM's own functions, for every algorithm and shape of a block. Method: committed digests that
// installed releases computed (test/fixtures/make-engine-hash-vectors.py), named ones and 12,000 drawn prompts a release.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  type BlockDigest,
  BlockHasher,
  blockHashes,
  seedDigest,
} from "../../../src/engine-hash/dist/index.js";
import {
  type ExtraKeyForm,
  HASH_ALGORITHMS,
  type HashAlgorithm,
} from "../../../src/protocol/dist/index.js";
import { type DrawnPrompt, Draws } from "./draws.ts";

const perAlgorithm = <T extends z.ZodType>(value: T) =>
  z.strictObject({ sha256: value, sha256_cbor: value, xxhash: value, xxhash_cbor: value });
const fixture = z.looseObject({
  vllm: z.string(),
  form: z.enum(["tagged", "untagged"]),
  lookaheads: z.array(z.int()),
  seed: z.string(),
  seeds: perAlgorithm(z.record(z.string(), z.string())),
  named: z.array(
    z.looseObject({
      name: z.string(),
      unit: z.int(),
      lookahead: z.int().default(0),
      tokens: z.array(z.int()),
      lora: z.tuple([z.string(), z.string()]).optional(),
      salt: z.string().optional(),
      items: z.array(z.tuple([z.string(), z.int(), z.int()])).default([]),
      digests: perAlgorithm(z.array(z.string())),
    }),
  ),
  random: z.looseObject({
    seed: z.int(),
    prompts: z.int(),
    chunk: z.int(),
    blocks: z.int(),
    sums: perAlgorithm(z.array(z.string())),
  }),
  frames: z
    .array(z.strictObject({ wide: z.int(), narrow: z.int(), digest: z.string() }))
    .default([]),
});
const releases = ["0.23.0", "0.32.0", "0.33.0"].map((version) =>
  fixture.parse(
    JSON.parse(
      readFileSync(
        new URL(`../../fixtures/engine-hash-vllm-${version}.json`, import.meta.url),
        "utf8",
      ),
    ),
  ),
);

const hex = (digest: string | undefined) =>
  digest === undefined ? undefined : Buffer.from(digest, "latin1").toString("hex");

function digestsOf(
  algorithm: HashAlgorithm,
  extraKeyForm: ExtraKeyForm,
  prompt: DrawnPrompt,
): readonly BlockDigest[] {
  const { loraName, loraPath, unitTokens } = prompt;
  const isPathKnown = loraName !== undefined && loraPath !== undefined;
  const scheme = {
    algorithm,
    seedOrigin: "configured",
    rootDigest: seedDigest(algorithm, "0"),
    unitTokens,
    extraKeyForm,
    loraPaths: new Map(isPathKnown ? [[loraName, loraPath]] : []),
  } as const;
  return blockHashes(prompt, scheme, prompt.lookaheadTokens);
}

describe.each(releases)("vLLM $vllm", ({ form, named, seeds, random, lookaheads }) => {
  test.each(HASH_ALGORITHMS)("seed texts, %s", (algorithm) => {
    for (const [text, digest] of Object.entries(seeds[algorithm])) {
      expect(hex(seedDigest(algorithm, text))).toBe(digest);
    }
  });

  test.each(named)("$name", ({ unit, lookahead, tokens, lora, salt, items, digests }) => {
    for (const algorithm of HASH_ALGORITHMS) {
      const found = digestsOf(algorithm, form, {
        unitTokens: unit,
        lookaheadTokens: lookahead,
        tokens,
        loraName: lora?.[0],
        loraPath: lora?.[1],
        cacheSalt: salt,
        items: items.map(([identifier, offset, length]) => ({ identifier, offset, length })),
      });
      expect(found.map(({ digest }) => hex(digest))).toEqual(digests[algorithm]);
      expect(found.map(({ endTokens }) => endTokens)).toEqual(
        digests[algorithm].map((_, index) => (index + 1) * unit),
      );
    }
  });

  test.each(HASH_ALGORITHMS)("drawn prompts, %s", (algorithm) => {
    const draws = new Draws(random.seed);
    const sums: string[] = [];
    let blocks = 0;
    for (let chunk = 0; chunk * random.chunk < random.prompts; chunk++) {
      const sum = createHash("sha256");
      for (let i = 0; i < random.chunk; i++) {
        const found = digestsOf(algorithm, form, draws.prompt(lookaheads));
        const count = Buffer.alloc(4);
        count.writeUInt32BE(found.length);
        sum.update(count);
        for (const { digest } of found) sum.update(digest, "latin1");
        blocks += found.length;
      }
      sums.push(sum.digest("hex").slice(0, 16));
    }
    expect(sums).toEqual(random.sums[algorithm]);
    expect(blocks).toBe(random.blocks);
  });
});

test.each(releases.filter(({ frames }) => frames.length > 0))(
  "vLLM $vllm: a pickle of more than one frame has no digest here",
  ({ form, frames }) => {
    const hasher = new BlockHasher("sha256", form);
    const root = seedDigest("sha256", "0");
    if (root === undefined) throw new Error("a seed text of one character has a digest");
    let refused = 0;
    for (const { wide, narrow, digest } of frames) {
      const tokens = [...Array(wide).fill(300), ...Array(narrow).fill(7)];
      const to = tokens.length;
      const block = { tokens, from: 0, to, ahead: tokens, aheadFrom: to, aheadTo: to };
      const found = hasher.digest(root, block, undefined);
      // 35 of the parent, 3 of the tuple of ids and its MEMOIZE, 3 of the end before STOP
      const isOneFrame = 35 + 1 + 3 * wide + 2 * narrow + 2 + 3 < 65_536;
      if (!isOneFrame) refused += 1;
      expect(hex(found)?.slice(0, 16)).toBe(isOneFrame ? digest : undefined);
    }
    expect(refused).toBeGreaterThan(0);
    expect(refused).toBeLessThan(frames.length);
  },
);
