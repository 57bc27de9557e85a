import { expect, test } from "vitest";
import { StallWatch } from "../../../src/bridge/dist/stall-watch.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";

const stallMs = LIMITS.stallMs.value;
const graceMs = LIMITS.wakeGraceMs.value;

test("a process that runs is awake", () => {
  const watch = new StallWatch(0);
  for (let nowMs = 0; nowMs < 10 * stallMs; nowMs += stallMs / 2) {
    expect(watch.isAwake(nowMs + stallMs / 2)).toBe(true);
    expect(watch.turn(nowMs)).toBe(0);
  }
});

test("after a stall it claims nothing, before its first turn and until the sockets had their time", () => {
  const watch = new StallWatch(0);
  const wokeMs = stallMs + 1;
  expect(watch.isAwake(stallMs)).toBe(true);
  expect(watch.isAwake(wokeMs)).toBe(false);
  expect(watch.turn(wokeMs)).toBe(wokeMs);
  expect(watch.isAwake(wokeMs)).toBe(false);
  expect(watch.turn(wokeMs + graceMs / 2)).toBe(0);
  expect(watch.isAwake(wokeMs + graceMs - 1)).toBe(false);
  expect(watch.isAwake(wokeMs + graceMs)).toBe(true);
});

test("a second stall within the grace begins it anew", () => {
  const watch = new StallWatch(0);
  watch.turn(stallMs + 1);
  watch.turn(2 * stallMs + 2);
  expect(watch.isAwake(2 * stallMs + 2 + graceMs - 1)).toBe(false);
});
