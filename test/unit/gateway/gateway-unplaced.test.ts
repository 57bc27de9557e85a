/**
 * What it is: claims about a gateway whose bridges tell blocks without a place, with vLLM's real hashes.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: messages alone (rank-view-unplaced.test.ts), the search alone (place-search.test.ts).
 */
import { expect, test } from "vitest";
import type { Query } from "../../../src/gateway/dist/index.js";
import { digestOf, type HashScheme } from "../../../src/protocol/dist/index.js";
import { createMetrics } from "../../../src/runtime/dist/index.js";
import { fakeScheme } from "./fake-hashes.ts";
import { Bench } from "./gateway-bench.ts";
import { type EngineInit, engine, FULL_4, liveWith, start, store, tokensTo } from "./messages.ts";
import { batchWith, chunkWith, realHash, unplaced, withScheme } from "./unplaced-messages.ts";

const PROMPT = { tokens: tokensTo(17) };
const LORA: HashScheme = fakeScheme({ loraPaths: new Map([["a", "/a"]]) });

/** Blocks of a prompt as a real engine names them. */
const real = (prompt: Query, ends: readonly number[], scheme = fakeScheme(), lookahead = 0) =>
  unplaced(prompt, ends, { scheme, lookahead, hashOf: realHash });

/** A live worker that holds an event's block at 4 and tells the blocks of a prompt. */
function telling(bench: Bench, description: EngineInit, told: ReturnType<typeof real>, name = "w") {
  const bridge = bench.addLive(name, [store(0, [4, 4, 4])], description);
  bridge.send([batchWith(0, { stored: [told] }, { unplacedBlocks: 2n, toldUnplacedBlocks: 2n })]);
  return bridge;
}

/** tokens, state and reasons of the first rank. */
function answer(bench: Bench, query: Query): string {
  const [first] = bench.gateway.score(query);
  bench.gateway.audit();
  const explained = bench.gateway.explain(query, "w", 0);
  expect({ ...explained, groups: [] }).toEqual({ ...first, groups: [] });
  return [first?.reusableTokens, first?.state, ...(first?.reasons ?? [])].join(" ");
}

test("told blocks are found by vLLM's own hashes, and answers are exact before and after", () => {
  const bench = new Bench();
  telling(bench, withScheme(), real(PROMPT, [8, 12]));
  const other = tokensTo(17).map((token) => (token === 7 ? 70 : token));
  expect(answer(bench, { tokens: other })).toBe("4 exact");
  expect(answer(bench, PROMPT)).toBe("12 exact");
  expect(answer(bench, { tokens: [...tokensTo(10)] })).toBe("8 exact");
  expect(answer(bench, { ...PROMPT, cacheSalt: "salt" })).toBe("0 exact");
  expect(answer(bench, { ...PROMPT, cacheSalt: "" })).toBe("12 exact");
});

test("every algorithm and look-ahead is searched as it hashes", () => {
  for (const algorithm of ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] as const) {
    for (const lookaheadTokens of [0, 1]) {
      const isShort = algorithm.startsWith("xxhash");
      const rootDigest = digestOf(new Uint8Array(isShort ? 16 : 32).fill(9));
      const scheme = fakeScheme({ algorithm, rootDigest });
      const bench = new Bench();
      const bridge = bench.addLive("w", [], withScheme(scheme, { lookaheadTokens }));
      bridge.send([batchWith(0, { stored: [real(PROMPT, [4, 8, 16], scheme, lookaheadTokens)] })]);
      // The last block's look-ahead is not there: the engine has no hash of it either.
      expect(answer(bench, { tokens: tokensTo(8) })).toBe("4 exact");
      expect(answer(bench, { tokens: tokensTo(9) })).toBe("8 exact");
    }
  }
});

