// Laws of the decoding stages over generated input. fast-check prints the seed of a failure.
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseFrames } from "../../src/bridge/dist/frames.js";
import { decodeBatch, validateBatch } from "../../src/bridge/dist/validate.js";
import type { VllmEvent } from "../../src/bridge/dist/vllm-event.js";
import { byteHash, integerHash, unwrap } from "../support/decoded-events.ts";
import {
  batchOf,
  digest,
  encodeWire,
  encodeWith,
  listStore,
  namedRemoval,
  namedStore,
  raw,
  tokens,
} from "../support/wire-builder.ts";

const REASON = /^[a-z_]+$/;

function isResult(payload: Uint8Array): boolean {
  const result = decodeBatch(payload);
  return result.ok ? Array.isArray(result.value.events) : REASON.test(result.error.reason);
}

test("any bytes give a result, never an exception", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 400 }), isResult), { numRuns: 5000 });
});

test("any frames give a result, never an exception", () => {
  const frames = fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 5 });
  fc.assert(
    fc.property(frames, fc.option(fc.string(), { nil: undefined }), (list, topic) => {
      const result = parseFrames(list, { topic });
      if (!result.ok) return REASON.test(result.error.reason);
      return list.length === 3 && list[1]?.length === 8 && result.value.payload === list[2];
    }),
    { numRuns: 1000 },
  );
});

const GOOD = encodeWire(
  batchOf(
    namedStore({
      block_hashes: [(1n << 64n) - 3n, 7],
      parent_block_hash: 9,
      token_ids: tokens(8),
      extra_keys: [null, [["img", -5], "salt"]],
      lookahead_token_ids: [[5], [9]],
      group_idx: 1,
      kv_cache_spec_kind: "sliding_window",
      kv_cache_spec_sliding_window: 128,
      locality: "LOCAL",
    }),
    listStore({ block_hashes: [digest(1)], group_idx: 0, kv_cache_spec_kind: "mamba" }),
    namedRemoval({ group_idx: 1 }),
    ["AllBlocksCleared"],
  ),
);

test("a good batch with any one byte replaced gives a result, never an exception", () => {
  expect(unwrap(decodeBatch(GOOD)).events.every((event) => !("refusal" in event))).toBe(true);
  // Heads of every kind of value, and the edges of the ranges between them.
  const heads = Array.from({ length: 32 }, (_, index) => 0xc0 + index);
  const edges = [0, 1, 16, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xa4, 0xbf, 0xe0, 0xff];
  const copy = Uint8Array.from(GOOD);
  for (let at = 0; at < copy.length; at++) {
    const good = copy[at] ?? 0;
    for (const value of [...edges, ...heads]) {
      copy[at] = value;
      if (!isResult(copy)) throw new RangeError(`no result: byte ${at} as ${value}`);
    }
    copy[at] = good;
  }
});

test("a good batch cut, doubled, or with a piece moved gives a result", () => {
  const place = fc.nat({ max: GOOD.length });
  fc.assert(
    fc.property(place, place, place, (from, to, at) => {
      const piece = GOOD.subarray(Math.min(from, to), Math.max(from, to));
      return isResult(new Uint8Array([...GOOD.subarray(0, at), ...piece, ...GOOD.subarray(at)]));
    }),
    { numRuns: 2000 },
  );
});

/** Anything that msgpack can say, nested as an event might be. */
const anyValue = fc.anything({
  maxDepth: 4,
  withBigInt: false,
  values: [
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double(),
    fc.string(),
    fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n }),
    fc.uint8Array({ maxLength: 40 }),
    fc.constantFrom("BlockStored", "BlockRemoved", "AllBlocksCleared", "GPU", "type"),
  ],
});

const FIELDS = [
  "block_hashes",
  "parent_block_hash",
  "token_ids",
  "block_size",
  "lora_id",
  "medium",
  "lora_name",
  "extra_keys",
  "group_idx",
  "kv_cache_spec_kind",
  "kv_cache_spec_sliding_window",
  "locality",
  "ownership",
  "lookahead_token_ids",
  "remaining_copy_counts",
];
const tag = fc.constantFrom("BlockStored", "BlockRemoved", "AllBlocksCleared", "Other");
const anyFields = fc.record(Object.fromEntries(FIELDS.map((name) => [name, anyValue])), {
  requiredKeys: [],
});
const anyEvent = fc.oneof(
  anyValue,
  fc.tuple(tag, anyFields).map(([type, fields]) => ({ type, ...fields })),
  fc.tuple(tag, fc.array(anyValue, { maxLength: 13 })).map(([type, list]) => [type, ...list]),
  anyFields.map((fields) => namedStore(fields)),
);

