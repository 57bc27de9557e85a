// Goal: every weakness that reviewers of a neighbour's group bridge named, and that is a behaviour,
// is answered here. Method: one test for each (A = raised in review, M = found by reading), played
// as vLLM events through the whole path. Not here, because they are no behaviour of ours: A3, A4,
// A9, A13, A26 to A28, M12 (speed, in bench), A8 and A10 (their code), A12 and A15 (fuzz, in
// test/property/hostile), A20 (docs), A22 and M10 (streams, in test/e2e/hostile).

import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { describe, expect, test } from "vitest";
import { FanOut, type RankPipeline, toResponse } from "../../src/bridge/dist/index.js";
import { createGateway } from "../../src/gateway/dist/index.js";
import { LIMITS } from "../../src/protocol/dist/index.js";
import {
  batchOf,
  C,
  every,
  framesOf,
  INVALID,
  key,
  pipelineOf,
  q,
  R,
  rem,
  SMG_SEED,
  SmgWorker,
} from "../support/smg-notation.ts";

const full = (ends: readonly number[], through: number, more = {}) =>
  R(0, "full", 0, 4, ends, through, more);

/** One gateway over several ranks of several workers, without sockets. */
function gatewayOver(workers: Readonly<Record<string, (fanOut: FanOut) => RankPipeline>>) {
  const pipelines: RankPipeline[] = [];
  const drains: (() => void)[] = [];
  const gateway = createGateway({
    seed: SMG_SEED,
    sourceFactory: (address) => ({
      open: (_rank, handlers) => {
        const name = new URL(address.url).hostname;
        let view: RankPipeline | undefined;
        const fanOut: FanOut = new FanOut({
          instance: 1n,
          view: {
            start: (projection) => (view as RankPipeline).start(projection),
            openSnapshot: (projection) => (view as RankPipeline).openSnapshot(projection),
          },
        });
        view = workers[name]?.(fanOut);
        if (view !== undefined) pipelines.push(view);
        view?.setConnected(true);
        const subscriber = fanOut.subscribe({
          projection: Projection.PREFIX_KEYS,
          onWake: () => {},
        });
        drains.push(() => {
          for (let item = subscriber?.next(); item !== undefined; item = subscriber?.next()) {
            const bytes = toBinary(SubscribeResponseSchema, toResponse(item, false));
            handlers.onMessage(fromBinary(SubscribeResponseSchema, bytes));
          }
        });
        return () => subscriber?.close();
      },
      close: () => {},
    }),
  });
  for (const name of Object.keys(workers)) {
    gateway.addWorker({ name, url: `http://${name}`, dpRanks: [0] });
  }
  const drain = (): void => {
    for (const take of drains) take();
  };
  return { gateway, pipelines, drain };
}

test("A1: negative and huge integer hashes are one identity with their masked bits, and cost nothing", () => {
  const worker = new SmgWorker();
  const hashes = [-1, -(2n ** 63n), 2n ** 64n - 2n];
  worker.batch(0, full([], 12, { block_hashes: hashes }));
  expect(worker.q(13)).toBe(12);
  worker.batch(1, rem(0, [], { block_hashes: [2n ** 64n - 1n] }));
  expect(worker.q(13)).toBe(0);
  expect(worker.placed).toBe(2);
});

test("A2: a removal for a group never stored creates no group, before and after others are stored", () => {
  const worker = new SmgWorker();
  worker.batch(0, rem(8, [4]));
  worker.batch(1, full([4], 4), rem(9, [4]));
  expect(worker.q(5)).toBe(4);
  expect(worker.path.pipeline.describe(0).engine?.groups).toHaveLength(1);
});

test("A5: a request with a namespace keeps its affinity to every worker of a mixed fleet", () => {
  const salted = { extra_keys: [["salt"]] };
  const make = (fanOut: FanOut): RankPipeline =>
    pipelineOf({ emit: (output) => fanOut.publish(output) });
  const { gateway, pipelines, drain } = gatewayOver({ grouped: make, legacy: make });
  const { group_idx: _group, kv_cache_spec_kind: _kind, ...legacy } = full([4], 4, salted);
  pipelines[0]?.receive(framesOf(0, batchOf([full([4], 4, salted)])), 0);
  pipelines[1]?.receive(framesOf(0, batchOf([legacy])), 0);
  drain();
  const tokensOf = (cacheSalt?: string): readonly number[] =>
    gateway.score({ tokens: q(5), cacheSalt }).map((answer) => answer.reusableTokens);
  expect(tokensOf("salt")).toEqual([4, 4]);
  expect(tokensOf(undefined)).toEqual([0, 0]);
  gateway.close();
});

