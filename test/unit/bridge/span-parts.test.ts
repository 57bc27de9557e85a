// Goal: the small parts of recomputing keep their promises one by one: what waits, what is remembered, what is shared
// between spans, what is told of blocks without a place.
import { describe, expect, test } from "vitest";
import { Block, type Slot } from "../../../src/bridge/dist/block.js";
import { FineEnds } from "../../../src/bridge/dist/fine-ends.js";
import { RecentSalts } from "../../../src/bridge/dist/recent-salts.js";
import { SpanDigests, type SpanOrigin } from "../../../src/bridge/dist/span-digests.js";
import { spanInputs } from "../../../src/bridge/dist/span-inputs.js";
import { SpanQueue, SpanRetries } from "../../../src/bridge/dist/span-queue.js";
import { UnplacedEvents } from "../../../src/bridge/dist/unplaced-events.js";
import type { ExtraKey, StoreEvent } from "../../../src/bridge/dist/vllm-event.js";
import {
  type Digest,
  digestOf,
  HashKeys,
  KeyedHasher,
  LIMITS,
  PrefixState,
} from "../../../src/protocol/dist/index.js";
import { group, hash, span, stored } from "../../support/typed-events.ts";

const hasher = new KeyedHasher("sixteen characters");

function digest(fill: number): Digest {
  return digestOf(new Uint8Array(32).fill(fill));
}

describe("SpanQueue", () => {
  const spanOf = (count: number) => ({ event: stored([], span(1, count)), lookaheadTokens: 0 });

  test("first in, first out; the first stays until it is done", () => {
    const queue = new SpanQueue();
    const spans = [spanOf(4), spanOf(8), spanOf(12)];
    expect(spans.map((one) => queue.push(one))).toEqual([true, true, true]);
    for (const one of spans) {
      expect(queue.first).toBe(one);
      queue.trim();
      queue.shift();
    }
    expect([queue.first, queue.tokens]).toEqual([undefined, 0]);
  });

  test("refuses what is too much, but for one span alone", () => {
    const queue = new SpanQueue(1_000);
    expect([spanOf(5_000), spanOf(4)].map((one) => queue.push(one))).toEqual([true, false]);
    queue.shift();
    expect(queue.push(spanOf(4))).toBe(true);
    expect(queue.tokens).toBeGreaterThan(4);
    queue.clear();
    expect([queue.first, queue.tokens]).toEqual([undefined, 0]);
  });
});

describe("SpanRetries", () => {
  test("gives a store again when something was learnt, until all its hashes have places", () => {
    const retries = new SpanRetries();
    const event = stored([1, 2], span(1, 8));
    const empty = stored([], span(1, 8), { parent: hash(9) });
    const spans = [event, empty].map((one) => ({ event: one, lookaheadTokens: 0 }));
    for (const one of spans) retries.add(one, { isReproduced: true, salts: -1 });
    const placed = new Set<string>();
    const known = new Set<string>();
    const host = {
      isUnplaced: (one: string) => !placed.has(one),
      isAnchor: (one: string) => known.has(one),
      saltsOf: () => 0,
    };
    expect(retries.due(1, host)).toEqual([spans[0]]);
    expect(retries.due(1, host)).toEqual([]);
    known.add(hash(9));
    placed.add(hash(1));
    placed.add(hash(2));
    expect(retries.due(2, host)).toEqual([]);
    expect(retries.events).toEqual([]);
  });

  test("what could not be reproduced is walked again, though others have placed its hashes", () => {
    const retries = new SpanRetries();
    const event = stored([1], span(1, 8));
    const empty = stored([], span(1, 8));
    const spans = [event, empty].map((one) => ({ event: one, lookaheadTokens: 0 }));
    for (const one of spans) retries.add(one, { isReproduced: false, salts: 0 });
    let salts = 0;
    const host = { isUnplaced: () => false, isAnchor: () => true, saltsOf: () => salts };
    expect(retries.due(1, host)).toEqual([spans[0]]);
    salts = 1;
    expect(retries.due(2, host)).toEqual(spans);
    expect(retries.due(2, host)).toEqual([]);
  });
});

