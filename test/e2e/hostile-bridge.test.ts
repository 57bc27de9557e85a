/**
 * What it is: claims about a bridge that breaks its contract, message by message.
 * Goal: the gateway never credits what was not soundly said, never throws, does not grow, shows a
 * state, and backs off.
 * Method: a bridge that answers every subscription with the same messages, on a virtual clock: a
 * rank that holds 8 tokens soundly, then the odd message, then an hour. Streams are counted.
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type SubscribeResponse,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import { describe, expect, test } from "vitest";
import type { StreamHandlers } from "../../src/gateway/dist/connect-source.js";
import { createGateway, SUBSCRIPTION_ERRORS } from "../../src/gateway/dist/index.js";
import { RankChains } from "../../src/prefix-index/dist/rank-chains.js";
import { LIMITS } from "../../src/protocol/dist/index.js";
import { createLogger } from "../../src/runtime/dist/index.js";
import { SeededRandomness } from "../support/seeded-randomness.ts";
import { callsOf } from "../support/smg-notation.ts";
import { VirtualClock } from "../support/virtual-clock.ts";
import {
  batch,
  chunk,
  type EngineInit,
  type EventInit,
  engine,
  FULL_4,
  FULL_GROUP,
  heartbeat,
  keysAt,
  liveWith,
  SEED,
  start,
  store,
  tokensTo,
  withdraw,
} from "../unit/gateway/messages.ts";

const HOUR_MS = 3_600_000;
const SOUND = liveWith([store(0, [4, 4, 8])]);
const MAX_ENTRIES = 1000;

/** A gateway that follows bridges which answer each subscription with the messages of `answers`. */
function follow(answers: Readonly<Record<string, readonly SubscribeResponse[]>>) {
  const clock = new VirtualClock();
  const lines: string[] = [];
  const open = new Map<string, StreamHandlers>();
  let streams = 0;
  const gateway = createGateway({
    seed: SEED,
    clock,
    timers: clock,
    randomness: new SeededRandomness(11),
    log: createLogger({ level: "info", destination: { write: (line) => lines.push(line) } }),
    indexLimits: { maxNodes: MAX_ENTRIES, maxEntriesPerRank: MAX_ENTRIES },
    sourceFactory: ({ url }) => ({
      open: (_dpRank, handlers) => {
        const name = new URL(url).hostname;
        let isOpen = true;
        streams += 1;
        open.set(name, handlers);
        clock.after(1, () => {
          if (isOpen) handlers.onOpened();
          for (const message of answers[name] ?? []) if (isOpen) handlers.onMessage(message);
        });
        return () => {
          isOpen = false;
        };
      },
      close: () => {},
    }),
  });
  for (const name of Object.keys(answers)) {
    gateway.addWorker({ name, url: `http://${name}`, dpRanks: [0] });
  }
  clock.advance(2);
  const answer = (length = 17, name = "hostile") => {
    gateway.audit();
    const found = gateway.score({ tokens: tokensTo(length) }).find((line) => line.worker === name);
    if (found === undefined) throw new TypeError("a followed worker has an answer");
    return found;
  };
  return { clock, gateway, lines, open, answer, streams: () => streams };
}

const afterSound = (...odd: readonly SubscribeResponse[]) =>
  follow({ hostile: [...SOUND, ...odd] });
const oddStore = (more: EventInit): SubscribeResponse =>
  batch(0, [store(0, [12, 4, 12]), { ...store(0, [16, 4, 16]), ...more }]);
const groups = (ids: readonly number[]) => ids.map((groupId) => ({ ...FULL_GROUP, groupId }));
const ids = (count: number): readonly number[] => Array.from({ length: count }, (_, id) => id);

