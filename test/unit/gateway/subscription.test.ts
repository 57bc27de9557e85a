import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type MessageProgress,
  Subscription,
  type SubscriptionError,
  type SubscriptionInput,
  type SubscriptionState,
} from "../../../src/gateway/dist/subscription.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { tableRows } from "../../tidy/tables.ts";

const PROTOCOL = join(import.meta.dirname, "../../../docs/protocol.md");

const STALE_MS = 1_000;
const MAX = LIMITS.reconnectMaxMs.value;
const START: SubscriptionInput = { type: "start" };
const TIMER: SubscriptionInput = { type: "timer" };
const ended = (error: SubscriptionError): SubscriptionInput => ({ type: "stream_ended", error });
const MOVED: SubscriptionInput = { type: "address_changed" };
const message = (progress: MessageProgress): SubscriptionInput => ({
  type: "message",
  progress,
});

function make(random = 0.5): Subscription {
  return new Subscription({ staleAfterMs: STALE_MS, random: () => random });
}

const WAYS: Readonly<Record<SubscriptionState, readonly SubscriptionInput[]>> = {
  stopped: [],
  connecting: [START],
  snapshot: [START, message("started")],
  live: [START, message("started"), message("snapshot_whole")],
  backoff: [START, ended("bridge_unreachable")],
};

function at(state: SubscriptionState): Subscription {
  const subscription = make();
  for (const input of WAYS[state]) subscription.step(input, 0);
  expect(subscription.state).toBe(state);
  return subscription;
}

/** Outputs in short: the timer's delay stands behind its name. */
function outputs(subscription: Subscription, input: SubscriptionInput, nowMs = 0): string {
  const steps = subscription.step(input, nowMs);
  return steps
    .map((step) => (step.type === "set_timer" ? `set_timer ${step.delayMs}` : step.type))
    .join(", ");
}

const OPENED: SubscriptionInput = { type: "stream_opened" };
const REFUSED: SubscriptionInput = { type: "message_refused", error: "bridge_protocol" };
const ENDED = ended("bridge_failed");
const STOP: SubscriptionInput = { type: "stop" };
const BACKOFF = "close_stream, set_timer 100, state_changed";

// Goal: no pair of state and input is without a decided effect. Time 0 throughout, random 0.5.
const TABLE: readonly (readonly [
  SubscriptionState,
  SubscriptionInput,
  SubscriptionState,
  string,
])[] = [
  ["stopped", START, "connecting", "set_timer 10000, state_changed, open_stream"],
  ["stopped", OPENED, "stopped", ""],
  ["stopped", message("started"), "stopped", ""],
  ["stopped", message("snapshot_whole"), "stopped", ""],
  ["stopped", message("none"), "stopped", ""],
  ["stopped", REFUSED, "stopped", ""],
  ["stopped", ENDED, "stopped", ""],
  ["stopped", TIMER, "stopped", ""],
  ["stopped", message("resumed"), "stopped", ""],
  ["stopped", MOVED, "stopped", ""],
  ["stopped", STOP, "stopped", ""],
  ["connecting", START, "connecting", ""],
  ["connecting", OPENED, "connecting", ""],
  ["connecting", message("started"), "snapshot", "set_timer 1000, state_changed"],
  ["connecting", message("none"), "connecting", ""],
  ["connecting", REFUSED, "backoff", BACKOFF],
  ["connecting", ENDED, "backoff", "set_timer 100, state_changed"],
  ["connecting", TIMER, "backoff", BACKOFF],
  ["connecting", message("resumed"), "live", "set_timer 1000, state_changed"],
  ["connecting", MOVED, "connecting", "close_stream, set_timer 10000, state_changed, open_stream"],
  ["connecting", STOP, "stopped", "close_stream, clear_timer, state_changed"],
  ["snapshot", START, "snapshot", ""],
  ["snapshot", OPENED, "snapshot", ""],
  ["snapshot", message("started"), "snapshot", ""],
  ["snapshot", message("snapshot_whole"), "live", "state_changed"],
  ["snapshot", message("none"), "snapshot", ""],
  ["snapshot", REFUSED, "backoff", BACKOFF],
  ["snapshot", ENDED, "backoff", "set_timer 100, state_changed"],
  ["snapshot", TIMER, "snapshot", "set_timer 1000"],
  ["snapshot", MOVED, "connecting", "close_stream, set_timer 10000, state_changed, open_stream"],
  ["snapshot", STOP, "stopped", "close_stream, clear_timer, state_changed"],
  ["live", START, "live", ""],
  ["live", OPENED, "live", ""],
  ["live", message("started"), "snapshot", "state_changed"],
  ["live", message("none"), "live", ""],
  ["live", REFUSED, "backoff", BACKOFF],
  ["live", ENDED, "backoff", "set_timer 100, state_changed"],
  ["live", TIMER, "live", "set_timer 1000"],
  ["live", MOVED, "connecting", "close_stream, set_timer 10000, state_changed, open_stream"],
  ["live", STOP, "stopped", "close_stream, clear_timer, state_changed"],
  ["backoff", START, "backoff", ""],
  ["backoff", OPENED, "backoff", ""],
  ["backoff", message("started"), "backoff", ""],
  ["backoff", message("snapshot_whole"), "backoff", ""],
  ["backoff", message("none"), "backoff", ""],
  ["backoff", REFUSED, "backoff", ""],
  ["backoff", ENDED, "backoff", ""],
  ["backoff", TIMER, "connecting", "set_timer 10000, state_changed, open_stream"],
  ["backoff", message("resumed"), "backoff", ""],
  ["backoff", MOVED, "connecting", "set_timer 10000, state_changed, open_stream"],
  ["backoff", STOP, "stopped", "clear_timer, state_changed"],
];

