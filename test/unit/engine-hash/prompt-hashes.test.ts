// Goal: a prompt's digests reach exactly as far as they can be known. Examples: the reach rules; what a digest covers is proven by
// vllm-vectors.test.ts.
import { describe, expect, test } from "vitest";
import {
  blockHashes,
  COMMON_SEED_TEXTS,
  DEFAULT_SEED_TEXT,
  type HashedPrompt,
  PromptHashes,
  publishedHash,
  seedDigest,
} from "../../../src/engine-hash/dist/index.js";
import { digestOf, type HashScheme, parseIntegerHash } from "../../../src/protocol/dist/index.js";

const rootDigest = seedDigest("sha256", DEFAULT_SEED_TEXT);
const scheme: HashScheme = {
  algorithm: "sha256",
  seedOrigin: "default",
  rootDigest,
  unitTokens: 4,
  extraKeyForm: "tagged",
  loraPaths: new Map([["sql", "/adapters/sql"]]),
};
const prompt: HashedPrompt = {
  tokens: Array.from({ length: 18 }, (_, i) => i + 1),
  loraName: undefined,
  cacheSalt: undefined,
  items: [],
};

function reachOf(
  changes: Partial<HashedPrompt>,
  schemeChanges: Partial<HashScheme> = {},
  lookaheadTokens = 0,
): number {
  const hashes = new PromptHashes({ ...scheme, ...schemeChanges }, lookaheadTokens);
  hashes.reset({ ...prompt, ...changes });
  return hashes.reachTokens;
}

describe("reach", () => {
  test("the last whole unit whose look-ahead is there", () => {
    expect(reachOf({})).toBe(16);
    expect(reachOf({}, {}, 2)).toBe(16);
    expect(reachOf({}, {}, 3)).toBe(12);
    expect(reachOf({}, {}, 20)).toBe(0);
    expect(reachOf({ tokens: [] })).toBe(0);
  });

  test("nothing without the root digest", () => {
    expect(reachOf({}, { rootDigest: undefined })).toBe(0);
  });

  test("a LoRA adapter needs its path in the tagged form, its name alone before", () => {
    expect(reachOf({ loraName: "sql" })).toBe(16);
    expect(reachOf({ loraName: "other" })).toBe(0);
    expect(reachOf({ loraName: "other" }, { extraKeyForm: "untagged" })).toBe(16);
  });

  test("while the extra key form is unknown, a prompt ends before its first extra key", () => {
    const unknown = { extraKeyForm: undefined };
    const item = { identifier: "image", offset: 9, length: 4 };
    expect(reachOf({}, unknown)).toBe(16);
    expect(reachOf({ loraName: "sql" }, unknown)).toBe(0);
    expect(reachOf({ cacheSalt: "tenant" }, unknown)).toBe(0);
    expect(reachOf({ cacheSalt: "" }, unknown)).toBe(16);
    expect(reachOf({ items: [item] }, unknown)).toBe(8);
    expect(reachOf({ items: [item] }, unknown, 1)).toBe(8);
    expect(reachOf({ items: [item] }, unknown, 2)).toBe(4);
  });

  test("nothing that could hold an item of unknown length", () => {
    const known = { identifier: "one", offset: 1, length: 2 };
    const open = { identifier: "two", offset: 12, length: undefined };
    expect(reachOf({ items: [known, open] })).toBe(12);
    expect(reachOf({ items: [open, known] })).toBe(12);
    expect(reachOf({ items: [known, open] }, {}, 1)).toBe(8);
  });

  test("below an item of unknown length the digests are those of a prompt without it", () => {
    const known = { identifier: "one", offset: 1, length: 2 };
    const open = { identifier: "two", offset: 12, length: undefined };
    const whole = blockHashes({ ...prompt, items: [known] }, scheme, 0);
    expect(blockHashes({ ...prompt, items: [known, open] }, scheme, 0)).toEqual(whole.slice(0, 3));
  });
});

describe("digests", () => {
  test("ends may be skipped and asked again, and a prompt replaces the one before", () => {
    const all = blockHashes(prompt, scheme, 1);
    const hashes = new PromptHashes(scheme, 1);
    hashes.reset({ ...prompt, cacheSalt: "tenant" });
    expect(hashes.digestAt(8)).not.toBe(all[1]?.digest);
    hashes.reset(prompt);
    expect([8, 8, 16].map((end) => hashes.digestAt(end))).toEqual([
      all[1]?.digest,
      all[1]?.digest,
      all[3]?.digest,
    ]);
  });

  test("an end out of order, off the grid or beyond the reach is our own bug", () => {
    const hashes = new PromptHashes(scheme, 0);
    hashes.reset(prompt);
    hashes.digestAt(8);
    for (const end of [4, 10, 0, 20]) expect(() => hashes.digestAt(end)).toThrow("end");
  });

  test("a text without a UTF-8 form ends the chain where it comes in", () => {
    const broken = { identifier: "\ud800", offset: 9, length: 2 };
    expect(blockHashes({ ...prompt, items: [broken] }, scheme, 0)).toHaveLength(2);
    expect(blockHashes({ ...prompt, cacheSalt: "\ud800" }, scheme, 0)).toEqual([]);
    expect(seedDigest("sha256_cbor", "\udfff")).toBeUndefined();
  });

  test("the salt is in the first block alone, and the chain carries it on", () => {
    const salted = blockHashes({ ...prompt, cacheSalt: "tenant" }, scheme, 0);
    const plain = blockHashes(prompt, scheme, 0);
    expect(salted).toHaveLength(plain.length);
    for (const [index, block] of salted.entries())
      expect(block.digest).not.toBe(plain[index]?.digest);
  });
});

test("an integer hash is the low 64 bits, a byte hash the whole digest", () => {
  const digest = digestOf(
    Buffer.from("7b255da405e1d722823892e4fef187b4d8ac78215d7f0dd2137bb037547f4caf", "hex"),
  );
  expect(publishedHash(digest, "integer")).toBe(parseIntegerHash(1_403_909_460_543_360_175n));
  expect(publishedHash(digest, "bytes")).toBe(digest);
});

test("the seed texts to try are few and different", () => {
  expect(new Set([...COMMON_SEED_TEXTS, DEFAULT_SEED_TEXT]).size).toBe(
    COMMON_SEED_TEXTS.length + 1,
  );
  expect(COMMON_SEED_TEXTS.length).toBeLessThan(30);
});