test("A6: stores that lost their group are refused one by one; the next good one is credited", () => {
  const reports: string[] = [];
  const pipeline = pipelineOf({
    report: (_message, fields) => reports.push(`${fields["reason"]}`),
  });
  const { group_idx: _group, kv_cache_spec_kind: _kind, ...lost } = full([8], 8);
  pipeline.receive(framesOf(0, batchOf([full([4], 4)])), 0);
  for (let turn = 1; turn <= 50; turn++) pipeline.receive(framesOf(turn, batchOf([lost])), 0);
  pipeline.receive(framesOf(51, batchOf([full([4, 8], 8)])), 0);
  expect(pipeline.describe(0).placedBlocks).toBe(2n);
  // The same reason each time: a log that is limited by message and reason says it once.
  expect(new Set(reports)).toEqual(new Set(["group_missing"]));
});

test("A7: a question about a rank that just forgot everything is answered, not thrown", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4, 8], 8));
  worker.path.publisherReplaced();
  expect(worker.answer(q(9))).toMatchObject({ reusableTokens: 0, state: "unknown" });
  expect(worker.path.gateway.explain({ tokens: q(9) }, "engine", 0).groups).toEqual([]);
});

test("A8: the order of ends in a store means nothing once their places are known", () => {
  const worker = new SmgWorker();
  worker.batch(0, full(every(4, 32), 32), rem(0, every(4, 32)));
  worker.batch(1, full([32, 8, 4, 28, 12, 24, 20, 16], 0));
  expect(worker.q(33)).toBe(32);
});

test("A11: keys are opaque: equal content under another key is another block, not the same", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4], 4));
  worker.batch(1, rem(0, [], { block_hashes: [104] }));
  expect(worker.q(5)).toBe(4);
});

test("A14, A16: at the mirror's ceiling the rank is withdrawn, counted, and fills again", () => {
  const withdrawn: string[] = [];
  const pipeline = pipelineOf({
    mirror: { maxBlocks: 8, maxHistory: 8 },
    emit: (output) => withdrawn.push(output.type),
  });
  for (let turn = 0; turn < 64; turn++) {
    const end = 4 * (turn + 1);
    pipeline.receive(framesOf(turn, batchOf([C(0, "full", 0, end - 4, end)])), 0);
    pipeline.audit();
    const { placedBlocks, unplacedBlocks } = pipeline.describe(0);
    expect(placedBlocks + unplacedBlocks).toBeLessThanOrEqual(8n);
  }
  expect(withdrawn.filter((type) => type === "epoch").length).toBeGreaterThan(0);
  expect(pipeline.counters().get("withdrawn.limit_reached")).toBeGreaterThan(0);
});

describe("A17: a group that is there but unusable", () => {
  for (const group of [-1, 2 ** 32, true, "0", 1.5]) {
    test(`${typeof group} ${group} costs the store, and its kind is never taken for a group's`, () => {
      const worker = new SmgWorker();
      worker.batch(0, full([4, 8], 8), R(0, "mamba", 0, 4, [4], 4, { group_idx: group }));
      expect(worker.q(9)).toBe(8);
      expect(worker.counter("refused.group_invalid")).toBe(1);
      expect(worker.path.pipeline.describe(0).engine?.groups.map(({ kind }) => kind)).toEqual([
        "full_attention",
      ]);
    });
  }

  test("absent is the old schema: silent, one group", () => {
    const worker = new SmgWorker();
    const { group_idx: _group, kv_cache_spec_kind: _kind, ...legacy } = full([4, 8], 8);
    worker.batch(0, legacy);
    expect(worker.q(9)).toBe(8);
    const refusals = [...worker.path.pipeline.counters().keys()].filter((name) =>
      name.startsWith("refused."),
    );
    expect(refusals.filter((name) => !name.includes("group_missing"))).toEqual([]);
  });
});