describe("FineEnds", () => {
  function end(endTokens: number) {
    const state = new PrefixState();
    state.load(Uint32Array.of(endTokens, 2, 3, 4), 0, endTokens);
    const digest = digestOf(new Uint8Array(32).fill(endTokens));
    return { state, keyLow: endTokens, keyHigh: 9, digest, loraName: "a", isPlain: endTokens > 8 };
  }

  test("an end comes back as it was, as a block that no mirror knows", () => {
    const ends = new FineEnds(3);
    ends.add(hash(1), end(8));
    ends.add(hash(2), end(12));
    const block = ends.find(hash(2));
    expect(block).toMatchObject({
      hash: hash(2),
      isForgotten: true,
      endTokens: 12,
      keyLow: 12,
      keyHigh: 9,
      digest: end(12).digest,
      loraName: "a",
      isPlain: true,
    });
    expect(block?.stateWords).toEqual(Uint32Array.of(12, 2, 3, 4));
    expect(ends.find(hash(1))?.isPlain).toBe(false);
  });

  test("the oldest goes at the bound, also around what was taken out", () => {
    const ends = new FineEnds(3);
    for (const number of [1, 2, 3, 4]) ends.add(hash(number), end(number));
    expect([1, 2, 3, 4].map((number) => ends.has(hash(number)))).toEqual([false, true, true, true]);
    ends.delete(hash(3));
    ends.add(hash(3), end(5));
    expect(ends.has(hash(2))).toBe(false);
    ends.add(hash(6), end(6));
    expect(ends.find(hash(3))?.endTokens).toBe(5);
    expect(ends.size).toBe(3);
    ends.clear();
    expect([ends.size, ends.find(hash(4))]).toEqual([0, undefined]);
  });
});

describe("RecentSalts", () => {
  test("the oldest begin goes at the bound, and so does the oldest salt of one begin", () => {
    const salts = new RecentSalts(hasher);
    const begin = (number: number): Uint32Array => span(number * 4, number * 4 + 9);
    for (let number = 0; number <= LIMITS.recentSalts.value; number++) {
      expect(salts.note(begin(number), 4, "s")).toBe(true);
    }
    expect(salts.size).toBe(LIMITS.recentSalts.value);
    expect([salts.of(begin(0), 4), salts.of(begin(1), 4)]).toEqual([[], ["s"]]);
    expect(salts.note(begin(1), 4, "s")).toBe(false);
    const more = Array.from({ length: LIMITS.saltsPerPrompt.value }, (_, at) => `salt ${at}`);
    for (const salt of more) salts.note(begin(1), 4, salt);
    expect(salts.of(begin(1), 4)).toEqual(more);
    // A begin is its first H tokens, and no more.
    expect(salts.of(Uint32Array.from([4, 5, 6, 7, 99]), 4)).toEqual(more);
    salts.clear();
    expect(salts.of(begin(1), 4)).toEqual([]);
  });
});

describe("SpanDigests", () => {
  const inputs = { cacheSalt: undefined, isWhole: false, at: () => undefined };
  const originOf = (tokens: Uint32Array, parent: number): SpanOrigin => ({
    event: stored([], tokens),
    inputs,
    digest: digest(parent),
    lookaheadTokens: 0,
    ahead: tokens,
  });
  const blockOf = ({ event }: SpanOrigin, unit: number) => ({
    tokens: event.tokens,
    from: unit * 4,
    to: unit * 4 + 4,
    ahead: event.tokens,
    aheadFrom: unit * 4 + 4,
    aheadTo: unit * 4 + 4,
  });
  const walk = (known: SpanDigests, origin: SpanOrigin, marks: readonly number[]) =>
    marks.map((mark, unit) => {
      const block = blockOf(origin, unit);
      const found = known.find(unit, block);
      if (found === undefined) known.note(unit, block, digest(mark));
      return found;
    });

  test("gives what the span before had in common, up to where tokens differ", () => {
    const known = new SpanDigests();
    const first = originOf(span(1, 12), 7);
    known.begin(first);
    expect(walk(known, first, [1, 2, 3])).toEqual([undefined, undefined, undefined]);
    const second = originOf(Uint32Array.from([...span(1, 8), ...span(50, 53)]), 7);
    known.begin(second);
    expect(walk(known, second, [0, 0, 4])).toEqual([digest(1), digest(2), undefined]);
    known.begin(second);
    expect(walk(known, second, [0, 0, 0])).toEqual([digest(1), digest(2), digest(4)]);
    expect([known.savedHashes, known.computedHashes]).toEqual([5, 4]);
  });

  test("equal tokens below another parent are another span, also when walks alternate", () => {
    const known = new SpanDigests();
    const a = originOf(span(1, 8), 7);
    const b = originOf(span(1, 8), 8);
    known.begin(a);
    known.begin(b);
    known.resume(a, 0);
    walk(known, a, [1]);
    known.resume(b, 0);
    expect(walk(known, b, [3, 4])).toEqual([undefined, undefined]);
    known.resume(a, 1);
    known.note(1, blockOf(a, 1), digest(2));
    known.begin(b);
    expect(walk(known, b, [3, 4])).toEqual([undefined, undefined]);
    known.begin(a);
    expect(known.find(0, blockOf(a, 0))).toBeUndefined();
  });

  test("what follows a unit without a digest is not taken over", () => {
    const known = new SpanDigests();
    const a = originOf(span(1, 12), 7);
    known.begin(a);
    known.note(0, blockOf(a, 0), digest(1));
    known.note(2, blockOf(a, 2), digest(3));
    known.begin(a);
    expect(walk(known, a, [0, 5, 6])).toEqual([digest(1), undefined, undefined]);
  });
});