const REFUSED: readonly (readonly [string, readonly SubscribeResponse[], string])[] = [
  ["a batch of another epoch", [batch(0, [store(0, [12, 4, 16])], { epoch: 8n })], "protocol"],
  ["a gap", [batch(0), batch(2, [store(0, [12, 4, 16])])], "protocol"],
  ["a batch without contents", [batch(0, [], { epoch: 0n })], "protocol"],
  ["keys of 12 bytes", [oddStore({ prefixKeys: new Uint8Array(12) })], "protocol"],
  ["an end of 0", [oddStore({ endTokens: 0 })], "protocol"],
  ["a block size of 0", [oddStore({ blockSize: 0 })], "protocol"],
  ["an end of 2^32 - 1", [oddStore({ endTokens: 2 ** 32 - 1 })], "protocol"],
  ["a block size of 2^32 - 1", [oddStore({ blockSize: 2 ** 32 - 1 })], "protocol"],
  ["a parent of 7 bytes", [oddStore({ parentPrefixKey: new Uint8Array(7) })], "protocol"],
  ["a medium of 4,096 characters", [oddStore({ medium: "m".repeat(4096) })], "protocol"],
  ["33 groups", [engine({ ...FULL_4, groups: groups(ids(33)) })], "protocol"],
  ["a group twice", [engine({ ...FULL_4, groups: groups([0, 1, 0]) })], "protocol"],
  ["another look-ahead", [engine({ ...FULL_4, lookaheadTokens: 5 })], "engine_changed"],
  ["a further chunk after the last", [chunk(1, true)], "protocol"],
  ["a chunk numbered 2^32 - 1", [start(), chunk(2 ** 32 - 1, true)], "protocol"],
  ["a heartbeat from the future", [heartbeat(2 ** 40)], "protocol"],
  ["a start of another rank", [start({ dpRank: 1 })], "protocol"],
  ["a start that claims to resume", [start({ isResumed: true })], "protocol"],
  ["a start without an epoch", [start({ cursor: { epoch: 0n } })], "protocol"],
  ["a start of 33 groups", [start({ engine: { ...FULL_4, groups: groups(ids(33)) } })], "protocol"],
];

describe("a message that breaks the contract, on every stream for an hour", () => {
  for (const [name, odd, error] of REFUSED) {
    test(`${name}: nothing of it counts, it shows, and the gateway backs off`, () => {
      const { clock, gateway, lines, answer, streams } = afterSound(...odd);
      expect(answer().reusableTokens).toBeLessThanOrEqual(8);
      const expected = error === "protocol" ? "bridge_protocol" : error;
      expect(gateway.workers()[0]).toMatchObject({ lastError: expected, state: "stale" });
      clock.advance(HOUR_MS);
      expect(answer().reusableTokens).toBeLessThanOrEqual(8);
      // Full jitter below 15 s: one in 7.5 s, some more while the pause grows.
      expect(streams()).toBeLessThan(700);
      expect(lines.length).toBeLessThan(4 * 700);
      expect(clock.pendingTimers).toBeLessThanOrEqual(2);
    });
  }

  test("a batch before any start leaves nothing known", () => {
    const { clock, gateway, answer, streams } = follow({
      hostile: [batch(0, [store(0, [4, 4, 8])])],
    });
    expect(answer()).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(gateway.workers()[0]).toMatchObject({ lastError: "bridge_protocol", entries: 0 });
    clock.advance(HOUR_MS);
    expect(streams()).toBeLessThan(700);
  });

  test("a start under another seed is named and tried at the longest pause only", () => {
    const keyScheme = { id: "hsip13/1", checkValue: new Uint8Array(8) };
    const { clock, gateway, answer, streams } = follow({
      hostile: [start({ keyScheme }), ...SOUND],
    });
    expect(answer()).toMatchObject({ state: "unknown", reusableTokens: 0 });
    expect(gateway.workers()[0]?.lastError).toBe("key_scheme_mismatch");
    clock.advance(HOUR_MS);
    expect(streams()).toBeLessThanOrEqual(HOUR_MS / LIMITS.reconnectMaxMs.value + 1);
  });
});

