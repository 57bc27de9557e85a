// The fast reader gives nothing that the general one does not give: over good batches in any order of fields and any width
// of integers, and over what becomes of them when bytes change. fast-check prints the seed of a failure.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LIMITS } from "../../src/protocol/dist/index.js";
import { readBoth } from "../support/both-readers.ts";
import {
  batchOf,
  digest,
  encodeWire,
  encodeWith,
  listStore,
  namedRemoval,
  namedStore,
  raw,
  STORE_LENGTHS,
  tokens,
  type WireFields,
  without,
} from "../support/wire-builder.ts";

const HASH = (1n << 63n) + 5n;

const FULL_STORE = {
  block_hashes: [HASH, HASH + 1n],
  parent_block_hash: 9,
  token_ids: [0, 127, 128, 255, 256, 65_535, 65_536, 4_294_967_295],
  block_size: 4,
  lora_id: 7,
  lora_name: "adapter-a",
  extra_keys: [null, [["image", -5], "salt", ["image"]]],
  lookahead_token_ids: [[5], [900]],
  group_idx: 1,
  kv_cache_spec_kind: "sliding_window",
  kv_cache_spec_sliding_window: 128,
  locality: "LOCAL",
  ownership: "engine",
};

const GOOD: readonly (readonly [string, readonly unknown[]])[] = [
  ["a store with every field", batchOf(namedStore(FULL_STORE))],
  ["a plain store", batchOf(namedStore({ extra_keys: [null], group_idx: 0 }))],
  ["a store of nothing", batchOf(namedStore({ block_hashes: [], token_ids: null }))],
  ["digests", batchOf(namedStore({ block_hashes: [digest(1)], parent_block_hash: digest(2) }))],
  ["joined digests", batchOf(namedRemoval({ block_hashes: [digest(1, { size: 64 })] }))],
  [
    "a removal with every field",
    batchOf(namedRemoval({ group_idx: 1, locality: "REMOTE", ownership: "o" })),
  ],
  ["a removal in another medium", batchOf(namedRemoval({ medium: "cpu" }))],
  ["a clear", batchOf({ type: "AllBlocksCleared" }, ["AllBlocksCleared"])],
  [
    "lists",
    batchOf(listStore(FULL_STORE), ["BlockRemoved", [1, 2], "GPU", 3], ["BlockRemoved", [HASH]]),
  ],
  ["many events", batchOf(namedStore(FULL_STORE), namedRemoval(), namedStore(), namedRemoval())],
  ["no rank", [1.5, [namedStore()]]],
  ["a rank of nil", [1.5, [], null]],
];

