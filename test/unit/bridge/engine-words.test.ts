// Goal: what a bridge keeps for snapshots of the ENGINE projection is what the events said, no more, and never beyond
// its bound; a reader tells it in pieces, parents first.
import type { KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { describe, expect, test } from "vitest";
import { EngineSnapshot } from "../../../src/bridge/dist/engine-snapshot.js";
import { EngineWords, WORDS_OVERHEAD_BYTES } from "../../../src/bridge/dist/engine-words.js";
import type { StoreEvent } from "../../../src/bridge/dist/vllm-event.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { hex } from "../../support/engine-consumer.ts";
import { group, hash, span, stored } from "../../support/typed-events.ts";

const BLOCK_BYTES = WORDS_OVERHEAD_BYTES + 8 + 4 * 4;

function put(words: EngineWords, event: StoreEvent, groupId = 0, isMatchable = true): void {
  words.stored(event, { groupId: group(groupId), hashes: event.hashes, isMatchable });
  words.audit();
}

/** A chain from the root; block i has the hash i and the tokens 4i - 3 … 4i. */
function chain(words: EngineWords, first: number, last: number, groupId = 0): void {
  const parent = first === 1 ? undefined : hash(first - 1);
  const hashes = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  put(words, stored(hashes, span(first * 4 - 3, last * 4), { parent }), groupId);
}

const facts = { kind: "full_attention", windowTokens: undefined, blockSizeTokens: 4 };

function reader(words: EngineWords, maxTokens?: number): EngineSnapshot {
  return new EngineSnapshot(words, () => facts, maxTokens);
}

function pieces(words: EngineWords, maxBlocks = 1000, maxTokens?: number): KvGroupEvent[][] {
  const snapshot = reader(words, maxTokens);
  const all: KvGroupEvent[][] = [];
  for (
    let piece = snapshot.next(maxBlocks);
    piece !== undefined;
    piece = snapshot.next(maxBlocks)
  ) {
    all.push([...piece.events]);
  }
  expect(snapshot.next(maxBlocks)).toBeUndefined();
  return all;
}

/** Hashes of an event as numbers. */
const numbers = (event: KvGroupEvent): readonly number[] =>
  event.blockHashes.map((bytes) => Number.parseInt(hex(bytes), 16));
const told = (all: readonly (readonly KvGroupEvent[])[]): readonly number[] =>
  all.flatMap((piece) => piece.flatMap((event) => numbers(event)));

describe("what is told", () => {
  test("blocks of one chain are one event, as the engine said it, however they came", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 2);
    chain(words, 3, 3);
    const [[event, ...more] = []] = pieces(words);
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      groupId: 0,
      blockSize: 4,
      kind: "full_attention",
      tokensMatchable: true,
      tokenIds: [...span(1, 12)],
    });
    expect([event?.loraName, event?.loraId]).toEqual([undefined, undefined]);
    expect(event && numbers(event)).toEqual([1, 2, 3]);
    expect(event?.parentBlockHash).toHaveLength(0);
  });

  test("a child names its parent, held or not", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 3);
    words.removed(group(0), hash(1));
    const [[event] = []] = pieces(words);
    expect(event && numbers(event)).toEqual([2, 3]);
    expect(hex(event?.parentBlockHash ?? new Uint8Array())).toBe("0000000000000001");
    expect(event?.tokenIds).toEqual([...span(5, 12)]);
  });

  test("chains, sizes, adapters and what cannot be matched are not joined", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 1);
    put(words, stored([10], span(1, 4)));
    put(words, stored([11], span(5, 6), { parent: hash(10) }));
    put(words, stored([12], span(7, 8), { parent: hash(11), loraName: "one", loraId: 0n }));
    put(words, stored([13], span(9, 10), { parent: hash(12), loraName: "two", loraId: 0n }));
    put(
      words,
      stored([14], span(11, 12), { parent: hash(13), loraName: "two", loraId: 0n }),
      0,
      false,
    );
    const [events = []] = pieces(words);
    expect(events.map((event) => numbers(event))).toEqual([[1], [10], [11], [12], [13], [14]]);
    expect(events.map(({ loraName }) => loraName)).toEqual([
      undefined,
      undefined,
      undefined,
      "one",
      "two",
      "two",
    ]);
    expect(events[3]?.loraId).toBe(0n);
    expect(events.map(({ tokensMatchable }) => tokensMatchable).at(-1)).toBe(false);
  });

  test("hashes of a sparse store are told without tokens, by their own group", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 2);
    put(words, stored([2, 5], span(1, 20), { blockSizeTokens: 4, parent: hash(9) }), 1);
    const [[dense, sparse, ...more] = []] = pieces(words);
    expect(more).toEqual([]);
    expect(dense?.tokenIds).toHaveLength(8);
    expect(sparse).toMatchObject({
      groupId: 1,
      tokenIds: [],
      tokensMatchable: false,
      blockSize: 4,
    });
    expect(sparse && numbers(sparse)).toEqual([2, 5]);
    expect(hex(sparse?.parentBlockHash ?? new Uint8Array())).toBe("0000000000000009");
  });

  test("a sparse store takes no tokens away, a dense one adds them", () => {
    const words = new EngineWords(1e6);
    put(words, stored([1], span(1, 8), { blockSizeTokens: 4 }));
    expect(words.bytes).toBe(BLOCK_BYTES - 16);
    chain(words, 1, 2);
    expect(words.bytes).toBe(2 * BLOCK_BYTES);
    put(words, stored([2], span(1, 8), { blockSizeTokens: 4 }));
    const [[event] = []] = pieces(words);
    expect(event && numbers(event)).toEqual([1, 2]);
    expect(event?.tokenIds).toHaveLength(8);
  });

  test("a store whose hashes were not all taken counts as sparse, as its event does", () => {
    const words = new EngineWords(1e6);
    const event = stored([1, 2], span(1, 8));
    words.stored(event, { groupId: group(0), hashes: [hash(1)], isMatchable: true });
    const [[only] = []] = pieces(words);
    expect(only).toMatchObject({ tokenIds: [], tokensMatchable: false });
  });

  test("a group that holds nothing is told by a store without hashes, until the rank begins anew", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 2, 3);
    chain(words, 1, 2, 4);
    words.cleared(group(3));
    words.audit();
    const [[empty, held] = []] = pieces(words);
    expect(empty).toMatchObject({ groupId: 3, blockHashes: [], tokenIds: [], blockSize: 4 });
    expect(held).toMatchObject({ groupId: 4, tokenIds: [...span(1, 8)] });
    words.cleared(undefined);
    words.audit();
    expect(pieces(words).flat()).toHaveLength(2);
    expect([words.blocks, words.bytes]).toEqual([0, 0]);
    chain(words, 1, 2);
    words.reset();
    words.audit();
    expect(pieces(words)).toEqual([]);
    expect([words.blocks, words.bytes]).toEqual([0, 0]);
  });
});