/** What the mirror may rely on. */
function isSound(event: VllmEvent): boolean {
  switch (event.type) {
    case "stored": {
      const spanTokens = event.hashes.length * event.blockSizeTokens;
      const isAligned = event.tokens.length === 0 || event.blockSizeTokens > 0;
      return (
        isAligned &&
        (event.tokens.length === 0 || spanTokens <= event.tokens.length) &&
        new Set(event.hashes).size === event.hashes.length &&
        (event.parent === undefined || !event.hashes.includes(event.parent)) &&
        (event.extraKeys === undefined || event.extraKeys.length === event.hashes.length) &&
        (event.groupId !== undefined || (event.kind ?? event.windowTokens) === undefined) &&
        (event.windowTokens === undefined || event.windowTokens > 0) &&
        event.kind !== ""
      );
    }
    case "removed": {
      const counts = event.remainingCopies;
      return counts === undefined || counts.length === event.hashes.length;
    }
    case "cleared":
      return event.groupId === undefined || event.groupId >= 0;
    case "removal_unreadable":
    case "refused":
      return REASON.test(event.refusal.reason) && event.refusal.path.startsWith("events[0]");
  }
}

test("any event is judged alone: its neighbours are what they are without it", () => {
  const before = unwrap(validateBatch(batchOf(namedStore(), namedRemoval()))).events;
  fc.assert(
    fc.property(anyEvent, (event) => {
      const [bad] = unwrap(validateBatch(batchOf(event))).events;
      const events = unwrap(validateBatch(batchOf(namedStore(), event, namedRemoval()))).events;
      expect([events[0], events[2]]).toEqual(before);
      return bad !== undefined && isSound(bad) && events[1]?.type === bad.type;
    }),
    { numRuns: 3000 },
  );
});

/** All encodings of an integer that can hold it. */
function widthsOf(value: bigint): number[][] {
  const widths: number[][] = [];
  const big = (head: number, size: number): number[] => {
    const bits = BigInt.asUintN(size * 8, value);
    const hex = bits.toString(16).padStart(size * 2, "0");
    return [head, ...Buffer.from(hex, "hex")];
  };
  for (const [index, size] of [1, 2, 4, 8].entries()) {
    if (value >= 0n && value < 1n << BigInt(size * 8)) widths.push(big(0xcc + index, size));
    if (BigInt.asIntN(size * 8, value) === value) widths.push(big(0xd0 + index, size));
  }
  if (value >= 0n && value < 128n) widths.push([Number(value)]);
  if (value < 0n && value >= -32n) widths.push([Number(value) + 256]);
  return widths;
}

test("an integer hash has one identity, whatever width its encoder chose", () => {
  const hash = fc.oneof(
    fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n }),
    fc.bigInt({ min: -40_000n, max: 70_000n }),
  );
  fc.assert(
    fc.property(hash, (value) => {
      for (const width of widthsOf(value)) {
        const bytes = encodeWith(batchOf(namedRemoval({ block_hashes: [raw(0)] })), width);
        expect(unwrap(decodeBatch(bytes)).events[0]).toMatchObject({
          hashes: [integerHash(value)],
        });
      }
    }),
    { numRuns: 500 },
  );
});

test("distinct 64-bit integers and distinct digests are distinct hashes", () => {
  const integers = fc.uniqueArray(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), { minLength: 2 });
  fc.assert(
    fc.property(integers, (values) => new Set(values.map(integerHash)).size === values.length),
  );
  const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(bytes, bytes, (a, b) => {
      return (byteHash(a) === byteHash(b)) === (Buffer.compare(a, b) === 0);
    }),
  );
});

test("both forms of an event are read alike", () => {
  const hashes = fc.uniqueArray(fc.nat({ max: 1000 }), { maxLength: 8 });
  fc.assert(
    fc.property(hashes, fc.nat({ max: 3 }), fc.nat({ max: 40 }), (list, spare, groupId) => {
      const fields = {
        block_hashes: list,
        token_ids: tokens((list.length + spare) * 4),
        group_idx: groupId,
        kv_cache_spec_kind: "full_attention",
        parent_block_hash: 2000,
      };
      const [a, b] = unwrap(
        decodeBatch(encodeWire(batchOf(listStore(fields), namedStore(fields)))),
      ).events;
      expect(a).toEqual(b);
      expect(a?.type).toBe("stored");
    }),
    { numRuns: 300 },
  );
});