describe("a message that a newer bridge may send", () => {
  test("an unknown operation forgets the rank and says so until the next start", () => {
    const { answer } = afterSound(
      batch(0, [store(0, [12, 4, 16]), { operation: 99 as Operation }]),
    );
    expect(answer()).toMatchObject({ state: "lower_bound", reusableTokens: 0 });
    expect(answer().reasons).toContain("withdrawn");
  });

  test("an unknown case is ignored, with what it carries", () => {
    // Field 15, a message that holds a sound batch.
    const inner = toBinary(SubscribeResponseSchema, batch(0, [store(0, [12, 4, 16])]));
    const bytes = Uint8Array.of(0x7a, ...lengthOf(inner.length), ...inner);
    const { gateway, answer } = afterSound(fromBinary(SubscribeResponseSchema, bytes));
    expect(answer().reusableTokens).toBe(8);
    expect(gateway.workers()[0]).toMatchObject({ subscriptionState: "live", lastError: undefined });
  });
});

function lengthOf(value: number): readonly number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...lengthOf(value >>> 7)];
}

describe("a sound form with unsound contents", () => {
  test("a thousand media are bounded, and the GPU's answer is untouched", () => {
    const tiers = ids(1000).map((n) => store(0, [4, 4, 8], { medium: `TIER${n}` }));
    const { gateway, answer } = afterSound(batch(0, tiers));
    expect(answer()).toMatchObject({ state: "exact", reusableTokens: 8 });
    expect(gateway.workers()[0]?.entries).toBeLessThanOrEqual(2 * LIMITS.mediaPerRank.value);
  });

  test("one key at two positions counts at the first one only, and the doubt shows", () => {
    const lie = { ...store(0, [16, 4, 16]), prefixKeys: keysAt(tokensTo(16), [8]) };
    const { answer } = afterSound(batch(0, [store(0, [12, 4, 12]), lie]));
    expect(answer()).toMatchObject({ state: "lower_bound", reusableTokens: 12 });
  });

  test("a worker that lies about an end raises nobody, and who is lowered by it is told so", () => {
    const lie = { ...store(0, [5, 4, 5]), prefixKeys: keysAt(tokensTo(8), [4]) };
    const { answer } = follow({ hostile: liveWith([lie]), sound: SOUND });
    const { reusableTokens, state, reasons } = answer(17, "sound");
    expect(reusableTokens).toBeLessThanOrEqual(8);
    expect([state, reasons]).toEqual(["lower_bound", ["limit_reached"]]);
  });

  test("a worker that fills the index to its ceiling is the one that loses", () => {
    const most = 4 * MAX_ENTRIES;
    const { gateway, answer } = follow({
      hostile: liveWith([store(0, [4, 4, 2 * most], { tokens: ids(2 * most + 64) })]),
      sound: SOUND,
    });
    expect(gateway.workers()[0]?.entries).toBeLessThanOrEqual(MAX_ENTRIES);
    expect(answer(17, "hostile").state).toBe("lower_bound");
    // A lower bound with its reason is honest; the number of others must not be silently wrong.
    const honest = answer(17, "sound");
    expect(honest.reusableTokens === 8 || honest.reasons.includes("limit_reached")).toBe(true);
  });

  const engines: readonly (readonly [string, EngineInit])[] = [
    ["S that no block divides", { schedulerBlockSize: 7 }],
    ["sizes of 2^32 - 1", { schedulerBlockSize: 2 ** 32 - 1, hashBlockSize: 2 ** 32 - 1 }],
    ["a replay window of 2^32 - 1", { replayTokens: 2 ** 32 - 1 }],
    ["no groups at all", { groups: [] }],
    ["groups of block size 0", { groups: [{ ...FULL_GROUP, blockSize: 0 }] }],
    ["private groups only", { groups: [{ ...FULL_GROUP, isPrivate: true }] }],
    ["an unknown kind", { groups: [{ ...FULL_GROUP, kind: "__proto__" }] }],
  ];
  for (const [name, odd] of engines) {
    test(`an engine with ${name} has no number`, () => {
      const { answer, gateway } = afterSound(engine({ ...FULL_4, ...odd }));
      expect(answer()).toMatchObject({ state: "unknown", reusableTokens: 0 });
      expect(() => gateway.explain({ tokens: tokensTo(17) }, "hostile", 0)).not.toThrow();
    });
  }
});