describe("parents come first", () => {
  test("also those that were removed and stored again behind their children", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 4);
    put(words, stored([30], span(90, 93), { parent: hash(2) }));
    for (const gone of [1, 2, 3]) words.removed(group(0), hash(gone));
    chain(words, 1, 3);
    expect(told(pieces(words))).toEqual([1, 2, 3, 4, 30]);
    // One block a piece: what is behind the first piece is still in order.
    expect(told(pieces(words, 1))).toEqual([1, 2, 3, 4, 30]);
  });

  test("but not those that went before they were told, nor their child", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 4);
    for (const gone of [1, 2, 3]) words.removed(group(0), hash(gone));
    chain(words, 1, 3);
    const snapshot = reader(words);
    expect(told([snapshot.next(1)?.events ?? []])).toEqual([1]);
    for (const gone of [2, 4]) words.removed(group(0), hash(gone));
    expect(told([snapshot.next(10)?.events ?? []])).toEqual([3]);
    expect(snapshot.next(10)).toBeUndefined();
  });

  test("hashes that stand on each other in a circle end", () => {
    const words = new EngineWords(1e6);
    put(words, stored([1], span(1, 4), { parent: hash(2) }));
    put(words, stored([2], span(1, 4), { parent: hash(1) }));
    expect([...told(pieces(words))].sort()).toEqual([1, 2]);
  });
});

describe("pieces", () => {
  test("hold at most the asked blocks", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 10);
    const all = pieces(words, 4);
    expect(all.map((piece) => piece.flatMap((event) => numbers(event)).length)).toEqual([4, 4, 2]);
    expect(told(all)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  test("end at engineSnapshotTokens, and one block of more tokens is a piece", () => {
    const most = LIMITS.engineSnapshotTokens.value;
    const words = new EngineWords(1e9);
    put(words, stored([1, 2], span(1, most)));
    put(words, stored([3], span(1, most + 1)));
    put(words, stored([4], span(1, 4)));
    const sizes = pieces(words).map((piece) => piece.map(({ tokenIds }) => tokenIds.length));
    expect(sizes).toEqual([[most], [most + 1], [4]]);
  });

  test("tell what is held when they are taken", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 6);
    const snapshot = reader(words);
    expect(told([snapshot.next(2)?.events ?? []])).toEqual([1, 2]);
    for (const gone of [2, 4, 5]) words.removed(group(0), hash(gone));
    chain(words, 7, 8);
    const rest: KvGroupEvent[][] = [];
    for (let piece = snapshot.next(2); piece !== undefined; piece = snapshot.next(2)) {
      rest.push([...piece.events]);
    }
    expect(told(rest)).toEqual([3, 6, 7, 8]);
    const [, second] = rest.flat();
    expect(hex(second?.parentBlockHash ?? new Uint8Array())).toBe("0000000000000005");
  });

  test("go on through a clear with what is stored after it", () => {
    const words = new EngineWords(1e6);
    chain(words, 1, 6);
    const snapshot = reader(words);
    snapshot.next(2);
    words.cleared(undefined);
    chain(words, 1, 1);
    expect(told([snapshot.next(10)?.events ?? []])).toEqual([1]);
    expect(snapshot.next(10)).toBeUndefined();
  });
});

describe("the bound", () => {
  test("is filled to the last byte; further blocks are not kept, and there is room after removals", () => {
    const words = new EngineWords(3 * BLOCK_BYTES);
    chain(words, 1, 3);
    expect(words.bytes).toBe(3 * BLOCK_BYTES);
    chain(words, 4, 5);
    expect([words.blocks, words.bytes]).toEqual([3, 3 * BLOCK_BYTES]);
    expect(told(pieces(words))).toEqual([1, 2, 3]);
    words.removed(group(0), hash(4));
    words.removed(group(0), hash(2));
    chain(words, 4, 5);
    expect(told(pieces(words))).toEqual([1, 3, 4]);
  });

  test("one byte less keeps one block less", () => {
    const words = new EngineWords(3 * BLOCK_BYTES - 1);
    chain(words, 1, 3);
    expect(words.blocks).toBe(2);
  });

  test("a block whose tokens do not fit is not kept without them", () => {
    const words = new EngineWords(BLOCK_BYTES - 1);
    put(words, stored([1], span(1, 8), { blockSizeTokens: 4 }));
    expect(words.blocks).toBe(1);
    chain(words, 1, 1);
    expect([words.blocks, words.bytes]).toEqual([0, 0]);
  });
});
