/**
 * What it is: the sequence gate against a dull model of an engine: whatever happened, order holds, and it heals.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: single claims (test/unit/bridge/sequence-gate.test.ts does).
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchOf, GateWorld, REPLY_FAULTS, type ReplyFault } from "../support/gate-world.ts";

type Action =
  | "publish"
  | "lose"
  | "link"
  | "unlink"
  | "restart"
  | "event"
  | "live"
  | "timer"
  | "reply"
  | "replies"
  | ReplyFault;

const action = fc.constantFrom<Action>(
  ...(["publish", "publish", "publish", "lose", "link", "link", "unlink", "restart"] as const),
  ...(["event", "event", "live", "live", "live", "timer", "timer"] as const),
  ...(["reply", "reply", "replies", "replies", "none", "none", "none"] as const),
  ...(["holes", "cut", "unended", "silent", "foreign", "empty", "unasked"] as const),
);

function act(world: GateWorld, what: Action): void {
  if (what === "publish" || what === "lose") world.publish(what === "lose");
  else if (what === "link") world.link();
  else if (what === "unlink") world.unlink();
  else if (what === "restart") world.restart();
  else if (what === "event") world.tellEvent();
  else if (what === "live") world.tellLive();
  else if (what === "timer") world.fireTimer();
  else if (what === "reply") world.tellReply();
  else if (what === "replies") while (world.tellReply());
  else world.answer(what);
}

const RUNS = 2000;

const history = fc.array(action, { maxLength: 120, size: "max" });
const honest = fc.array(
  action.filter((what) => what !== "foreign" && what !== "empty"),
  { maxLength: 120, size: "max" },
);
const bounds = fc.record({
  canReplay: fc.boolean(),
  bufferBatches: fc.constantFrom(0, 1, 2, 5, 1000),
  heldBatches: fc.constantFrom(1, 3, 1000),
});

test("whatever happened: numbers have no holes, nothing hangs, and it heals", () => {
  fc.assert(
    fc.property(history, bounds, fc.boolean(), (actions, options, areEventsLate) => {
      const world = new GateWorld({ ...options, areEventsLate });
      for (const what of actions) act(world, what);
      const before = world.requests;
      world.heal();
      expect(world.requests - before).toBeLessThan(60);
    }),
    { numRuns: RUNS },
  );
});

test("no epoch has batches of two processes, where losses of sight are told before what follows", () => {
  fc.assert(
    fc.property(honest, bounds, (actions, options) => {
      const world = new GateWorld({ ...options, areEventsLate: false });
      for (const what of actions) act(world, what);
      const before = world.requests;
      world.heal();
      expect(world.wasMixed).toBe(false);
      expect(world.requests - before).toBeLessThan(30);
    }),
    { numRuns: RUNS },
  );
});

test("a hostile replay socket breaks nothing, and what it did heals", () => {
  const told = fc.record({
    process: fc.constantFrom("p0", "p1", "x", "y"),
    number: fc.oneof(
      fc.bigInt(0n, 12n),
      fc.constantFrom(1n << 40n, (1n << 40n) + 1n, (1n << 64n) - 2n),
    ),
  });
  const said = fc.record({
    type: fc.constant("said" as const),
    batches: fc.array(told, { maxLength: 12 }),
    hasMarker: fc.boolean(),
  });
  const steps = fc.array(fc.oneof({ arbitrary: action, weight: 3 }, said), {
    maxLength: 80,
    size: "max",
  });
  fc.assert(
    fc.property(steps, bounds, (actions, options) => {
      const world = new GateWorld({ ...options, areEventsLate: false });
      for (const what of actions) {
        if (typeof what === "string") act(world, what);
        else {
          const batches = what.batches.map(({ process, number }) => batchOf(process, number));
          world.answerWith(batches, what.hasMarker);
          while (world.tellReply());
        }
      }
      const before = world.requests;
      world.heal();
      expect(world.requests - before).toBeLessThan(80);
    }),
    { numRuns: RUNS },
  );
});

for (const fault of REPLY_FAULTS) {
  for (const bufferBatches of [0, 1, 5, 2000]) {
    // An engine that had batches and says that it never had any is another one.
    if (fault === "holes" && bufferBatches === 1) continue;
    test(`what the live socket brings arrives, replies always ${fault}, of ${bufferBatches} batches`, () => {
      const world = new GateWorld({
        canReplay: true,
        bufferBatches,
        heldBatches: 1000,
        areEventsLate: false,
      });
      for (let number = 0; number < 950; number += 1) world.publish(true);
      world.restart();
      for (let number = 0; number < 950; number += 1) world.publish(true);
      world.link();
      let well = 0;
      for (let round = 0; round < 60; round += 1) {
        if (round % 7 === 3) world.publish(true);
        world.round(fault);
        if (round >= 40 && world.isWell) well += 1;
      }
      // A live batch that the engine lost may be under way at any moment, but not at all of them.
      expect(well).toBe(20);
      expect(world.requests).toBeLessThan(400);
      world.heal();
    });
  }
}

test.each([1, 2, 5, 2000])(
  "live batches in order cost no request, with a buffer of %i batches (field case C7)",
  (bufferBatches) => {
    const world = new GateWorld({
      canReplay: true,
      bufferBatches,
      heldBatches: 1000,
      areEventsLate: false,
    });
    for (let number = 0; number < 50; number += 1) world.publish(true);
    world.link();
    world.settle("none");
    for (let number = 0; number < 3; number += 1) {
      world.publish(false);
      world.settle("none");
    }
    const before = world.requests;
    for (let number = 0; number < 50; number += 1) {
      world.publish(false);
      world.settle("none");
    }
    expect(world.requests).toBe(before);
    expect(world.isWell).toBe(true);
  },
);