const nameOf = (input: SubscriptionInput): string =>
  input.type === "message" ? `message: ${input.progress}` : input.type;

test("docs/protocol.md shows every pair that has an effect, and no other", () => {
  const shown = tableRows(readFileSync(PROTOCOL, "utf8"), "subscription-machine");
  const expected = TABLE.filter(([state, , next, effect]) => effect !== "" || state !== next).map(
    ([state, input, next, effect]) => {
      const output = effect
        .replace("set_timer 10000", "set_timer connectTimeoutMs")
        .replace("set_timer 1000", "set_timer staleAfterMs")
        .replace("set_timer 100", "set_timer pause");
      return [state, nameOf(input), next, output];
    },
  );
  expect(shown).toEqual(expected);
});

for (const [state, input, next, effect] of TABLE) {
  const name = input.type === "message" ? `message ${input.progress}` : input.type;
  test(`${state} × ${name} leads to ${next}`, () => {
    const subscription = at(state);
    expect(outputs(subscription, input)).toBe(effect);
    expect(subscription.state).toBe(next);
  });
}

test("a snapshot cannot become whole before its start or twice: that is our bug", () => {
  for (const state of ["connecting", "live"] as const) {
    expect(() => at(state).step(message("snapshot_whole"), 0)).toThrow("after its start");
  }
});

test("the back-off doubles from the least to the longest pause, with full jitter", () => {
  const subscription = make(0.999_999);
  const delays: number[] = [];
  subscription.step(START, 0);
  for (let i = 0; i < 9; i++) {
    for (const output of subscription.step(ended("bridge_unreachable"), 0)) {
      if (output.type === "set_timer") delays.push(output.delayMs);
    }
    subscription.step(TIMER, 0);
  }
  expect(delays).toEqual([199, 399, 799, 1599, 3199, 6399, 12799, 14999, 14999]);
  const eager = make(0);
  eager.step(START, 0);
  expect(outputs(eager, ended("bridge_failed"))).toBe("set_timer 0, state_changed");
});

test("a stream that was live for long begins the back-off anew, one that flaps does not", () => {
  const flapping = make(1 - 2 ** -20);
  const steady = make(1 - 2 ** -20);
  for (const [subscription, liveMs, expected] of [
    [flapping, 10, 799],
    [steady, MAX, 199],
  ] as const) {
    let nowMs = 0;
    let delayMs = 0;
    subscription.step(START, nowMs);
    for (let i = 0; i < 3; i++) {
      subscription.step(message("started"), nowMs);
      subscription.step(message("snapshot_whole"), nowMs);
      nowMs += liveMs;
      for (const output of subscription.step(ended("bridge_failed"), nowMs)) {
        if (output.type === "set_timer") delayMs = output.delayMs;
      }
      subscription.step(TIMER, nowMs);
    }
    expect(delayMs).toBe(expected);
  }
});

for (const error of [
  "key_scheme_mismatch",
  "rank_unknown",
  "permission_denied",
  "unauthenticated",
  "unimplemented",
] as const) {
  test(`${error} is tried again at the longest pause only, and shown until the stream is live`, () => {
    const subscription = make(0);
    subscription.step(START, 0);
    expect(outputs(subscription, ended(error))).toBe(`set_timer ${MAX}, state_changed`);
    subscription.step(TIMER, MAX);
    expect(subscription.lastError).toBe(error);
    subscription.step(message("started"), MAX);
    expect(subscription.lastError).toBe(error);
    subscription.step(message("snapshot_whole"), MAX);
    expect(subscription.lastError).toBeUndefined();
  });
}

test("a refused message shows its own error", () => {
  const subscription = at("live");
  subscription.step({ type: "message_refused", error: "key_scheme_mismatch" }, 0);
  expect(subscription.lastError).toBe("key_scheme_mismatch");
});

