/**
 * What it is: claims about blocks that are told without a place, of one rank's view.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: several ranks, states of answers (gateway-unplaced.test.ts); broken messages (check-unplaced.test.ts).
 */
import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { fakeScheme } from "./fake-hashes.ts";
import { chunk, engine, FULL_4, remove, start, store, tokensTo, withdraw } from "./messages.ts";
import { batchWith, chunkWith, unplaced, withScheme } from "./unplaced-messages.ts";
import { Bench, live } from "./view-bench.ts";

const PROMPT = { tokens: tokensTo(40) };
/** As PROMPT up to 11 tokens, and its tails are the same from 16 on. */
const OTHER = { tokens: tokensTo(40).map((token) => (token === 12 ? 99 : token)) };

/** A rank with an event's block at 4 and unplaced ones at 8 and 12. */
function told(): Bench {
  const bench = live([store(0, [4, 4, 4])], withScheme());
  expect(bench.take(batchWith(0, { stored: [unplaced(PROMPT, [8, 12])] }))).toEqual([""]);
  return bench;
}

/** Told and not found, found now, found in all. */
function counted({ view: { unplaced: blocks } }: Bench): readonly number[] {
  return [blocks.toldBlocks - blocks.foundBlocks, blocks.foundBlocks, blocks.foundTotal];
}

test("a block is found by the first prompt that it is in, and stays found", () => {
  const bench = told();
  expect(counted(bench)).toEqual([2, 0, 0]);
  expect(bench.score(10)).toBe(8);
  expect(counted(bench)).toEqual([1, 1, 1]);
  expect(bench.score(17)).toBe(12);
  expect(counted(bench)).toEqual([0, 2, 2]);
  expect(bench.entries()).toBe(3);
  expect(bench.counts).toMatchObject({ unplacedStored: 2, unplacedFound: 2, refusedBlocks: 0 });
});

test("an equal tail alone places nothing", () => {
  const bench = live([store(0, [4, 4, 16])], withScheme());
  bench.take(batchWith(0, { stored: [unplaced(OTHER, [20])] }));
  expect(bench.score(PROMPT)).toBe(16);
  expect(bench.search.tailsWithoutHash).toBe(1);
  expect(counted(bench)).toEqual([1, 0, 0]);
});

test("a scheme whose hashes cover more than hashTokens searches nothing", () => {
  const scheme = fakeScheme();
  const bench = live([store(0, [4, 4, 4])], withScheme(scheme, { lookaheadTokens: 8_200 }));
  bench.take(batchWith(0, { stored: [unplaced(PROMPT, [8])] }));
  expect(bench.view.unplaced.searchedBlocks).toBe(0);
  expect(bench.view.unplaced.isUnsearchable).toBe(true);
});

test("a block is not one where no block of its size ends", () => {
  // The group's blocks are of 4 tokens, the unit too: a block of 8 does not end at 4, and one of 2 at 4 is no part.
  const bench = live([store(0, [4, 4, 4])], withScheme());
  bench.take(batchWith(0, { stored: [{ ...unplaced(PROMPT, [12]), blockSize: 8 }] }));
  bench.take(batchWith(1, { stored: [{ ...unplaced(PROMPT, [8]), blockSize: 2 }] }));
  expect(bench.score(PROMPT)).toBe(4);
  expect(counted(bench)).toEqual([0, 2, 2]);
  expect(bench.counts).toMatchObject({ unplacedFound: 2, refusedBlocks: 2 });
  expect(bench.entries()).toBe(1);
});

test("an equal hash with another tail is not believed", () => {
  const bench = live([store(0, [4, 4, 4])], withScheme());
  const { hashKeys } = unplaced(PROMPT, [8]);
  const { tailKeys } = unplaced(PROMPT, [12]);
  const decoy = { ...unplaced(PROMPT, [8]), hashKeys: new Uint8Array(8) };
  bench.take(batchWith(0, { stored: [{ blockSize: 4, hashKeys, tailKeys }, decoy] }));
  expect(bench.score(PROMPT)).toBe(4);
  expect(bench.search.tailsWithoutHash).toBe(2);
});