test("blocks that the bridge cannot tell make every answer a lower bound", () => {
  const bench = new Bench();
  const bridge = telling(bench, withScheme(), real(PROMPT, [8]));
  bridge.send([batchWith(1, {}, { unplacedBlocks: 3n, toldUnplacedBlocks: 2n })]);
  expect(answer(bench, PROMPT)).toBe("8 lower_bound unplaced_blocks");
  bridge.send([batchWith(2, {}, { unplacedBlocks: 2n, toldUnplacedBlocks: 2n })]);
  expect(answer(bench, PROMPT)).toBe("8 exact");
});

test("without a proven scheme every answer is a lower bound while blocks of the GPU are told", () => {
  for (const hashScheme of [{ state: 1 }, { state: 4 }, undefined]) {
    const bench = new Bench();
    const description = hashScheme === undefined ? FULL_4 : { ...FULL_4, hashScheme };
    const bridge = telling(bench, description, real(PROMPT, [8]));
    expect(answer(bench, { tokens: [5] })).toBe("0 lower_bound unplaced_blocks");
    expect(bench.gateway.workers()[0]?.state).toBe("lower_bound");
    const told = real(PROMPT, [8]);
    bridge.send([batchWith(1, { removed: [told], stored: [{ ...told, medium: "CPU" }] })]);
    expect(answer(bench, PROMPT)).toBe("4 exact");
  }
});

test("a prompt that cannot be hashed to where a tail is met is a lower bound, others stay exact", () => {
  const item = { identifier: "image", offset: 5 };
  const tagless = fakeScheme({ extraKeyForm: undefined });
  const rootless = fakeScheme({ rootDigest: undefined });
  for (const [name, scheme, query] of [
    ["an adapter without a known path", fakeScheme(), { ...PROMPT, loraName: "a" }],
    ["an item without a length", LORA, { ...PROMPT, multimodalItems: [item] }],
    ["an item of length 0", LORA, { ...PROMPT, multimodalItems: [{ ...item, length: 0 }] }],
    ["extra keys in an unknown form", tagless, { ...PROMPT, cacheSalt: "salt" }],
    ["a chain whose begin is not known", rootless, PROMPT],
  ] satisfies readonly (readonly [string, HashScheme, Query])[]) {
    const bench = new Bench();
    const bridge = telling(bench, withScheme(scheme), real(PROMPT, [8]));
    const before = "loraName" in query || "cacheSalt" in query ? 0 : 4;
    expect(answer(bench, query), name).toBe(`${before} lower_bound unplaced_blocks`);
    expect(answer(bench, { ...query, tokens: tokensTo(7) }), name).toBe(`${before} exact`);
    expect(bench.gateway.workers()[0]?.state, name).toBe("exact");
    bridge.send([batchWith(1, { removed: [real(PROMPT, [8])] })]);
    expect(answer(bench, query), name).toBe(`${before} exact`);
  }
});

test("blocks in other media obstruct no answer", () => {
  const bench = new Bench();
  telling(bench, withScheme(), { ...real(PROMPT, [8]), medium: "CPU" });
  expect(answer(bench, { ...PROMPT, loraName: "a" })).toBe("0 exact");
});

test("a start says what is told as a batch does", () => {
  const bench = new Bench();
  const bridge = bench.add("w");
  const description = withScheme();
  for (const [toldUnplacedBlocks, state] of [
    [2n, "8 exact"],
    [1n, "8 lower_bound unplaced_blocks"],
  ] as const) {
    bridge.send([
      start({ engine: description, unplacedBlocks: 2n, toldUnplacedBlocks }),
      chunkWith(0, true, [store(0, [4, 4, 4])], [real(PROMPT, [8])]),
    ]);
    expect(answer(bench, PROMPT)).toBe(state);
  }
});

test("items with their lengths, salts and adapters are hashed as the engine does", () => {
  const item = { identifier: "image", offset: 5, length: 4 };
  for (const more of [{ multimodalItems: [item] }, { cacheSalt: "salt" }, { loraName: "a" }]) {
    const prompt = { ...PROMPT, ...more };
    const bench = new Bench();
    const bridge = bench.addLive("w", [], withScheme(LORA));
    bridge.send([batchWith(0, { stored: [real(prompt, [4, 8, 12], LORA)] })]);
    expect(answer(bench, prompt)).toBe("12 exact");
  }
});

