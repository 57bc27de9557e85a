import { create } from "@bufbuild/protobuf";
import { Certainty, EngineDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { expect, test } from "vitest";
import {
  ANSWER_REASONS,
  assess,
  LAYOUT_REASONS,
  type ViewFacts,
  withUnplacedBlocks,
} from "../../../src/gateway/dist/answer.js";
import { engineDescriptionFromWire } from "../../../src/protocol/dist/index.js";
import { type EngineInit, FULL_4, FULL_GROUP, type GroupInit } from "./messages.ts";

const GOOD: ViewFacts = {
  hasView: true,
  layoutReasons: [],
  engine: described(FULL_4),
  isEngineConnected: true,
  isCatchingUp: false,
  isSnapshotWhole: true,
  isComplete: true,
  hasUnplacedBlocks: false,
  isWithdrawn: false,
  isLimited: false,
};

function described(init: EngineInit) {
  return engineDescriptionFromWire(create(EngineDescriptionSchema, init));
}

const withGroup = (group: GroupInit) =>
  described({ ...FULL_4, groups: [{ ...FULL_GROUP, ...group }] });

test("a whole view of a configured engine is exact, without reasons", () => {
  expect(assess(GOOD, undefined, "zero")).toEqual({ state: "exact", reasons: [] });
});

for (const [facts, state, reason] of [
  [{ hasView: false }, "unknown", "no_view"],
  [{ layoutReasons: ["kind_unknown"] }, "unknown", "kind_unknown"],
  [{ isEngineConnected: false }, "stale", "engine_disconnected"],
  [{ engine: described({ ...FULL_4, isRosterComplete: false }) }, "assumed", "roster_incomplete"],
  [
    { engine: described({ ...FULL_4, layoutCertainty: Certainty.ASSUMED }) },
    "assumed",
    "layout_assumed",
  ],
  [{ engine: withGroup({ certainty: Certainty.UNSPECIFIED }) }, "assumed", "group_assumed"],
  [{ isSnapshotWhole: false }, "lower_bound", "snapshot_pending"],
  [{ isComplete: false }, "lower_bound", "incomplete"],
  [{ hasUnplacedBlocks: true }, "lower_bound", "unplaced_blocks"],
  [{ isWithdrawn: true }, "lower_bound", "withdrawn"],
  [{ isLimited: true }, "lower_bound", "limit_reached"],
] as const) {
  test(`${reason} alone makes an answer ${state}`, () => {
    expect(assess({ ...GOOD, ...facts }, undefined, "zero")).toEqual({ state, reasons: [reason] });
  });
}

test("learnt facts are as good as configured ones", () => {
  const groups = [{ ...FULL_GROUP, certainty: Certainty.LEARNT }];
  const engine = described({ ...FULL_4, groups, layoutCertainty: Certainty.LEARNT });
  expect(assess({ ...GOOD, engine }, undefined, "zero").state).toBe("exact");
});

test("a group never seen is an assumption or no answer, by policy", () => {
  const facts = { ...GOOD, engine: withGroup({ isSeen: false }) };
  const reasons = ["group_unseen"];
  expect(assess(facts, undefined, "zero")).toEqual({ state: "assumed", reasons });
  expect(assess(facts, undefined, "unknown")).toEqual({ state: "unknown", reasons });
});

test("a private group is never seen, and that means nothing", () => {
  const scratch = { groupId: 1, blockSize: 6, isPrivate: true };
  const engine = described({ ...FULL_4, groups: [FULL_GROUP, scratch] });
  expect(assess({ ...GOOD, engine }, undefined, "unknown").state).toBe("exact");
});

test("trouble with the stream is stale, and unknown beats it", () => {
  for (const trouble of ["disconnected", "silent"] as const) {
    expect(assess(GOOD, trouble, "zero")).toEqual({ state: "stale", reasons: [trouble] });
    expect(assess({ ...GOOD, hasView: false }, trouble, "zero").state).toBe("unknown");
  }
});

test("unknown > stale > assumed > lower_bound > exact, and every reason is told in order", () => {
  const incomplete = { ...GOOD, isComplete: false };
  const assumed = { ...incomplete, engine: described({ ...FULL_4, isRosterComplete: false }) };
  expect(assess(assumed, undefined, "zero")).toEqual({
    state: "assumed",
    reasons: ["roster_incomplete", "incomplete"],
  });
  expect(assess(assumed, "silent", "zero")).toEqual({
    state: "stale",
    reasons: ["silent", "roster_incomplete", "incomplete"],
  });
  const none = { ...assumed, layoutReasons: ["no_groups"] as const };
  expect(assess(none, "silent", "zero")).toEqual({
    state: "unknown",
    reasons: ["no_groups", "silent", "roster_incomplete", "incomplete"],
  });
});

test("of a query that cannot be hashed an exact answer is a lower bound, and others keep their state", () => {
  for (const [facts, state, reasons] of [
    [{}, "lower_bound", ["unplaced_blocks"]],
    [{ hasUnplacedBlocks: true }, "lower_bound", ["unplaced_blocks"]],
    [{ isLimited: true }, "lower_bound", ["unplaced_blocks", "limit_reached"]],
    [{ isEngineConnected: false }, "stale", ["engine_disconnected", "unplaced_blocks"]],
  ] as const) {
    const before = assess({ ...GOOD, ...facts }, undefined, "zero");
    expect(withUnplacedBlocks(before)).toEqual({ state, reasons });
  }
});

test("every layout reason is an answer reason, and no reason stands twice", () => {
  expect(new Set(ANSWER_REASONS).size).toBe(ANSWER_REASONS.length);
  for (const reason of LAYOUT_REASONS) expect(ANSWER_REASONS).toContain(reason);
});
