// Goal: a neighbour's unit cases of a group cache, held to vLLM's own answer.
// Method: each case is played as vLLM events through the whole path of an engine of which nothing
// is stated. Where the neighbour counts otherwise than vLLM, vLLM's number is expected; where its
// cache keeps tokens and resolves a child later, ours must be a lower bound and count `unplaced`.
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  C,
  CLEAR,
  every,
  framesOf,
  INVALID,
  key,
  q,
  R,
  rem,
  SmgWorker,
} from "../support/smg-notation.ts";

test("a group that is seen first lowers the joint answer, with any numbering and no roster", () => {
  const worker = new SmgWorker();
  worker.batch(17, R(3, "full", 0, 2, every(2, 8), 8), R(9, "full", 0, 2, every(2, 8), 8));
  expect(worker.q(11)).toBe(8);
  worker.batch(18, R(27, "mamba", 0, 2, [6], 6));
  expect(worker.q(11)).toBe(6);
  worker.batch(19, rem(27, [6]));
  expect(worker.q(11)).toBe(0);
});

test("a sparse recurrent group and attention resume together at 24, not at 32 or 40", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "full", 0, 4, every(4, 40), 40), rem(0, [36, 40]));
  expect(worker.q(41)).toBe(32);
  worker.batch(1, R(1, "mamba", 0, 4, [24, 40], 40));
  expect(worker.q(41)).toBe(24);
});

test("sparse hashes are never paired with tokens by order; a dense store elsewhere places them", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(1, "mamba", 0, 2, [4, 8, 10, 12], 12));
  expect(worker.q(9)).toBe(0);
  expect(worker.unplaced).toBe(4);
  worker.batch(1, R(0, "full", 0, 2, every(2, 12), 12));
  expect([worker.q(7), worker.q(9), worker.q(13)]).toEqual([4, 8, 12]);
  expect(worker.unplaced).toBe(0);
});

test("lower bound: a child that came before its parent stays unplaced until it is announced again", () => {
  const worker = new SmgWorker();
  worker.batch(0, C(0, "mamba", 0, 2, 4));
  expect([worker.score([3, 4, 5]), worker.q(5), worker.unplaced]).toEqual([0, 0, 1]);
  worker.batch(1, R(0, "mamba", 0, 2, [2], 2));
  // vLLM: 4. We keep no tokens, so only the parent's own end is known.
  expect([worker.q(5), worker.unplaced]).toEqual([2, 1]);
  worker.batch(2, rem(0, [2, 4]));
  expect([worker.q(7), worker.unplaced]).toEqual([0, 0]);
  worker.batch(3, C(0, "mamba", 0, 4, 6));
  expect([worker.q(7), worker.unplaced]).toEqual([0, 1]);
  worker.batch(4, R(1, "full", 0, 2, every(2, 6), 6));
  expect([worker.q(7), worker.unplaced]).toEqual([6, 0]);
});

test("copies are counted as vLLM has them: one removal of two copies leaves the block", () => {
  const worker = new SmgWorker();
  const store = R(0, "full", 0, 2, [2, 4], 4);
  const first = framesOf(0, [1.5, [store], 0]);
  worker.frames(first);
  worker.frames(first);
  expect(worker.counter("duplicates")).toBe(1);
  worker.batch(1, store);
  worker.batch(2, rem(0, [4]));
  expect(worker.q(5)).toBe(4);
  worker.batch(3, rem(0, [4]));
  expect(worker.q(5)).toBe(2);
  worker.batch(4, C(0, "full", 0, 2, 4));
  expect(worker.q(5)).toBe(4);
});

test("a clear keeps the groups, a gap and a step back begin anew; nothing is credited from before", () => {
  const worker = new SmgWorker();
  const attention = R(0, "full", 0, 2, [2, 4], 4);
  const state = R(1, "mamba", 0, 2, [4], 4);
  worker.batch(0, attention, state);
  expect(worker.q(5)).toBe(4);
  worker.batch(1, CLEAR, attention);
  expect(worker.q(5)).toBe(0);
  worker.batch(2, state);
  expect(worker.q(5)).toBe(4);
  worker.batch(4, attention);
  // vLLM holds the state still (4): it was announced before the gap, so we do not know it.
  expect(worker.q(5)).toBe(0);
  expect(worker.answer(q(5)).reasons).toContain("incomplete");
  expect(worker.counter("batches_lost")).toBe(1);
  worker.batch(3, INVALID);
  expect(worker.answer(q(5)).state).toBe("unknown");
  worker.batch(31, attention);
  expect(worker.q(5)).toBe(4);
});

test("lower bound: a span is no block size; a child of an unknown parent counts once its hash is dense", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "full", 0, 8, [8], 8));
  worker.batch(1, C(1, "mamba", 0, 4, 6));
  expect([worker.q(9), worker.unplaced]).toEqual([0, 1]);
  worker.batch(2, R(0, "full", 0, 4, [4], 4));
  // The neighbour resolves key 6 here and says 6.
  expect([worker.q(9), worker.unplaced]).toEqual([0, 1]);
  worker.batch(3, R(1, "mamba", 0, 8, [8], 8));
  expect(worker.q(9)).toBe(8);
});

