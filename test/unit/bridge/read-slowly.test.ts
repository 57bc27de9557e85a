import { expect, test } from "vitest";
import { UNSTATED_ENGINE } from "../../../src/bridge/dist/engine-config.js";
import { RankPipeline } from "../../../src/bridge/dist/index.js";
import { KeyedHasher, parseDpRank, parseEpoch } from "../../../src/protocol/dist/index.js";
import {
  batchOf,
  encodeWire,
  namedRemoval,
  namedStore,
  sequenceFrame,
} from "../../support/wire-builder.ts";

test("batches that the fast reader leaves to the general one are counted, and applied all the same", () => {
  const dpRank = parseDpRank(0);
  const epoch = parseEpoch(1n);
  if (dpRank === undefined || epoch === undefined) throw new RangeError("0 is a rank, 1 an epoch");
  const pipeline = new RankPipeline({
    dpRank,
    engine: UNSTATED_ENGINE,
    hasher: new KeyedHasher("seed"),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => epoch,
    emit: () => undefined,
  });
  const events = [
    namedStore(),
    namedStore({ block_hashes: [2], parent_block_hash: 1, from_the_future: true }),
    namedRemoval(),
    { type: "BlockMoved" },
  ];
  for (const [sequence, event] of events.entries()) {
    pipeline.receive(
      [new Uint8Array(0), sequenceFrame(BigInt(sequence)), encodeWire(batchOf(event))],
      0,
    );
  }
  const counters = pipeline.counters();
  expect(counters.get("batches")).toBe(4);
  expect(counters.get("batches_read_slowly")).toBe(2);
  expect(counters.get("events_stored")).toBe(2);
  expect(counters.get("events_unknown.BlockMoved")).toBe(1);
});