test("the namespace and items of the prompt are part of the place", () => {
  const item = { identifier: "picture", offset: 2, length: 3 };
  for (const more of [
    { cacheSalt: "salt" },
    { loraName: "adapter" },
    { multimodalItems: [item] },
  ]) {
    const scheme = fakeScheme({ loraPaths: new Map([["adapter", "/a"]]) });
    const bench = live([], withScheme(scheme));
    const named = { ...PROMPT, ...more };
    bench.take(batchWith(0, { stored: [unplaced(named, [4, 8], { scheme })] }));
    expect(bench.score(PROMPT)).toBe(0);
    expect(bench.score(named)).toBe(8);
    expect(bench.score(PROMPT)).toBe(0);
  }
});

test("with look-ahead hashing a place needs the tokens after it", () => {
  const bench = live([], withScheme(fakeScheme(), { lookaheadTokens: 2 }));
  bench.take(batchWith(0, { stored: [unplaced(PROMPT, [4, 8], { lookahead: 2 })] }));
  expect(bench.score(9)).toBe(4);
  expect(bench.score({ tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9, 99, 11] })).toBe(4);
  expect(bench.score(10)).toBe(8);
});

test("a removal takes back what was told, found or not, and nothing else", () => {
  const bench = told();
  bench.score(10);
  const both = unplaced(PROMPT, [8, 12]).hashKeys;
  const elsewhere = [
    { hashKeys: both, medium: "CPU" },
    { hashKeys: both, groupId: 1 },
    { hashKeys: unplaced(PROMPT, [16]).hashKeys },
  ];
  bench.take(batchWith(1, { removed: elsewhere }));
  expect(bench.score(17)).toBe(12);
  bench.take(batchWith(2, { removed: [{ hashKeys: both }] }));
  expect(bench.score(17)).toBe(4);
  expect(counted(bench)).toEqual([0, 0, 2]);
  expect(bench.counts.unplacedRemoved).toBe(2);
});

test("a repeated block is harmless", () => {
  const bench = told();
  bench.score(10);
  bench.take(batchWith(1, { stored: [unplaced(PROMPT, [8, 12]), unplaced(PROMPT, [8])] }));
  expect(counted(bench)).toEqual([1, 1, 1]);
  expect(bench.score(17)).toBe(12);
});

test("in one batch removals come before events, and stores after them", () => {
  const bench = told();
  bench.score(17);
  const [at8] = [unplaced(PROMPT, [8])];
  // The bridge learnt the place by itself: the key goes and comes again.
  bench.take(batchWith(1, { removed: [at8], events: [store(0, [8, 4, 8])] }));
  expect(bench.score(17)).toBe(12);
  const clear = { operation: Operation.CLEAR, clearsAllGroups: true };
  bench.take(
    batchWith(2, { events: [clear, store(0, [4, 4, 8])], stored: [unplaced(PROMPT, [12])] }),
  );
  expect(bench.score(17)).toBe(12);
  bench.take(batchWith(3, { removed: [at8], stored: [at8] }));
  expect(counted(bench)[0]).toBe(1);
});

test("what an event stored is not taken away with an unplaced block", () => {
  const bench = told();
  bench.take(batchWith(1, { events: [store(0, [8, 4, 8])] }));
  bench.score(17);
  expect(counted(bench)).toEqual([0, 2, 2]);
  bench.take(batchWith(2, { removed: [unplaced(PROMPT, [8, 12])] }));
  expect(bench.score(17)).toBe(8);
});

for (const [name, message, left] of [
  ["a clear of everything", { operation: Operation.CLEAR, clearsAllGroups: true }, [0, 0]],
  ["a clear of the group", { operation: Operation.CLEAR, groupId: 0 }, [0, 0]],
  ["a clear of its medium", { operation: Operation.CLEAR, groupId: 0, medium: "GPU" }, [0, 1]],
  ["a clear of another medium", { operation: Operation.CLEAR, medium: "CPU" }, [12, 2]],
  ["a clear of another group", { operation: Operation.CLEAR, groupId: 1 }, [12, 3]],
] as const) {
  test(`${name} takes its unplaced blocks, found ones and others`, () => {
    const bench = told();
    bench.take(batchWith(1, { stored: [unplaced(PROMPT, [16], { medium: "CPU" })] }));
    bench.score(10);
    bench.take(batchWith(2, { events: [message] }));
    const { toldBlocks } = bench.view.unplaced;
    expect([bench.score(17), toldBlocks]).toEqual(left);
  });
}