test("the width and the leading zeros of a key are part of its identity", () => {
  const worker = new SmgWorker();
  const sevens = (size: number, width: number): Uint8Array =>
    new Uint8Array(width).fill(7, width - size);
  const keys = [sevens(8, 8), sevens(8, 9), sevens(8, 16), sevens(8, 32)];
  const root = (index: number): unknown =>
    R(0, "mamba", 0, 2 * (index + 1), [], 2 * (index + 1), { block_hashes: [keys[index]] });
  // Largest first: a group whose blocks grow is withdrawn.
  worker.batch(0, root(3), root(2), root(1), root(0));
  expect(worker.q(9)).toBe(8);
  const removed = [3, 2, 1, 0].map((index, turn) => {
    worker.batch(1 + turn, rem(0, [], { block_hashes: [keys[index]] }));
    return worker.placed;
  });
  expect(removed).toEqual([3, 2, 1, 0]);
  expect(worker.q(9)).toBe(0);
});

test("keys of fewer than 8 bytes, which no vLLM sends, cost their store and nothing else", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "mamba", 0, 4, [4], 4));
  const short = [Uint8Array.of(7), Uint8Array.of(0, 7)];
  for (const [index, hash] of short.entries()) {
    worker.batch(1 + index, R(0, "mamba", 0, 2, [], 2, { block_hashes: [hash] }));
  }
  expect(worker.q(5)).toBe(4);
});

test("a removal in one group leaves the same key in another", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "full", 0, 2, [2], 2), R(1, "mamba", 0, 2, [2], 2));
  worker.batch(1, rem(0, [2]));
  expect(worker.q(3)).toBe(0);
  worker.batch(2, R(0, "full", 0, 2, [2], 2));
  expect(worker.q(3)).toBe(2);
  expect(new SmgWorker().answer(q(3)).state).toBe("unknown");
});

test("equal tokens at the end of another prompt match nothing", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "mamba", 0, 2, [2, 4], 4), rem(0, [2]));
  expect(worker.q(5)).toBe(4);
  expect(worker.score([9, 9, 3, 4, 5])).toBe(0);
});

describe.each(["full", "mla"])("kind %s", (kind) => {
  test("only ends below the prompt's length are candidates", () => {
    const worker = new SmgWorker();
    worker.batch(0, R(0, kind, 0, 4, [4, 8], 8));
    expect([worker.q(10), worker.q(8), worker.q(7), worker.q(0)]).toEqual([8, 4, 4, 0]);
  });
});

describe("a group whose kind or window cannot be used", () => {
  for (const kind of ["", "unknown", "chunked_local_attention", "future"]) {
    test(`kind "${kind}" makes the worker's answer unknown, never full attention`, () => {
      const worker = new SmgWorker();
      worker.batch(0, R(0, kind, 0, 2, [2], 2));
      expect(worker.answer([1, 2, 3])).toMatchObject({ state: "unknown", reusableTokens: 0 });
    });
  }

  test("a sliding window of 0 makes the worker's answer unknown", () => {
    const worker = new SmgWorker();
    const zero = { kv_cache_spec_sliding_window: 0 };
    worker.batch(0, R(0, "swa", 0, 2, [2], 2, zero));
    expect(worker.answer([1, 2, 3])).toMatchObject({ state: "unknown", reusableTokens: 0 });
  });

  test("a removal for a group never stored is a no-op", () => {
    const worker = new SmgWorker();
    worker.batch(0, rem(5, [2]), R(0, "mamba", 0, 2, [2], 2));
    expect(worker.q(3)).toBe(2);
    expect(worker.counter("removals_unknown")).toBe(1);
  });
});

test("a block with a namespace is held, matches no plain prompt, and matches its own", () => {
  const worker = new SmgWorker();
  worker.batch(
    0,
    R(0, "mamba", 0, 2, [2], 2, { lora_name: "adapter", extra_keys: [["adapter"]] }),
    R(0, "mamba", 0, 2, [], 2, { block_hashes: [key(902)], extra_keys: [["salt"]] }),
    R(0, "mamba", 0, 2, [], 2, { block_hashes: [key(903)], extra_keys: [[["image", 0]]] }),
  );
  expect([worker.q(3), worker.placed]).toEqual([0, 3]);
  expect(worker.score(q(3), { loraName: "adapter" })).toBe(2);
  expect(worker.score(q(3), { cacheSalt: "salt" })).toBe(2);
  const multimodalItems = [{ identifier: "image", offset: 0 }];
  expect(worker.score(q(3), { multimodalItems })).toBe(2);
});