describe("good batches", () => {
  test.each(GOOD)("%s is answered", (_, batch) => {
    expect(readBoth(encodeWire(batch))).toBe(true);
  });

  test.each(Object.entries(STORE_LENGTHS))("a list of vLLM %s is answered", (_, length) => {
    expect(readBoth(encodeWire(batchOf(listStore({}, length))))).toBe(true);
  });

  test("fields may come in any order, and those with a default may be absent", () => {
    const names = Object.keys(FULL_STORE);
    const optional = names.filter(
      (name) => !/block_hashes|parent|token_ids|block_size|group/.test(name),
    );
    fc.assert(
      fc.property(
        fc.shuffledSubarray(names, { minLength: names.length }),
        fc.subarray(optional),
        (order, left) => {
          const event: Record<string, unknown> = { type: "BlockStored" };
          for (const name of order) event[name] = (FULL_STORE as WireFields)[name];
          // A window goes with its kind.
          if (left.includes("kv_cache_spec_kind")) left.push("kv_cache_spec_sliding_window");
          expect(readBoth(encodeWire(batchOf(without(event, ...left))))).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("what the general reader refuses, notes or has to judge is left to it", () => {
  const store = (fields: WireFields): Uint8Array =>
    encodeWire(batchOf(namedStore({ ...FULL_STORE, ...fields })));
  test.each<readonly [string, Uint8Array]>([
    ["an unknown field", store({ session: 1 })],
    ["an unknown event", encodeWire(batchOf({ type: "BlockMoved" }))],
    ["a tag that does not come first", encodeWire(batchOf({ medium: "GPU", type: "BlockStored" }))],
    ["a store without a parent", encodeWire(batchOf(without(namedStore(), "parent_block_hash")))],
    ["a hash that comes twice", store({ block_hashes: [HASH, HASH] })],
    [
      "one hash in two widths",
      encodeWith(batchOf(namedStore({ ...FULL_STORE, block_hashes: [5, raw(0)] })), [0xcc, 5]),
    ],
    ["a parent that is an own hash", store({ parent_block_hash: HASH })],
    ["hashes of two encodings", store({ block_hashes: [HASH, digest(1)] })],
    ["a parent of another encoding", store({ parent_block_hash: digest(1) })],
    ["a short digest", store({ block_hashes: [digest(1), digest(2, { size: 7 })] })],
    ["tokens that are no whole blocks", store({ token_ids: tokens(7) })],
    ["tokens for fewer blocks than hashes", store({ token_ids: tokens(4) })],
    ["tokens in blocks of 0", store({ block_size: 0 })],
    ["a negative token", store({ token_ids: [1, 2, 3, -1, 1, 2, 3, 4] })],
    ["a token that is a float", store({ token_ids: [1, 2, 3, 0.5, 1, 2, 3, 4] })],
    ["fewer extra keys than hashes", store({ extra_keys: [null] })],
    ["an entry without extra keys", store({ extra_keys: [null, []] })],
    ["an extra key of bytes", store({ extra_keys: [null, [digest(1)]] })],
    ["an item of three", store({ extra_keys: [null, [["image", 1, 2]]] })],
    ["look-ahead lists of two lengths", store({ lookahead_token_ids: [[1], [1, 2]] })],
    ["fewer look-ahead lists than hashes", store({ lookahead_token_ids: [[1]] })],
    ["an empty kind", store({ kv_cache_spec_kind: "" })],
    ["a kind without a group", store({ group_idx: null })],
    ["a window of a kind that has none", store({ kv_cache_spec_kind: "full_attention" })],
    ["a window of 0", store({ kv_cache_spec_sliding_window: 0 })],
    ["a name that is not ASCII", store({ lora_name: "Köln" })],
    ["a long name", store({ lora_name: "x".repeat(256) })],
    [
      "a removal with counts of copies",
      encodeWire(batchOf(namedRemoval({ remaining_copy_counts: [1] }))),
    ],
    ["a removal without hashes", encodeWire(batchOf({ type: "BlockRemoved", medium: "GPU" }))],
    ["a clear with a scope", encodeWire(batchOf({ type: "AllBlocksCleared", medium: "GPU" }))],
    ["a list that is too long", encodeWire(batchOf([...listStore(), null]))],
    ["a list that is too short", encodeWire(batchOf(listStore({}, 4)))],
    ["a timestamp that is an integer", encodeWire([1, [], 0])],
    ["a negative timestamp", encodeWire([-1.5, [], 0])],
    ["no timestamp", encodeWire([Number.NaN, [], 0])],
    ["a rank that is none", encodeWire([1.5, [], "0"])],
    ["a batch of four", encodeWire([1.5, [], 0, null])],
    ["a batch of one", encodeWire([1.5])],
    ["a batch that is a map", encodeWire({ ts: 1.5, events: [] })],
    ["trailing bytes", Buffer.concat([encodeWire(batchOf(namedStore())), Buffer.of(0xc0)])],
    ["a field that comes twice", twice()],
  ])("%s", (_, payload) => {
    expect(readBoth(payload)).toBe(false);
  });

  /** A removal whose medium comes twice. */
  function twice(): Uint8Array {
    const medium = [0xa6, ...Buffer.from("medium"), 0xa3, ...Buffer.from("CPU")];
    const bytes = Buffer.from(encodeWire(batchOf(namedRemoval())));
    const at = bytes.indexOf(0x83);
    bytes[at] = 0x84;
    return Buffer.concat([bytes.subarray(0, -1), Buffer.from(medium), bytes.subarray(-1)]);
  }
});

describe("limits", () => {
  const removalOf = (count: number): Uint8Array =>
    encodeWire(batchOf(namedRemoval({ block_hashes: Array(count).fill(1) })));

  test("hashesPerEvent is the last count that is answered", () => {
    expect(readBoth(removalOf(LIMITS.hashesPerEvent.value))).toBe(true);
    expect(readBoth(removalOf(LIMITS.hashesPerEvent.value + 1))).toBe(false);
  });

  test("extraKeysPerBlock is the last count that is answered", () => {
    const keys = (count: number): Uint8Array =>
      encodeWire(batchOf(namedStore({ extra_keys: [Array(count).fill("a")] })));
    expect(readBoth(keys(LIMITS.extraKeysPerBlock.value))).toBe(true);
    expect(readBoth(keys(LIMITS.extraKeysPerBlock.value + 1))).toBe(false);
  });

  test("hashBytes is the last size of a hash that is answered", () => {
    const hash = (size: number): Uint8Array =>
      encodeWire(batchOf(namedRemoval({ block_hashes: [digest(1, { size })] })));
    expect(readBoth(hash(LIMITS.hashBytes.value))).toBe(true);
    expect(readBoth(hash(LIMITS.hashBytes.value + 1))).toBe(false);
  });

  test("a payload of many lists or more is the general reader's", () => {
    const removal = namedRemoval({ block_hashes: Array(100_000).fill(HASH) });
    expect(readBoth(encodeWire(batchOf(removal)))).toBe(true);
    expect(readBoth(encodeWire(batchOf(removal, removal)))).toBe(false);
  });

  test("a count that the bytes cannot hold is not believed", () => {
    for (const head of [0xdc, 0xdd, 0xde, 0xdf]) {
      for (const field of ["block_hashes", "token_ids", "extra_keys", "lookahead_token_ids"]) {
        const piece = [head, 0xff, 0xff, 0xff, 0xff];
        const payload = encodeWith(batchOf(namedStore({ ...FULL_STORE, [field]: raw(0) })), piece);
        expect(readBoth(payload)).toBe(false);
      }
    }
  });
});

/** Heads of every kind of value, and the edges of the ranges between them. */
const BYTES = [
  0,
  1,
  16,
  0x7f,
  0x80,
  0x81,
  0x8f,
  0x90,
  0x91,
  0x9f,
  0xa0,
  0xa4,
  0xbf,
  0xe0,
  0xff,
  ...Array.from({ length: 32 }, (_, index) => 0xc0 + index),
];

describe("changed bytes", () => {
  test.each(GOOD)("%s with any one byte replaced, or cut anywhere", (_, batch) => {
    const bytes = encodeWire(batch);
    const copy = Uint8Array.from(bytes);
    for (let at = 0; at < copy.length; at++) {
      readBoth(bytes.subarray(0, at));
      for (const value of BYTES) {
        copy[at] = value;
        readBoth(copy);
      }
      for (let bit = 0; bit < 8; bit++) {
        copy[at] = (bytes[at] ?? 0) ^ (1 << bit);
        readBoth(copy);
      }
      copy[at] = bytes[at] ?? 0;
    }
  });

  test("pieces moved, doubled, left out or replaced by anything", () => {
    const whole = fc.constantFrom(...GOOD.map(([, batch]) => encodeWire(batch)));
    const place = fc.nat({ max: 400 });
    const garbage = fc.oneof(
      fc.uint8Array({ maxLength: 12 }),
      fc.anything({ maxDepth: 3 }).map((value) => encodeSafely(value)),
    );
    fc.assert(
      fc.property(whole, place, place, place, garbage, (bytes, from, to, at, extra) => {
        const piece = bytes.subarray(Math.min(from, to), Math.max(from, to));
        const head = bytes.subarray(0, at);
        readBoth(Buffer.concat([head, piece, bytes.subarray(at)]));
        readBoth(Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]));
        readBoth(Buffer.concat([head, extra, bytes.subarray(at)]));
        readBoth(Buffer.concat([head, extra, bytes.subarray(at + extra.length)]));
      }),
      { numRuns: 3000 },
    );
  });

  test("any value in the place of any field", () => {
    const names = Object.keys(FULL_STORE);
    const value = fc.oneof(
      fc.integer(),
      fc.double(),
      fc.string(),
      fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n }),
      fc.uint8Array({ maxLength: 40 }),
      fc.array(fc.oneof(fc.integer(), fc.string(), fc.constant(null)), { maxLength: 4 }),
      fc.constantFrom(null, "", "GPU", "gpu", "sliding_window", 0, 1, [], [[]], [[], []], {}),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...names, "medium"),
        value,
        fc.constantFrom(1, 2),
        (name, one, kind) => {
          const fields = { ...FULL_STORE, [name]: one };
          readBoth(encodeWire(batchOf(kind === 1 ? namedStore(fields) : listStore(fields))));
          readBoth(encodeWire(batchOf(namedRemoval({ [name]: one }), namedRemoval())));
        },
      ),
      { numRuns: 5000 },
    );
  });

  test("integers of any width in any place", () => {
    // A head, and the bytes after it.
    const width = fc.constantFrom(
      [0xcc, 1],
      [0xcd, 2],
      [0xce, 4],
      [0xcf, 8],
      [0xd0, 1],
      [0xd1, 2],
      [0xd2, 4],
      [0xd3, 8],
      [0xca, 4],
      [0xcb, 8],
    );
    const bytes = fc.uint8Array({ minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(width, bytes, ([head = 0, size = 0], list) => {
        const zeros = new Uint8Array(8);
        for (const payload of [list, zeros]) {
          const piece = [head, ...payload.subarray(0, size)];
          for (const fields of [
            { block_hashes: [raw(0), 3] },
            { parent_block_hash: raw(0) },
            { token_ids: [raw(0), 2, 3, 4, 5, 6, 7, 8] },
            { block_size: raw(0) },
            { lora_id: raw(0) },
            { group_idx: raw(0) },
            { kv_cache_spec_sliding_window: raw(0) },
            { lookahead_token_ids: [[raw(0)], [1]] },
            { extra_keys: [null, [["image", raw(0)]]] },
          ]) {
            readBoth(encodeWith(batchOf(namedStore({ ...FULL_STORE, ...fields })), piece));
          }
          readBoth(encodeWith([raw(0), [], 0], piece));
          readBoth(encodeWith([1.5, [], raw(0)], piece));
        }
      }),
      { numRuns: 1000 },
    );
  });
});

/** fast-check makes values that msgpack has no word for. */
function encodeSafely(value: unknown): Uint8Array {
  try {
    return encodeWire(value);
  } catch {
    return Uint8Array.of(0xc1);
  }
}