describe("floods", () => {
  test("ten thousand starts on one stream leave one view, one timer and a bounded log", () => {
    const again = ids(10_000).flatMap(() => SOUND);
    const { clock, lines, answer, streams } = afterSound(...again);
    expect(answer()).toMatchObject({ state: "exact", reusableTokens: 8 });
    expect([streams(), clock.pendingTimers]).toEqual([1, 1]);
    expect(lines.length).toBeLessThan(100);
  });

  test("a hundred thousand withdrawals and unknown messages are taken", () => {
    const unknown = fromBinary(SubscribeResponseSchema, Uint8Array.of(0x7a, 0));
    const { answer } = afterSound(
      ...ids(100_000).map((n) => (n % 2 === 0 ? withdraw(1, "x") : unknown)),
    );
    expect(answer().reusableTokens).toBe(8);
  });

  test("two hundred thousand events of a message are taken or refused, the order of them kept", () => {
    const pair = [{ operation: Operation.CLEAR, clearsAllGroups: true }, store(0, [4, 4, 8])];
    const { answer } = afterSound(
      batch(
        0,
        ids(100_000).flatMap(() => pair),
      ),
    );
    expect(answer().reusableTokens).toBe(8);
  });

  test("clears of an empty group do not walk each time over what other groups hold", () => {
    const description = { ...FULL_4, groups: groups([0, 1]) };
    const held = store(0, [4, 4, 4 * (MAX_ENTRIES - 1)]);
    const clear = { operation: Operation.CLEAR, groupId: 1, medium: "GPU" };
    const { open, answer } = follow({ hostile: liveWith([held], description) });
    const flood = batch(
      0,
      ids(500).map(() => clear),
    );
    const steps = callsOf(RankChains.prototype, "recordsOf", () =>
      open.get("hostile")?.onMessage(flood),
    );
    expect(answer().state).toBe("exact");
    expect(steps).toBeLessThan(20 * MAX_ENTRIES);
  });
});

describe("silence and endings", () => {
  test("without a heartbeat an answer becomes stale, and the stream is opened anew", () => {
    const { clock, gateway, answer, streams } = afterSound();
    clock.advance(LIMITS.staleAfterMs.value + 1);
    expect(answer()).toMatchObject({ state: "stale", reusableTokens: 8 });
    clock.advance(HOUR_MS);
    expect(streams()).toBeGreaterThan(10);
    expect(streams()).toBeLessThan(150);
    expect(SUBSCRIPTION_ERRORS).toContain(gateway.workers()[0]?.lastError ?? "bridge_silent");
  });

  for (const error of SUBSCRIPTION_ERRORS) {
    test(`${error} at the end of each stream for an hour is no hot loop`, () => {
      const { clock, gateway, open, answer, streams } = follow({ hostile: [] });
      for (let turn = 0; turn < HOUR_MS / 100; turn++) {
        clock.advance(100);
        if (gateway.workers()[0]?.subscriptionState !== "connecting") continue;
        open.get("hostile")?.onEnded(error);
        expect(gateway.workers()[0]).toMatchObject({
          subscriptionState: "backoff",
          lastError: error,
        });
      }
      expect(answer()).toMatchObject({ state: "unknown", reusableTokens: 0 });
      expect(streams()).toBeLessThan(700);
    });
  }

  test("a bridge that is live for a moment and then breaks off again and again is no hot loop", () => {
    const { clock, open, gateway, streams } = afterSound();
    for (let turn = 0; turn < HOUR_MS / 100; turn++) {
      clock.advance(100);
      if (gateway.workers()[0]?.subscriptionState === "live")
        open.get("hostile")?.onEnded("stream_ended");
    }
    expect(streams()).toBeLessThan(700);
  });
});