describe("something malformed or contradicting in a good view", () => {
  const cases: readonly (readonly [string, unknown, number])[] = [
    ["an unreadable store", INVALID, 4],
    ["a block size of 0", R(0, "mamba", 0, 0, [6], 6), 4],
    ["an empty key", R(0, "mamba", 0, 2, [], 2, { block_hashes: [new Uint8Array()] }), 4],
    ["a known key with other tokens", R(0, "mamba", 0, 2, [2], 2, { token_ids: [9, 9] }), 4],
    ["another kind", R(0, "full", 0, 2, [2], 2), 0],
  ];
  for (const [name, event, expected] of cases) {
    test(`${name} costs what it must (${expected} left), and the next good store is credited`, () => {
      const worker = new SmgWorker();
      worker.batch(0, R(0, "mamba", 0, 2, [2, 4], 4));
      worker.batch(1, event);
      expect(worker.q(5)).toBe(expected);
      expect(worker.score([9, 9, 9])).toBe(0);
      worker.batch(2, R(0, "mamba", 0, 2, [2, 4, 6], 6));
      expect(worker.q(7)).toBe(6);
    });
  }
});

test("one end is known by a full report and by partial ones with unknown parents", () => {
  const worker = new SmgWorker();
  const full = R(0, "full", 0, 16, [16], 16);
  worker.batch(0, full, C(1, "swa", 9, 8, 16), C(2, "mamba", 0, 14, 16));
  expect(worker.q(17)).toBe(16);
});

test("lower bound: of two unknown parents neither resolves a checkpoint; announcing it densely does", () => {
  for (const [first, second] of [
    [8, 14],
    [14, 8],
  ] as const) {
    const worker = new SmgWorker();
    worker.batch(0, C(0, "mamba", 0, 8, 16), C(1, "mamba", 0, 14, 16));
    expect([worker.q(17), worker.unplaced]).toEqual([0, 2]);
    worker.batch(1, C(2, "mamba", 0, 0, first));
    worker.batch(2, C(2, "mamba", 0, 0, second));
    expect([worker.q(17), worker.unplaced]).toEqual([0, 2]);
    worker.batch(3, R(2, "mamba", 0, 16, [16], 16));
    expect([worker.q(17), worker.unplaced]).toEqual([16, 0]);
  }
});

test("a group known only from a store that was refused: the answer says that groups may be missing", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "mamba", 0, 2, [2], 2), R(1, "full", 0, 8, [2], 2));
  expect(worker.answer([1, 2, 3])).toMatchObject({ state: "assumed" });
  expect(worker.answer([1, 2, 3]).reasons).toContain("roster_incomplete");
});

test("a later full report bridges an earlier gap", () => {
  const worker = new SmgWorker();
  const states = R(0, "mamba", 0, 2, every(2, 8), 8);
  worker.batch(0, states, C(1, "full", 0, 2, 4), C(1, "full", 0, 0, 8));
  expect(worker.q(9)).toBe(8);
});

test("nine native hash vectors are opaque: a child's key says nothing of its parent's", () => {
  const lists = [[0], [23], [24], [255], [256], [65_535], [65_536], [4_294_967_295]];
  for (const list of [...lists, lists.flat()]) {
    const worker = new SmgWorker();
    const hash = createHash("sha256").update(JSON.stringify(list)).digest();
    const next = createHash("sha256").update(hash).digest();
    const size = list.length;
    worker.batch(
      0,
      R(0, "full", 0, size, [], 0, { block_hashes: [hash], token_ids: list }),
      R(0, "full", 0, size, [], 0, {
        block_hashes: [next],
        parent_block_hash: hash,
        token_ids: list,
      }),
    );
    expect(worker.score([...list, ...list, 1])).toBe(2 * size);
    worker.batch(1, rem(0, [], { block_hashes: [hash] }));
    expect(worker.score([...list, ...list, 1])).toBe(0);
  }
});

describe("memory of removed and unresolved blocks", () => {
  test("1,024 unresolved reports that are removed leave nothing behind", () => {
    const worker = new SmgWorker();
    const ends = every(2, 2050, 4);
    worker.batch(0, ...ends.map((end) => C(0, "mamba", 0, end + 100_000, end + 100_002)));
    expect(worker.unplaced).toBe(1024);
    worker.batch(1, ...ends.map((end) => rem(0, [end + 100_002])));
    expect([worker.unplaced, worker.placed, worker.q(9)]).toEqual([0, 0, 0]);
  });

  test("eviction and append in one batch keep the ancestry", () => {
    const worker = new SmgWorker();
    worker.batch(0, R(0, "mamba", 0, 2, [2, 4], 4));
    worker.batch(1, rem(0, [2, 4]), C(0, "mamba", 0, 4, 6));
    expect([worker.q(7), worker.unplaced]).toEqual([6, 0]);
  });

  test("two independent prompts of 1,048,576 tokens fit on one worker, and a clear empties both", () => {
    const worker = new SmgWorker();
    const length = 2 ** 20;
    const prompts = [1, 2].map((lead) => [lead, ...q(length - 1)]);
    for (const [index, prompt] of prompts.entries()) {
      const block_hashes = every(16, length).map((end) => BigInt(index * 2 ** 40 + end));
      worker.batch(index, R(0, "full", 0, 16, [], 0, { block_hashes, token_ids: prompt }));
    }
    for (const prompt of prompts) {
      expect(worker.path.score({ tokens: prompt }).reusableTokens).toBe(length - 16);
    }
    worker.batch(2, CLEAR);
    expect([worker.placed, worker.score(prompts[0] ?? [])]).toEqual([0, 0]);
  });
});
