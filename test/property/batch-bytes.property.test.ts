// The bytes of a batch are those of the protobuf library, whatever its fields hold. fast-check prints the seed of a failure.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Batch, BatchSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  KvGroupBatchSchema,
  KvGroupEventSchema,
  UnplacedBlocksSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type BatchFields, writeBatch } from "../../src/bridge/dist/batch-bytes.js";

const uint32 = fc.oneof(
  fc.constantFrom(0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455, 268_435_456),
  fc.constantFrom(0x7fff_ffff, 0x8000_0000, 0xffff_ffff),
  fc.nat({ max: 0xffff_ffff }),
);
const uint64 = fc.oneof(
  fc.constantFrom(0n, 1n, 127n, 128n, (1n << 32n) - 1n, 1n << 32n, 1n << 35n, 1n << 63n),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
);
const count = fc.oneof(uint32, fc.maxSafeNat());
const int64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.uint8Array({ minLength: 120, maxLength: 140 }),
);
const text = fc.oneof(
  fc.constantFrom("", "CPU", "full_attention"),
  fc.string({ unit: "grapheme" }),
);

const event = fc
  .record({
    operation: fc.constantFrom(0, 1, 2, 3),
    groupId: uint32,
    blockHashes: fc.array(bytes, { maxLength: 4 }),
    parentBlockHash: bytes,
    tokenIds: fc.array(uint32, { maxLength: 40 }),
    blockSize: uint32,
    kind: text,
    slidingWindow: uint32,
    tokensMatchable: fc.boolean(),
    prefixKeys: bytes,
    endTokens: uint32,
    parentPrefixKey: bytes,
    medium: text,
    locality: text,
    ownership: text,
    clearsAllGroups: fc.boolean(),
  })
  .chain((fields) =>
    fc
      .record({ loraName: text, loraId: int64 }, { requiredKeys: [] })
      .map((optional) => create(KvGroupEventSchema, { ...fields, ...optional })),
  );
const unplaced = fc
  .record({
    groupId: uint32,
    medium: text,
    locality: text,
    ownership: text,
    blockSize: uint32,
    hashKeys: bytes,
    tailKeys: bytes,
  })
  .map((fields) => create(UnplacedBlocksSchema, fields));
const batch = fc.record({
  epoch: uint64,
  batch: fc
    .record({
      sequenceNumber: uint64,
      timestampSeconds: fc.oneof(fc.constantFrom(0, -0, 1.5), fc.double()),
      events: fc.array(event, { maxLength: 5 }),
      unplacedRemoved: fc.array(unplaced, { maxLength: 2 }),
      unplacedStored: fc.array(unplaced, { maxLength: 2 }),
    })
    .map((fields) => create(KvGroupBatchSchema, fields)),
  completeness: fc.constantFrom(0, 1, 2),
  unplacedBlocks: count,
  isCatchingUp: fc.boolean(),
  toldUnplacedBlocks: count,
});

function messageOf(fields: BatchFields): Batch {
  const { unplacedBlocks, toldUnplacedBlocks, batch: events, ...others } = fields;
  return create(BatchSchema, {
    ...others,
    batch: create(KvGroupBatchSchema, events),
    unplacedBlocks: BigInt(unplacedBlocks),
    toldUnplacedBlocks: BigInt(toldUnplacedBlocks),
  });
}

test("every batch is written as the library writes it", () => {
  fc.assert(
    fc.property(batch, (fields) => {
      const wanted = toBinary(BatchSchema, messageOf(fields));
      expect(Buffer.compare(writeBatch(fields), wanted)).toBe(0);
    }),
    { numRuns: 3000 },
  );
});

test("large batches are written as the library writes them, and small ones after them", () => {
  const of = (keys: number) => ({
    epoch: 5n,
    batch: create(KvGroupBatchSchema, {
      sequenceNumber: 7n,
      events: [create(KvGroupEventSchema, { prefixKeys: new Uint8Array(keys * 8).fill(9) })],
    }),
    completeness: 1,
    unplacedBlocks: 0,
    isCatchingUp: false,
    toldUnplacedBlocks: 0,
  });
  for (const keys of [1, 500, 520, 1_000, 131_072, 300_000, 1]) {
    const written = writeBatch(of(keys));
    expect(Buffer.compare(written, toBinary(BatchSchema, messageOf(of(keys))))).toBe(0);
    expect(fromBinary(BatchSchema, written).batch?.events[0]?.prefixKeys.length).toBe(keys * 8);
  }
});

test("no message has a field that is not written", () => {
  const numbers = (schema: { readonly fields: readonly { readonly number: number }[] }) =>
    schema.fields.map((field) => field.number).sort((a, b) => a - b);
  const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);
  expect(numbers(BatchSchema)).toEqual(upTo(6));
  expect(numbers(KvGroupBatchSchema)).toEqual(upTo(5));
  expect(numbers(KvGroupEventSchema)).toEqual(upTo(18));
  expect(numbers(UnplacedBlocksSchema)).toEqual(upTo(7));
});