describe("A18: windows at their bounds", () => {
  for (const [window, isUsed] of [
    [1, true],
    [2 ** 32 - 1, true],
    [2 ** 32, false],
    [-1, false],
    [2n ** 64n - 1n, false],
  ] as const) {
    test(`${window} ${isUsed ? "is taken" : "is noted, and the stream lives on"}`, () => {
      const worker = new SmgWorker();
      worker.batch(0, R(0, "swa", 0, 4, [4, 8], 8, { kv_cache_spec_sliding_window: window }));
      worker.batch(1, C(0, "swa", 0, 8, 12));
      const { state } = worker.answer(q(13));
      expect(state === "unknown").toBe(!isUsed || window === 2 ** 32 - 1);
      expect(worker.path.gateway.workers()[0]?.subscriptionState).toBe("live");
      expect(worker.placed).toBe(3);
    });
  }
});

test("A19: two groups with equal content are two memberships, on every way of storing", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4, 8], 8), R(1, "full", 0, 4, [4, 8], 8), C(2, "full", 0, 4, 8));
  worker.batch(1, rem(1, [8]));
  expect(worker.placed).toBe(4);
  worker.batch(2, R(1, "full", 0, 4, [8], 8), R(2, "full", 0, 4, [4], 4));
  expect(worker.q(9)).toBe(8);
});

test("A21: a prefix counts only where every group of the engine has it", () => {
  const worker = new SmgWorker();
  worker.batch(0, full(every(4, 16), 16), R(1, "swa", 9, 4, every(4, 12), 12));
  expect(worker.q(17)).toBe(12);
});

test("A23: an integer and its 8 bytes are one identity, and 32 bytes that end alike are not", () => {
  const worker = new SmgWorker();
  const wide = new Uint8Array(32);
  wide.set(key(77), 24);
  worker.batch(0, full([], 4, { block_hashes: [77] }));
  worker.batch(1, rem(0, [], { block_hashes: [wide] }));
  expect(worker.q(5)).toBe(4);
  worker.batch(2, rem(0, [77]));
  expect(worker.q(5)).toBe(0);
});

test("A24: the engine's numbers pass end to end; a bridge that begins anew starts no step back", () => {
  const worker = new SmgWorker();
  worker.batch(1_000_000, full([4], 4));
  expect(worker.path.gateway.workers()[0]?.sequenceNumber).toBe(1_000_000n);
  const late = worker.path.join();
  late.drain();
  expect(late.gateway.workers()[0]?.sequenceNumber).toBe(1_000_000n);
});

test("A25: skipped blocks get no position; the positions of others are untouched", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([8, 12], 12));
  expect([worker.q(13), worker.unplaced]).toEqual([0, 2]);
  worker.batch(1, full([4], 4));
  expect([worker.q(13), worker.unplaced]).toEqual([4, 2]);
});

test("M1: a gap is counted, reported and visible in the answer", () => {
  const reports: unknown[] = [];
  const pipeline = pipelineOf({ report: (message, fields) => reports.push([message, fields]) });
  pipeline.receive(framesOf(0, batchOf([full([4], 4)])), 0);
  pipeline.receive(framesOf(9, batchOf([])), 0);
  expect(pipeline.counters().get("batches_lost")).toBe(8);
  expect(JSON.stringify(reports)).toContain("SEQUENCE_GAP");
});

describe("M2: a publisher that restarts under a live stream", () => {
  for (const [last, next] of [
    [0, 0],
    [5, 0],
    [5_000, 4_999],
    [5_000, 1],
  ] as const) {
    test(`at ${last}, then ${next}: the old view is gone at once, the new batch is applied`, () => {
      const worker = new SmgWorker();
      worker.batch(last, full([4, 8, 12], 12));
      expect(worker.q(13)).toBe(12);
      worker.batch(next, full([4], 4));
      expect(worker.q(13)).toBe(4);
      expect(worker.counter("duplicates")).toBe(0);
    });
  }
});

test("M3: whoever connects later has the whole view at once", () => {
  const worker = new SmgWorker();
  worker.batch(0, full(every(4, 400), 400));
  const late = worker.path.join();
  late.drain();
  expect(late.score({ tokens: q(401) }).reusableTokens).toBe(400);
});