test("trouble tells a missing stream from a silent one", () => {
  for (const state of ["stopped", "connecting", "backoff"] as const) {
    expect(at(state).trouble(0)).toBe("disconnected");
  }
  for (const state of ["snapshot", "live"] as const) {
    expect(at(state).trouble(STALE_MS - 1)).toBeUndefined();
    expect(at(state).trouble(STALE_MS)).toBe("silent");
  }
});

test("what comes first after a silence does not end it; what comes after the grace does", () => {
  const subscription = at("live");
  const graceMs = LIMITS.wakeGraceMs.value;
  const wokeMs = STALE_MS + 1;
  outputs(subscription, message("none"), wokeMs);
  expect(subscription.trouble(wokeMs)).toBe("silent");
  outputs(subscription, message("none"), wokeMs + graceMs - 1);
  expect(subscription.trouble(wokeMs + graceMs - 1)).toBe("silent");
  expect(subscription.trouble(wokeMs + graceMs)).toBeUndefined();
});

test("silence is told once, its end too, and twice the time ends the stream", () => {
  const subscription = at("live");
  expect(outputs(subscription, TIMER, STALE_MS)).toBe("set_timer 1000, state_changed");
  expect(outputs(subscription, message("none"), STALE_MS + 1)).toBe("state_changed");
  expect(subscription.trouble(STALE_MS + 1), "it may have been under way all the while").toBe(
    "silent",
  );
  expect(outputs(subscription, TIMER, 2 * STALE_MS)).toBe("set_timer 1");
  expect(outputs(subscription, TIMER, 2 * STALE_MS + 1)).toBe("set_timer 1000, state_changed");
  expect(outputs(subscription, TIMER, 3 * STALE_MS + 1)).toBe(BACKOFF);
  expect(subscription.lastError).toBe("bridge_silent");
});

test("messages move the silence timer without setting a new one each", () => {
  const subscription = at("live");
  for (let nowMs = 1; nowMs <= 900; nowMs++) {
    expect(outputs(subscription, message("none"), nowMs)).toBe("");
  }
  expect(outputs(subscription, TIMER, STALE_MS)).toBe("set_timer 900");
});

test("a bridge that accepts and says nothing is left after the connect time-out", () => {
  const subscription = at("connecting");
  subscription.step({ type: "stream_opened" }, 5);
  expect(outputs(subscription, TIMER, LIMITS.connectTimeoutMs.value)).toBe(BACKOFF);
  expect(subscription.lastError).toBe("bridge_unreachable");
});

test("a view goes on with the first start only: anything else is our bug", () => {
  for (const state of ["snapshot", "live"] as const) {
    expect(() => at(state).step(message("resumed"), 0)).toThrow("first start only");
  }
});

test("a stream that goes on is live at once, and its error is over", () => {
  const subscription = at("backoff");
  subscription.step(TIMER, 0);
  expect(subscription.lastError).toBe("bridge_unreachable");
  subscription.step(message("resumed"), 5);
  expect(subscription.lastError).toBeUndefined();
  expect(subscription.trouble(5 + STALE_MS - 1)).toBeUndefined();
  expect(subscription.trouble(5 + STALE_MS)).toBe("silent");
});

test("a refused cursor is answered at once without it, the second in a row backs off", () => {
  const refused = ended("resume_refused");
  const subscription = at("connecting");
  expect(outputs(subscription, refused)).toBe("set_timer 0, state_changed");
  for (const delayMs of [100, 200, 400]) {
    subscription.step(TIMER, 0);
    expect(outputs(subscription, refused)).toBe(`set_timer ${delayMs}, state_changed`);
  }
  // A start in between makes the next one a first one again.
  for (const progress of ["started", "resumed"] as const) {
    subscription.step(TIMER, 0);
    subscription.step(message(progress), 0);
    expect(outputs(subscription, refused)).toBe("set_timer 0, state_changed");
  }
  // Another error in between does not.
  subscription.step(TIMER, 0);
  subscription.step(ended("bridge_failed"), 0);
  subscription.step(TIMER, 0);
  expect(outputs(subscription, refused)).not.toContain("set_timer 0,");
});

test("another address begins the back-off anew and clears the old one's error", () => {
  const subscription = make(1 - 2 ** -20);
  subscription.step(START, 0);
  for (let i = 0; i < 6; i++) {
    subscription.step(ended("permission_denied"), 0);
    subscription.step(TIMER, 0);
    subscription.step(ended("bridge_failed"), 0);
    subscription.step(TIMER, 0);
  }
  subscription.step(MOVED, 0);
  expect(subscription.lastError).toBeUndefined();
  expect(outputs(subscription, ended("bridge_failed"))).toBe("set_timer 199, state_changed");
});