test("a withdrawal takes its scope, a fresh start all, a resumed one nothing", () => {
  const bench = told();
  bench.take(batchWith(1, { stored: [unplaced(PROMPT, [16], { medium: "CPU" })] }));
  bench.take(withdraw(0, "CPU"));
  expect(bench.view.unplaced.toldBlocks).toBe(2);
  bench.take(withdraw());
  expect(bench.view.unplaced.toldBlocks).toBe(0);
  bench.take(batchWith(2, { stored: [unplaced(PROMPT, [4, 8])] }));
  expect(bench.score(9)).toBe(8);
  bench.view.beginStream();
  const cursor = { epoch: 7n, sequenceNumber: 2n };
  expect(bench.take(start({ isResumed: true, cursor, engine: withScheme() }))).toEqual([""]);
  expect([bench.score(9), ...counted(bench)]).toEqual([8, 0, 2, 2]);
  bench.take(start({ engine: withScheme() }), chunkWith(0, true, [], [unplaced(PROMPT, [4])]));
  expect(counted(bench)).toEqual([1, 0, 0]);
  expect(bench.score(9)).toBe(4);
});

test("a retired rank leaves nothing in the search", () => {
  const bench = told();
  bench.score(10);
  bench.view.retire();
  expect(bench.search.blocks).toBe(0);
  bench.audit();
});

test("without a proven scheme blocks wait, and are found once there is one", () => {
  const bench = live([store(0, [4, 4, 4])], FULL_4);
  bench.take(batchWith(0, { stored: [unplaced(PROMPT, [8])] }));
  expect(bench.score(17)).toBe(4);
  expect(bench.view.hasUnplacedBlocks).toBe(true);
  bench.take(engine(withScheme()));
  expect(bench.view.hasUnplacedBlocks).toBe(false);
  expect(bench.score(17)).toBe(8);
});

test("under another scheme places are found anew, and without one they are given up", () => {
  const bench = told();
  expect(bench.score(17)).toBe(12);
  const paths = fakeScheme({ loraPaths: new Map([["a", "/a"]]) });
  bench.take(engine(withScheme(paths)));
  expect(counted(bench)).toEqual([2, 0, 2]);
  expect(bench.score(17)).toBe(12);
  bench.take(engine(withScheme(fakeScheme({ extraKeyForm: "untagged", algorithm: "xxhash" }))));
  bench.take(engine(FULL_4));
  expect(bench.score(17)).toBe(4);
  expect(bench.view.hasUnplacedBlocks).toBe(true);
  expect(bench.entries()).toBe(1);
});

test("an adapter whose path changed does not keep what the old one stored", () => {
  const prompt = { ...PROMPT, loraName: "a" };
  const before = fakeScheme({ loraPaths: new Map([["a", "/old"]]) });
  const bench = live([], withScheme(before));
  bench.take(batchWith(0, { stored: [unplaced(prompt, [4], { scheme: before })] }));
  expect(bench.score(prompt)).toBe(4);
  bench.take(engine(withScheme(fakeScheme({ loraPaths: new Map([["a", "/new"]]) }))));
  expect(bench.score(prompt)).toBe(0);
});

test("without a layout nothing is searched, and nothing is lost", () => {
  const bench = told();
  bench.score(10);
  const groups = [{ groupId: 0, kind: "odd_kind", blockSize: 4 }];
  expect(bench.take(engine(withScheme(fakeScheme(), { groups })))).toEqual([""]);
  expect([bench.score(17), ...counted(bench)]).toEqual([0, 2, 0, 1]);
  expect(bench.view.hasUnplacedBlocks).toBe(true);
  bench.take(engine(withScheme()));
  expect([bench.score(17), ...counted(bench)]).toEqual([12, 0, 2, 3]);
});

