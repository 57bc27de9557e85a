/**
 * What it is: tests of the prefix key: fixed vectors, what it covers, what it does not depend on.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: laws over generated input (test/property/prefix-key.property.test.ts does).
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  KEY_SCHEME_ID,
  KeyedHasher,
  PLAIN,
  PrefixState,
  STATE_WORDS,
  writeKey,
} from "../../../src/protocol/dist/index.js";
import {
  type DullPrompt,
  dullHalfSipHash64,
  dullPrefixKey,
  keyToHex,
} from "../../support/dull-prefix-key.ts";
import { absorbTo, keyIn, realPrefixKey, rootState } from "../../support/real-prefix-key.ts";

interface Vector extends DullPrompt {
  readonly name: string;
  readonly key: string;
}

const fixture = new URL("../../fixtures/prefix-key-vectors.json", import.meta.url);
const { scheme, vectors }: { scheme: string; vectors: Vector[] } = JSON.parse(
  readFileSync(fixture, "utf8"),
);
const seed = "a seed for these tests";
const tokens = Array.from({ length: 16 }, (_, i) => 1_000 + i);

describe("the dull twin", () => {
  // Published in vectors.h of https://github.com/veorq/SipHash (vectors_hsip64): key 00 01 … 07,
  // message 00 01 … of the given length.
  test.each([
    [0, "218d1f59b9b83cc8"],
    [1, "be552412f8387315"],
    [3, "ce0f1a45f7060679"],
    [4, "d5e78a175be52ea1"],
    [8, "edfee820bce4858c"],
    [15, "217d0bcb4e81c902"],
    [16, "7336aad25f7bf3b5"],
    [33, "248477681d28f89c"],
    [63, "2ea63c71bf326087"],
  ])("its round gives HalfSipHash-2-4 of %i bytes as published", (length, expected) => {
    const count = (n: number): Uint8Array => Uint8Array.from({ length: n }, (_, i) => i);
    expect(keyToHex(dullHalfSipHash64(count(8), count(length)))).toBe(expected);
  });
});

describe("fixed vectors", () => {
  test("they are of this scheme, and as many as were written", () => {
    expect(scheme).toBe(KEY_SCHEME_ID);
    expect(vectors).toHaveLength(22);
  });

  test.each(vectors)("$name", (vector) => {
    expect(keyToHex(realPrefixKey(vector))).toBe(vector.key);
    expect(keyToHex(dullPrefixKey(vector))).toBe(vector.key);
  });

  test("all but the ones that must be equal are different", () => {
    const names = new Map<string, string[]>();
    for (const { key, name } of vectors) names.set(key, [...(names.get(key) ?? []), name]);
    const shared = [...names.values()].filter((list) => list.length > 1);
    expect(shared).toEqual([["one block of 16", "an image at the end is not part of it"]]);
  });

  test("the check value is the probe's key in wire form", () => {
    const probe = vectors.find(({ name }) => name === "the check value's probe");
    const value = new KeyedHasher("kvgroup-public-default-seed").checkValue();
    expect(Buffer.from(value).toString("hex")).toBe(probe?.key);
    expect(new KeyedHasher("another seed").checkValue()).not.toEqual(value);
  });
});

describe("what a key covers", () => {
  test("every pair of namespaces is apart: undefined from empty, however letters are split", () => {
    const parts = [undefined, "", "a", "b", "ab", "\0", "a\0", "0", "undefined"];
    const keys = new Set<bigint>();
    for (const loraName of parts) {
      for (const cacheSalt of parts) keys.add(realPrefixKey({ seed, loraName, cacheSalt, tokens }));
    }
    expect(keys.size).toBe(parts.length ** 2);
  });

  test("order and position of tokens matter", () => {
    const lists = [[1, 2], [2, 1], [1], [2], [0, 1, 2], [1, 2, 0], [1, 0, 2], [], [0], [0, 0]];
    const keys = new Set(lists.map((list) => realPrefixKey({ seed, tokens: list })));
    expect(keys.size).toBe(lists.length);
  });

  test("an item matters by identifier and start, from the token at its start on", () => {
    const at = (identifier: string, startTokens: number) =>
      realPrefixKey({ seed, items: [{ identifier, startTokens }], tokens });
    const keys = [at("a", 0), at("b", 0), at("a", 1), at("a", 15), realPrefixKey({ seed, tokens })];
    expect(new Set(keys).size).toBe(keys.length);
    expect(at("a", 16)).toBe(keys[4]);
  });

  test("before an item's start the keys are those of the prompt without it", () => {
    const hasher = new KeyedHasher(seed);
    const items = [{ identifier: "a", startTokens: 7 }];
    for (let end = 0; end <= 16; end++) {
      const prefix = tokens.slice(0, end);
      const isEqual =
        realPrefixKey({ seed, items, tokens: prefix }, hasher) ===
        realPrefixKey({ seed, tokens: prefix }, hasher);
      expect(isEqual).toBe(end <= 7);
    }
  });

  test("an item is not three tokens, even of the same words", () => {
    const hasher = new KeyedHasher(seed);
    const words = hasher.itemWords({ identifier: "a", startTokens: 0 });
    const asItem = rootState(hasher, { seed, tokens });
    asItem.absorbItem(words);
    const asTokens = rootState(hasher, { seed, tokens });
    asTokens.absorb(words, 0, 3);
    expect(asItem.endTokens).toBe(0);
    asItem.finish();
    asTokens.finish();
    expect(keyIn(asItem)).not.toBe(keyIn(asTokens));
    // Nor when the ends are made equal: the states themselves differ.
    asTokens.endTokens = 0;
    asTokens.finish();
    expect(keyIn(asItem)).not.toBe(keyIn(asTokens));
  });

  test("two items at one token count in their order", () => {
    const [a, b] = [
      { identifier: "a", startTokens: 3 },
      { identifier: "b", startTokens: 3 },
    ];
    expect(realPrefixKey({ seed, items: [a, b], tokens })).not.toBe(
      realPrefixKey({ seed, items: [b, a], tokens }),
    );
  });
});

describe("PrefixState", () => {
  test("reading the key moves nothing", () => {
    const hasher = new KeyedHasher(seed);
    const state = rootState(hasher, { seed, tokens });
    absorbTo(state, hasher, { seed, tokens }, 8);
    state.finish();
    const first = keyIn(state);
    state.finish();
    expect([keyIn(state), state.endTokens]).toEqual([first, 8]);
    absorbTo(state, hasher, { seed, tokens }, 16);
    state.finish();
    expect(keyIn(state)).toBe(realPrefixKey({ seed, tokens }));
  });

  test("a saved state continues in another object, at any offset", () => {
    const hasher = new KeyedHasher(seed);
    const state = rootState(hasher, { seed, tokens });
    absorbTo(state, hasher, { seed, tokens }, 5);
    const saved = new Uint32Array(3 * STATE_WORDS).fill(7);
    state.save(saved, STATE_WORDS);
    expect([...saved.subarray(0, 4), ...saved.subarray(8)]).toEqual(Array(8).fill(7));
    const other = new PrefixState();
    other.load(saved, STATE_WORDS, 5);
    absorbTo(other, hasher, { seed, tokens }, 16);
    other.finish();
    expect(keyIn(other)).toBe(realPrefixKey({ seed, tokens }));
  });

  test("lists of numbers and typed arrays give one key, up to the largest token", () => {
    const wide = [0, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
    const hasher = new KeyedHasher(seed);
    const state = rootState(hasher, { seed, tokens: wide });
    state.absorb(Uint32Array.from(wide), 0, 4);
    state.finish();
    expect(keyIn(state)).toBe(realPrefixKey({ seed, tokens: wide }));
    expect(keyIn(state)).toBe(dullPrefixKey({ seed, tokens: wide }));
  });

  test("an empty range absorbs nothing", () => {
    const hasher = new KeyedHasher(seed);
    const state = rootState(hasher, { seed, tokens });
    state.absorb(tokens, 4, 4);
    state.finish();
    expect(keyIn(state)).toBe(realPrefixKey({ seed, tokens: [] }));
  });

  test("halves of a key are uint32", () => {
    const state = new PrefixState();
    state.load(new KeyedHasher(seed).rootWords(PLAIN), 0, 0);
    for (let end = 1; end <= 200; end++) {
      state.absorb([end], 0, 1);
      state.finish();
      expect([state.keyLow >>> 0, state.keyHigh >>> 0]).toEqual([state.keyLow, state.keyHigh]);
    }
  });
});

describe("writeKey", () => {
  test("writes 8 bytes little-endian, low half first, and nothing else", () => {
    const target = new Uint8Array(12).fill(0xaa);
    writeKey(target, 2, 0x04030201, 0x88070605);
    expect([...target]).toEqual([0xaa, 0xaa, 1, 2, 3, 4, 5, 6, 7, 0x88, 0xaa, 0xaa]);
  });
});