describe("spanInputs", () => {
  const item = (identifier: string, offset: number): ExtraKey => ({
    type: "item",
    identifier,
    offset,
  });
  const context = {
    startTokens: 0,
    unitTokens: 4,
    lookaheadTokens: 0,
    form: "tagged" as const,
    loraPath: undefined,
    assumedSalt: undefined,
  };
  const inputsOf = (event: StoreEvent) => {
    const inputs = spanInputs(event, context);
    const units = event.tokens.length / 4;
    return Array.from(
      { length: units },
      (_, unit) => inputs?.at(unit)?.extras?.items ?? inputs?.at(unit),
    );
  };

  test("an item is hashed in the units that it surely covers; where it may end, nothing is known", () => {
    const one = inputsOf(stored([1], span(1, 16), { extraKeys: [[item("a", 5)]] }));
    expect(one[0]).toMatchObject({ extras: undefined });
    expect(one[1]).toEqual([{ identifier: "a", offset: 1 }]);
    expect(one.slice(2)).toEqual([undefined, undefined]);
    const two = inputsOf(
      stored([1, 2], span(1, 32), { extraKeys: [[item("a", 5)], [item("a", -11)]] }),
    );
    expect(two.slice(1, 4)).toEqual([1, -3, -7].map((offset) => [{ identifier: "a", offset }]));
    expect(two.slice(5)).toEqual([undefined, undefined, undefined]);
  });

  test("a sparse store with items, or with what is not understood, tells nothing", () => {
    const sparse = { extraKeys: [[item("a", 1)]] };
    expect(
      spanInputs(stored([1], span(1, 16), { ...sparse, blockSizeTokens: 8 }), context),
    ).toBeUndefined();
    const odd = { extraKeys: [[{ type: "opaque" as const }]], blockSizeTokens: 8 };
    expect(spanInputs(stored([1], span(1, 16), odd), context)).toBeUndefined();
    expect(spanInputs(stored([1], span(1, 16), { loraId: 3n }), context)).toBeUndefined();
    expect(spanInputs(stored([1], span(1, 16), { loraName: "a" }), context)).toBeUndefined();
  });
});

describe("UnplacedEvents", () => {
  const slot: Slot = {
    index: 0,
    groupId: group(3),
    medium: "GPU",
    locality: "",
    ownership: "",
    isLocalGpu: true,
  };
  const facts = { kind: "mamba", windowTokens: undefined, blockSizeTokens: 64 };
  const events = (): UnplacedEvents => new UnplacedEvents(new HashKeys(hasher), () => facts);
  const blockOf = (number: number, size: number): Block => {
    const block = new Block(hash(number), number);
    block.blockSizeTokens = size;
    return block;
  };

  test("what came and went in one batch is not stored; sizes are told apart", () => {
    const told = events();
    const [a, b, c] = [blockOf(1, 16), blockOf(2, 16), blockOf(3, 0)];
    for (const block of [a, b, c]) told.stored(slot, block);
    told.removed(slot, a);
    expect(
      told.takeStored().map(({ blockSize, hashKeys }) => [blockSize, hashKeys.length]),
    ).toEqual([
      [16, 8],
      [64, 8],
    ]);
    expect(
      told.takeRemoved().map(({ hashKeys, tailKeys }) => [hashKeys.length, tailKeys.length]),
    ).toEqual([[8, 0]]);
    expect([told.takeStored(), told.takeRemoved()]).toEqual([[], []]);
  });

  test.each([
    [undefined, undefined, 0],
    [3, "GPU", 0],
    [3, "CPU", 1],
    [4, undefined, 1],
  ])("a clear of group %s in %s leaves %i", (groupId, medium, left) => {
    const told = events();
    told.stored(slot, blockOf(1, 16));
    told.cleared(groupId === undefined ? undefined : group(groupId), medium);
    expect(told.takeStored().length).toBe(left);
  });
});