test("a description that voids the entries voids the unplaced blocks too", () => {
  const bench = told();
  bench.score(17);
  const changed = withScheme(fakeScheme(), { lookaheadTokens: 1 });
  expect(bench.take(engine(changed))).toEqual(["engine_changed"]);
  expect(counted(bench)).toEqual([0, 0, 2]);
  expect(bench.entries()).toBe(0);
});

test("a rank keeps no more than its bound, and says so", () => {
  const bench = live([], withScheme());
  const most = LIMITS.unplacedBlocksPerRank.value;
  const keys = new Uint8Array((most + 1) * 8);
  const words = new DataView(keys.buffer);
  for (let i = 0; i <= most; i++) words.setUint32(i * 8, i * 3 + 1, true);
  const many = { blockSize: 4, hashKeys: keys, tailKeys: keys };
  bench.take(batchWith(0, { stored: [{ ...many, medium: "CPU" }] }));
  expect([bench.view.unplaced.toldBlocks, bench.counts.unplacedDropped]).toEqual([most, 1]);
  expect(bench.view.isLimited).toBe(false);
  bench.take(batchWith(1, { stored: [unplaced(PROMPT, [4])] }));
  expect(bench.view).toMatchObject({ isLimited: true, resumePoint: undefined });
  bench.take(start({ engine: withScheme() }), chunk(0, true));
  expect([bench.view.isLimited, bench.search.blocks]).toEqual([false, 0]);
});

test("tails that crowd are dropped and counted, at once or when there is a scheme at last", () => {
  const count = LIMITS.tailsPerBucket.value + 1;
  const hashKeys = new Uint8Array(count * 8);
  const tailKeys = new Uint8Array(count * 8);
  for (let i = 0; i < count; i++) {
    hashKeys[i * 8] = i;
    tailKeys[i * 8 + 4] = i;
  }
  const told = batchWith(0, { stored: [{ blockSize: 4, hashKeys, tailKeys }] });
  for (const description of [withScheme(), FULL_4]) {
    const bench = live([], description);
    bench.take(told);
    bench.take(engine(withScheme()));
    expect([bench.view.unplaced.toldBlocks, bench.search.blocks]).toEqual([count - 1, count - 1]);
    expect(bench.counts.unplacedDropped).toBe(1);
    expect(bench.view.isLimited).toBe(true);
  }
});

test("media beyond the bound are dropped and counted", () => {
  const bench = live([], withScheme());
  const media = Array.from({ length: LIMITS.mediaPerRank.value }, (_, i) => `TIER${i}`);
  const stored = media.map((medium) => unplaced(PROMPT, [4], { medium }));
  bench.take(batchWith(0, { stored }));
  expect(bench.counts.droppedMediumBlocks).toBe(1);
  bench.take(batchWith(1, { removed: [unplaced(PROMPT, [4], { medium: "NEVER" })] }));
  expect(bench.view.unplaced.toldBlocks).toBe(media.length - 1);
});

test("what the index refuses is counted, makes the view limited and is not tried again", () => {
  const bench = new Bench(1);
  bench.take(start({ engine: withScheme() }), chunkWith(0, true, [store(0, [4, 4, 4])], []));
  bench.take(batchWith(0, { stored: [unplaced(PROMPT, [8])] }));
  expect(bench.view.isLimited).toBe(false);
  expect(bench.score(17)).toBe(4);
  expect(bench.view.isLimited).toBe(true);
  expect(bench.counts).toMatchObject({ refusedBlocks: 1, unplacedFound: 1 });
  bench.take(batchWith(1, { removed: [unplaced(PROMPT, [8])] }));
  expect(bench.entries()).toBe(1);
});

test("an event that removes a found block's key leaves an answer that is too low", () => {
  const bench = told();
  bench.score(17);
  bench.take(batchWith(1, { events: [remove(0, [12])] }));
  expect(bench.score(17)).toBe(8);
  bench.take(batchWith(2, { removed: [unplaced(PROMPT, [12])] }));
  expect(bench.score(17)).toBe(8);
});