test("an obstructed answer keeps its stronger state", () => {
  const bench = new Bench();
  const roster = { isRosterComplete: false };
  telling(bench, withScheme(fakeScheme(), roster), real(PROMPT, [8]));
  const query = { ...PROMPT, loraName: "a" };
  expect(answer(bench, query)).toBe("0 assumed roster_incomplete unplaced_blocks");
  expect(answer(bench, PROMPT)).toBe("8 assumed roster_incomplete");
});

test("engines of several schemes, units and look-aheads are searched in one query", () => {
  const bench = new Bench();
  const expected: string[] = [];
  for (const [name, unitTokens, lookaheadTokens, root] of [
    ["a", 4, 0, 1],
    ["b", 4, 2, 1],
    ["c", 4, 0, 2],
    ["d", 6, 1, 1],
    ["e", 2, 0, 3],
  ] as const) {
    const rootDigest = digestOf(new Uint8Array(32).fill(root));
    const scheme = fakeScheme({ unitTokens, rootDigest });
    const sizes = { schedulerBlockSize: unitTokens, hashBlockSize: unitTokens };
    const groups = [{ ...FULL_4.groups?.[0], groupId: 0, blockSize: unitTokens }];
    const layout = { ...sizes, groups, lookaheadTokens };
    const bridge = bench.addLive(name, [], withScheme(scheme, layout));
    const ends = [1, 2].map((unit) => unit * unitTokens);
    bridge.send([batchWith(0, { stored: [real(PROMPT, ends, scheme, lookaheadTokens)] })]);
    expected.push(`${name}=${unitTokens * 2}`);
  }
  expect(bench.score(17)).toBe(expected.join(" "));
});

test("a worker that goes takes its blocks out of the search, one that comes again tells them again", () => {
  const bench = new Bench();
  telling(bench, withScheme(), real(PROMPT, [8, 12]), "v");
  telling(bench, withScheme(), real(PROMPT, [8, 12]));
  bench.gateway.removeWorker("v");
  expect(bench.score(17)).toBe("w=12");
  bench.gateway.removeWorker("w");
  expect(bench.score(17)).toBe("");
  const bridge = bench.addLive("w", [], withScheme());
  bridge.send(liveWith([], withScheme()));
  expect(bench.score(17)).toBe("w=0");
  bench.gateway.close();
  bench.gateway.audit();
});

test("people see how many blocks wait, were found, and met a tail in vain", async () => {
  const metrics = createMetrics();
  const bench = new Bench({ metrics });
  const decoy = { hashKeys: new Uint8Array(8), tailKeys: real(PROMPT, [16]).tailKeys };
  const bridge = telling(bench, withScheme(), real(PROMPT, [8, 12]));
  bridge.send([batchWith(1, { stored: [{ blockSize: 4, ...decoy }] })]);
  const numbers = () => {
    const [rank] = bench.gateway.workers();
    return [rank?.unplacedBlocks, rank?.unplacedFound];
  };
  expect(numbers()).toEqual([3, 0]);
  bench.score(9);
  expect(numbers()).toEqual([2, 1]);
  bench.score(17);
  const text = await metrics.metricsText();
  expect(text).toContain("kvgroup_gateway_unplaced_blocks 1");
  expect(text).toContain("kvgroup_gateway_unplaced_tails_without_hash_total 1");
  expect(text).toContain('kvgroup_gateway_applied_total{what="unplacedStored"} 3');
  expect(text).toContain('kvgroup_gateway_applied_total{what="unplacedFound"} 2');
  bridge.send([engine(withScheme(LORA))]);
  expect(numbers()).toEqual([3, 2]);
});
