import { expect, test } from "vitest";
import { PlaceSearch } from "../../../src/gateway/dist/place-search.js";
import type { NamedPrompt } from "../../../src/gateway/dist/prompt-keys.js";
import {
  type BlockOwner,
  keyTextAt,
  UnplacedBlock,
} from "../../../src/gateway/dist/unplaced-block.js";
import { digestOf, LIMITS } from "../../../src/protocol/dist/index.js";
import { FakeHashes, fakeScheme } from "./fake-hashes.ts";
import { HASHER, tokensTo } from "./messages.ts";
import { blockKeys } from "./unplaced-messages.ts";

const PROMPT = { tokens: tokensTo(400) };

/** A search whose readers are kept, and an owner that notes what it is told. */
function searching() {
  const readers: FakeHashes[] = [];
  const found: number[] = [];
  const obstructed: number[] = [];
  const search = new PlaceSearch(HASHER, (...scheme) => {
    const reader = new FakeHashes(...scheme);
    readers.push(reader);
    return reader;
  });
  const owner: BlockOwner = {
    found: (_block, _key, endTokens) => found.push(endTokens),
    obstructed: (_block, queryNumber) => obstructed.push(queryNumber),
  };
  const block = (
    endTokens: number,
    scheme = fakeScheme(),
    prompt: NamedPrompt = PROMPT,
    isHash = true,
  ) => {
    const { hashKey, tailKey } = blockKeys(scheme, 0, prompt, endTokens);
    const tail = new DataView(tailKey.buffer);
    return new UnplacedBlock({
      owner,
      groupId: 0,
      mediumId: 0,
      blockSizeTokens: 4,
      hashKey: keyTextAt(isHash ? hashKey : new Uint8Array(8), 0),
      tailLow: tail.getUint32(0, true),
      tailHigh: tail.getUint32(4, true),
    });
  };
  return { search, readers, found, obstructed, block };
}

test("a prompt is hashed only as far as the last tail that it meets, once for all ranks", () => {
  const { search, readers, found, block } = searching();
  const scheme = search.join(fakeScheme(), 0);
  expect(search.join(fakeScheme(), 0)).toBe(scheme);
  for (const end of [8, 12, 8]) expect(search.add(block(end), scheme)).toBe(true);
  search.find({ tokens: tokensTo(7) });
  expect([readers.length, readers[0]?.prompts, readers[0]?.digests]).toEqual([1, 0, 0]);
  search.find(PROMPT);
  expect(found).toEqual([8, 8, 12]);
  expect([readers[0]?.prompts, readers[0]?.digests, readers[0]?.heldTokens]).toEqual([1, 2, 0]);
  search.find(PROMPT);
  expect(readers[0]?.prompts).toBe(1);
});

test("schemes that differ in adapters' paths alone share the chain of a plain prompt", () => {
  const { search, readers, found, block } = searching();
  const schemes = ["/a", "/b", "/c"].map((path) =>
    search.join(fakeScheme({ loraPaths: new Map([["a", path]]) }), 0),
  );
  for (const scheme of schemes) search.add(block(8), scheme);
  search.find(PROMPT);
  expect(found).toEqual([8, 8, 8]);
  expect(readers.map((reader) => reader.digests)).toEqual([1]);
  for (const scheme of schemes) search.add(block(8), scheme);
  search.find({ ...PROMPT, loraName: "a" });
  expect(readers.slice(1).map((reader) => reader.digests)).toEqual([1, 1, 1]);
  expect(search.tailsWithoutHash).toBe(3);
});

test("a query computes no more hashes than it may, and says where it stopped", () => {
  const { search, readers, found, obstructed, block } = searching();
  const unitTokens = 1;
  const most = LIMITS.hashesPerQuery.value;
  const schemes = [1, 2].map((root) => {
    const rootDigest = digestOf(new Uint8Array(32).fill(root));
    return search.join(fakeScheme({ unitTokens, rootDigest }), 0);
  });
  // All tails are alike, no hash is: every end is worth a hash.
  const prompt = { tokens: new Uint32Array(most + 2) };
  for (const scheme of schemes) search.add(block(1, scheme.scheme, prompt, false), scheme);
  for (const reader of readers) reader.digestAt = () => "no block's hash";
  search.find(prompt);
  expect(found).toEqual([]);
  expect([search.tailsWithoutHash, obstructed.length]).toEqual([most, 2]);
  search.find({ tokens: new Uint32Array(most / 2) });
  expect([search.tailsWithoutHash, obstructed.length]).toEqual([most * 2, 2]);
});

test("hashes of many tokens, or under long paths, count as so many", () => {
  const { search, readers, obstructed, block } = searching();
  const prompt = { tokens: new Uint32Array(9_000), loraName: "a" };
  const loraPaths = new Map([["a", "/".repeat(1_000)]]);
  for (const lookahead of [0, 8_000]) {
    const rootDigest = digestOf(new Uint8Array(32).fill(lookahead & 255));
    const scheme = search.join(fakeScheme({ unitTokens: 1, rootDigest, loraPaths }), lookahead);
    search.add(block(1, scheme.scheme, prompt, false), scheme);
  }
  for (const reader of readers) reader.digestAt = () => "no block's hash";
  const before = search.tailsWithoutHash;
  search.find(prompt);
  // 1 + 1,001 characters are worth 15.7 hashes; with 8,000 tokens more, 140.7.
  const tried = search.tailsWithoutHash - before;
  expect(tried).toBeLessThan(LIMITS.hashesPerQuery.value / 15);
  expect(tried).toBeGreaterThan(0);
  expect(obstructed.length).toBeGreaterThan(0);
});

test("all ranks together keep no more than their bound", () => {
  const { search } = searching();
  for (let i = 0; i < LIMITS.unplacedBlocks.value; i++) {
    if (!search.admit()) throw new RangeError("refused below the bound");
  }
  expect(search.admit()).toBe(false);
  search.release();
  expect(search.admit()).toBe(true);
});

test("a query allocates nothing while no block is searched", () => {
  // Method: as in test/unit/prefix-index/score-steady-state.test.ts.
  const { search, block } = searching();
  const scheme = search.join(fakeScheme(), 0);
  const waiting = block(8);
  search.add(waiting, scheme);
  search.remove(waiting, scheme);
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 20_000; i++) search.find(PROMPT);
  for (let round = 0; round < 60 && least >= 64_000; round++) {
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 20_000; i++) search.find(PROMPT);
    least = Math.min(least, Math.abs(process.memoryUsage().heapUsed - before));
  }
  expect(least).toBeLessThan(64_000);
});

test("a walk that meets no tail allocates no more than a few objects, however long the prompt is", () => {
  const { search, block } = searching();
  search.add(block(400), search.join(fakeScheme(), 0));
  const prompt = { tokens: tokensTo(399) };
  let least = Number.POSITIVE_INFINITY;
  // 99 ends a query: one small object for each would be 3 MB in 2,000 queries. The walk itself takes some 240 bytes.
  const most = 2_000 * 800;
  for (let i = 0; i < 2_000; i++) search.find(prompt);
  for (let round = 0; round < 20 && least >= most; round++) {
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 2_000; i++) search.find(prompt);
    least = Math.min(least, Math.abs(process.memoryUsage().heapUsed - before));
  }
  expect(least).toBeLessThan(most);
});