for (const medium of [null, undefined, "gpu", "GPU"]) {
  test(`M4: medium ${medium} is the GPU`, () => {
    const worker = new SmgWorker();
    const { medium: _medium, ...bare } = full([4], 4);
    worker.batch(0, medium === undefined ? bare : { ...bare, medium });
    expect(worker.q(5)).toBe(4);
  });
}

test("M5: residency of another owner never counts as the engine's own, and never takes from it", () => {
  const worker = new SmgWorker();
  const owned = { ownership: "kvcr" };
  worker.batch(0, full([4, 8], 8, owned));
  expect(worker.q(9)).toBe(0);
  worker.batch(1, full([4, 8], 8), rem(0, [4, 8], owned), rem(0, [4], { locality: "REMOTE" }));
  expect(worker.q(9)).toBe(8);
});

test("M6: one unreadable event costs itself; a list where a tuple was is no damage at all", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4, 8], 8), INVALID, full([4], 4, { extra_keys: [["x", []]] }));
  expect(worker.q(9)).toBe(8);
});

test("M7: one key at two places keeps its first place, and costs no other block", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4, 8], 8));
  worker.batch(1, R(0, "full", 0, 4, [4], 4, { token_ids: [9, 9, 9, 9] }));
  expect([worker.q(9), worker.score([9, 9, 9, 9, 9])]).toEqual([8, 0]);
  expect(worker.counter("refused.place_contradicts")).toBe(1);
});

test("M8: the children of a salted block carry its salt, though their own extra keys say nothing", () => {
  const worker = new SmgWorker();
  worker.batch(0, full([4, 8], 8, { extra_keys: [["salt"], null] }));
  worker.batch(1, C(0, "full", 0, 8, 12, { extra_keys: [null] }));
  expect(worker.q(13)).toBe(0);
  expect(worker.score(q(13), { cacheSalt: "salt" })).toBe(12);
  expect(worker.unplaced).toBe(0);
});

test("M9: a rank other than 0 is followed like the first", () => {
  const worker = new SmgWorker(undefined, 3);
  worker.frames(framesOf(0, batchOf([full([4], 4)], 3)));
  expect(worker.q(5)).toBe(4);
});

test("M11: a lower number never moves the cursor back inside an epoch", () => {
  const worker = new SmgWorker();
  const second = framesOf(1, batchOf([full([4], 4)]));
  worker.batch(0);
  worker.frames(second);
  worker.batch(2, rem(0, [4]));
  worker.frames(second);
  expect(worker.q(5)).toBe(0);
  expect(worker.path.gateway.workers()[0]?.sequenceNumber).toBe(2n);
});

test("M13: a key stored with a large span, then with its own, covers its own only", () => {
  const worker = new SmgWorker();
  worker.batch(0, R(0, "full", 0, 8, [8], 8), rem(0, [8]));
  worker.batch(1, R(0, "full", 0, 4, [4], 4), C(0, "full", 0, 4, 8, { block_hashes: [108] }));
  expect(worker.q(9)).toBe(0);
});

test("M14: the score is tokens, whatever the block sizes of a fleet", () => {
  const make = (fanOut: FanOut): RankPipeline =>
    pipelineOf({ emit: (output) => fanOut.publish(output) });
  const { gateway, pipelines, drain } = gatewayOver({ a: make, b: make });
  pipelines[0]?.receive(framesOf(0, batchOf([R(0, "full", 0, 16, every(16, 64), 64)])), 0);
  pipelines[1]?.receive(framesOf(0, batchOf([R(0, "full", 0, 4, every(4, 64), 64)])), 0);
  drain();
  expect(gateway.score({ tokens: q(65) }).map((answer) => answer.reusableTokens)).toEqual([64, 64]);
  gateway.close();
});

test("the 33rd group is never as if it did not exist", () => {
  const worker = new SmgWorker();
  const groups = LIMITS.groupsPerRank.value + 1;
  for (let group = 0; group < groups; group++) worker.batch(group, R(group, "full", 0, 4, [4], 4));
  worker.batch(groups, rem(groups - 1, [4]));
  expect(worker.counter("refused.too_many_groups")).toBe(1);
  expect(worker.q(5)).toBe(0);
});
