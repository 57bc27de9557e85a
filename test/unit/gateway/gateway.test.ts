import { expect, test } from "vitest";
import {
  AnswerBuffer,
  type RankStatus,
  type WorkerSettings,
} from "../../../src/gateway/dist/index.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { createMetrics } from "../../../src/runtime/dist/index.js";
import { Bench, codeOf } from "./gateway-bench.ts";
import {
  batch,
  chunk,
  type EngineInit,
  type EventInit,
  FULL_4,
  FULL_GROUP,
  heartbeat,
  keysAt,
  liveWith,
  remove,
  start,
  store,
  tokensTo,
} from "./messages.ts";

/** The event of SCENARIOS: the blocks of group `groupId` ending at `at`, one event a block. */
function blocks(groupId: number, size: number, at: readonly number[]): readonly EventInit[] {
  return at.map((end) => ({ ...store(groupId, [end, size, end]), blockSize: size }));
}

const group = (groupId: number, kind: string, blockSize: number, slidingWindow = 0) => ({
  groupId,
  kind,
  blockSize,
  slidingWindow,
  isSeen: true,
});

// Numbers worked out by hand from vLLM's rules; the id is the row of lookup-scenarios.ts.
for (const [id, n, groups, events, expected] of [
  [1, 17, [group(0, "full_attention", 4)], blocks(0, 4, [4, 8, 12, 16]), 16],
  [2, 16, [group(0, "full_attention", 4)], blocks(0, 4, [4, 8, 12, 16]), 12],
  [7, 17, [group(0, "full_attention", 4)], blocks(0, 4, [4, 12, 16]), 4],
  [14, 33, [group(0, "sliding_window", 4, 6)], blocks(0, 4, [28, 32]), 32],
  [22, 41, [group(0, "mamba", 4)], blocks(0, 4, [24, 40]), 40],
  [
    36,
    41,
    [group(0, "full_attention", 4), group(1, "sliding_window", 4, 9), group(2, "mamba", 4)],
    [
      ...blocks(0, 4, [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]),
      ...blocks(1, 4, [12, 16, 28, 32]),
      ...blocks(2, 4, [16, 24, 40]),
    ],
    16,
  ],
  [
    45,
    49,
    [group(0, "full_attention", 8), group(1, "sliding_window", 12, 13)],
    [...blocks(0, 8, [8, 16, 24, 32, 40, 48]), ...blocks(1, 12, [12, 24, 36])],
    24,
  ],
  [
    51,
    15,
    [group(0, "full_attention", 8), group(1, "mamba", 8)],
    [...blocks(0, 8, [8]), ...blocks(0, 4, [12]), ...blocks(1, 4, [12])],
    12,
  ],
] as const) {
  test(`row ${id} of the lookup tables: ${expected} of ${n} tokens`, () => {
    const bench = new Bench();
    const hashBlockSize = id === 51 ? 2 : 0;
    bench.addLive("w", events, { groups: [...groups], isRosterComplete: true, hashBlockSize });
    expect(bench.score(n)).toBe(`w=${expected}`);
  });
}

test("each worker has its own number, ties stay ties, in the order of names, however they came", () => {
  const held = { a: 4, b: 12, c: 8, d: 12, e: 0 };
  for (const order of ["abcde", "edcba", "cadbe"]) {
    const bench = new Bench();
    for (const name of order) {
      const last = Object.entries(held).find(([key]) => key === name)?.[1] ?? 0;
      bench.addLive(name, last === 0 ? [] : [store(0, [4, 4, last])]);
    }
    bench.add("f");
    bench.addLive("g", [store(0, [4, 4, 12])], { groups: [group(0, "odd_kind", 4)] });
    expect(bench.score(14)).toBe("a=4 b=12 c=8 d=12 e=0 f=0 g=0");
    const states = bench.gateway.score({ tokens: tokensTo(14) }).map((answer) => answer.state);
    expect(states.slice(4)).toEqual(["exact", "unknown", "unknown"]);
  }
});

test("no data, unsupported, nothing held and an old view are told apart", () => {
  const bench = new Bench();
  const bridge = bench.add("w");
  expect(bench.state()).toBe("unknown no_view disconnected");
  bridge.send([start({ engine: {} })]);
  expect(bench.state()).toMatch(/^unknown no_groups/);
  bridge.send(liveWith([], { ...FULL_4, groups: [group(0, "odd_kind", 4)] }));
  expect(bench.state()).toMatch(/^unknown kind_unsupported/);
  bridge.send(liveWith([], { ...FULL_4, unsupportedReason: "kv_cache_report_mode: full" }));
  expect(bench.state()).toBe("unknown unsupported_report_mode");
  bridge.send(liveWith([]));
  expect(bench.state()).toBe("exact");
  bridge.send([heartbeat(undefined, false)]);
  expect(bench.state()).toBe("stale engine_disconnected");
});

test("an answer that is unknown has no number", () => {
  const unseen = { ...FULL_4, groups: [{ ...FULL_GROUP, isSeen: false }] };
  for (const [unseenGroupPolicy, state, tokens] of [
    ["unknown", "unknown", 0],
    ["zero", "assumed", 8],
  ] as const) {
    const bench = new Bench({ unseenGroupPolicy });
    bench.addLive("w", [store(0, [4, 4, 8])], unseen);
    const [answer] = bench.gateway.score({ tokens: tokensTo(9) });
    expect(answer).toMatchObject({ state, reusableTokens: tokens, reasons: ["group_unseen"] });
  }
});

test("a group of the roster that never stored anything makes the answer 0, not absent", () => {
  const mamba = { ...group(1, "mamba", 4), certainty: 1, isSeen: false };
  const bench = new Bench();
  const groups = [FULL_GROUP, mamba];
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])], { ...FULL_4, groups });
  expect(bench.score(9)).toBe("w=0");
  bridge.send([batch(0, [store(1, [4, 4, 4])])]);
  expect(bench.score(9)).toBe("w=4");
  bridge.send([batch(1, [remove(1, [4])])]);
  expect(bench.score(9)).toBe("w=0");
});

test("ranks of one worker are apart: a removal on one leaves the other", () => {
  // Global rank numbers, one stream each.
  const bench = new Bench();
  const bridge = bench.add("w", { dpRanks: [5, 4] });
  for (const rank of [4, 5]) bridge.send(liveWith([store(0, [4, 4, 4])], FULL_4, rank), rank);
  bridge.send([batch(0, [remove(0, [4])])], 5);
  expect(bench.score(5)).toBe("w=4 w=0");
  expect(bench.gateway.workers().map((rank) => rank.dpRank)).toEqual([4, 5]);
});

test("a namespaced prompt meets its own blocks only", () => {
  const tokens = tokensTo(9);
  const own = { loraName: "adapter", cacheSalt: "salt" };
  const bench = new Bench();
  bench.addLive("lora", [{ ...store(0, [4, 4, 8]), prefixKeys: keysAt(tokens, [4, 8], own) }]);
  bench.addLive("plain", [store(0, [4, 4, 8])]);
  const numbers = (more: object): readonly number[] =>
    bench.gateway.score({ tokens, ...more }).map((answer) => answer.reusableTokens);
  expect(numbers({})).toEqual([0, 8]);
  expect(numbers({ cacheSalt: "" })).toEqual([0, 8]);
  expect(numbers(own)).toEqual([8, 0]);
  expect(numbers({ loraName: "adapter" })).toEqual([0, 0]);
  expect(numbers({ loraName: "" })).toEqual([0, 0]);
});

test("with look-ahead hashing the tokens after a block count too", () => {
  // Two prompts that agree up to e but differ in the token at e do not share the block that ends at e.
  const bench = new Bench();
  bench.addLive("w", [store(0, [4, 4, 8], { lookahead: 1 })], { ...FULL_4, lookaheadTokens: 1 });
  expect(bench.score(9)).toBe("w=8");
  expect(bench.score(8)).toBe("w=4");
  expect(bench.score([1, 2, 3, 4, 5, 6, 7, 8, 99, 10])).toBe("w=4");
});

test("plain numbers and typed arrays score alike; what is no token id is refused", () => {
  const bench = new Bench();
  bench.addLive("w", [store(0, [4, 4, 8])]);
  expect(bench.score([...tokensTo(9)])).toBe("w=8");
  expect(bench.score([])).toBe("w=0");
  expect(codeOf(() => bench.gateway.score({ tokens: [1, -2] }))).toBe("prompt_invalid");
  expect(bench.score(9)).toBe("w=8");
});

test("silence makes a view stale, and contact makes it good again", () => {
  const bench = new Bench({ staleAfterMs: 1_000 });
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  bench.clock.advance(999);
  expect(bench.state()).toBe("exact");
  bench.clock.advance(1);
  expect(bench.state()).toBe("stale silent");
  expect(bench.score(9)).toBe("w=8");
  bridge.send([heartbeat()]);
  expect(bench.state()).toBe("exact");
});

test("a lost stream leaves the last view, marked; a new start replaces it", () => {
  const bench = new Bench();
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  bridge.end("bridge_unreachable");
  expect(bench.state()).toBe("stale disconnected");
  expect(bench.score(9)).toBe("w=8");
  bench.clock.advance(LIMITS.reconnectMinMs.value);
  expect(bridge.streams.length).toBe(2);
  expect(bench.state()).toBe("stale disconnected");
  bridge.send([start()]);
  expect(bench.state()).toBe("lower_bound snapshot_pending");
  expect(bench.score(9)).toBe("w=0");
  bridge.send([chunk(0, true, [store(0, [4, 4, 4])])]);
  expect(bench.state()).toBe("exact");
  expect(bench.score(9)).toBe("w=4");
});

test("a message that breaks the contract ends the stream and another is opened", () => {
  const bench = new Bench();
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  bridge.send([batch(0), batch(2, [store(0, [12, 4, 12])])]);
  expect(bridge.streams.map((stream) => stream.isOpen)).toEqual([false]);
  expect(bench.gateway.workers()[0]).toMatchObject({
    subscriptionState: "backoff",
    lastError: "bridge_protocol",
    sequenceNumber: 0n,
  });
  bench.clock.advance(LIMITS.reconnectMinMs.value);
  bridge.send(liveWith([store(0, [4, 4, 12])]));
  expect(bench.score(13)).toBe("w=12");
});

test("another seed is named, tried again slowly, and heals when the bridge is put right", () => {
  const bench = new Bench();
  const bridge = bench.add("w");
  const wrong = start({ keyScheme: { id: "hsip13/1", checkValue: new Uint8Array(8) } });
  bridge.send([wrong]);
  const rank = (): RankStatus | undefined => bench.gateway.workers()[0];
  expect(rank()?.lastError).toBe("key_scheme_mismatch");
  expect(rank()?.state).toBe("unknown");
  bench.clock.advance(LIMITS.reconnectMaxMs.value - 1);
  expect(bridge.streams.length).toBe(1);
  bench.clock.advance(1);
  bridge.send(liveWith([store(0, [4, 4, 8])]));
  expect(rank()).toMatchObject({ lastError: undefined, state: "exact" });
});

test("a changed look-ahead leads to a new stream at once, with the entries as they now are", () => {
  const bench = new Bench();
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  const changed = { ...FULL_4, lookaheadTokens: 1 };
  bridge.send([
    {
      ...heartbeat(),
      message: { case: "engine", value: engineOf(changed) },
    },
  ]);
  expect(bench.gateway.workers()[0]?.lastError).toBe("engine_changed");
  expect(bench.score(9)).toBe("w=0");
  bench.clock.advance(LIMITS.reconnectMinMs.value);
  bridge.send(liveWith([store(0, [4, 4, 8], { lookahead: 1 })], changed));
  expect(bench.score(9)).toBe("w=8");
});

function engineOf(description: EngineInit) {
  const message = start({ engine: description }).message;
  if (message.case !== "start" || message.value.engine === undefined) {
    throw new TypeError("a start has an engine");
  }
  return message.value.engine;
}

test("a removed worker is forgotten at once: entries, streams, timers, connection", () => {
  const bench = new Bench();
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  bench.addLive("x", [store(0, [4, 4, 4])]);
  expect(bench.gateway.removeWorker("w")).toBe(true);
  expect(bench.score(9)).toBe("x=4");
  expect(bridge.streams[0]?.isOpen).toBe(false);
  expect(bridge.isClosed).toBe(true);
  expect(bench.clock.pendingTimers).toBe(1);
  expect(bench.gateway.removeWorker("w")).toBe(false);
  bench.gateway.close();
  expect(bench.clock.pendingTimers).toBe(0);
  expect(bench.score(9)).toBe("");
  bench.gateway.close();
});

test("the same name may come back with another bridge, and owes nothing to the old one", () => {
  const bench = new Bench();
  bench.addLive("w", [store(0, [4, 4, 8])]);
  bench.gateway.removeWorker("w");
  bench.add("w", { url: "http://other:1" });
  expect(bench.score(9)).toBe("w=0");
  expect(bench.state()).toBe("unknown no_view disconnected");
});

test("workers that come and go leave nothing behind", () => {
  const bench = new Bench();
  for (let round = 0; round < 200; round++) {
    const name = `w${round}`;
    bench.addLive(name, [store(0, [4, 4, 400])]);
    if (round > 0) bench.gateway.removeWorker(`w${round - 1}`);
  }
  expect(bench.score(401)).toBe("w199=400");
  expect(bench.clock.pendingTimers).toBe(1);
});

test("settings that cannot work are refused by name", () => {
  const bench = new Bench();
  const add = (settings: Partial<WorkerSettings>) =>
    codeOf(() => bench.gateway.addWorker({ name: "w", url: "http://w:1", ...settings }));
  for (const url of [
    "",
    "w:1",
    "tcp://w:1",
    "http://w:1/path",
    "http://u:p@w:1",
    "http://w:99999",
  ]) {
    expect(add({ url })).toBe("config_invalid");
  }
  expect(add({ name: "" })).toBe("config_invalid");
  for (const dpRanks of [[], [0, 0], [-1], [0.5], [2 ** 32]]) {
    expect(add({ dpRanks })).toBe("config_invalid");
  }
  expect(add({ tls: { ca: "x" } })).toBe("config_invalid");
  expect(add({ url: "http://[fd00::5]:9000" })).toBe("");
  expect(add({})).toBe("worker_exists");
  expect(bench.gateway.workers().length).toBe(1);
  expect(bench.gateway.workers()[0]?.bridgeUrl).toBe("http://[fd00::5]:9000");
});

test("a gateway takes no more workers than its limit", () => {
  const bench = new Bench();
  for (let i = 0; i < LIMITS.workersPerGateway.value; i++) {
    bench.gateway.addWorker({ name: `w${i}`, url: "http://w:1" });
  }
  expect(codeOf(() => bench.add("one-more"))).toBe("worker_limit");
});

test("an explanation tells each group's own number and which one limits", () => {
  // Alone 40, 48 and 40; together 24: the least of the groups' own maxima is not the answer.
  const groups = [
    group(0, "full_attention", 8),
    group(1, "sliding_window", 8, 17),
    group(2, "mamba", 8),
  ];
  const bench = new Bench();
  bench.addLive(
    "w",
    [
      ...blocks(0, 8, [8, 16, 24, 32, 40]),
      ...blocks(1, 8, [16, 24, 40, 48]),
      ...blocks(2, 8, [24, 40]),
    ],
    { ...FULL_4, groups, schedulerBlockSize: 8, hashBlockSize: 8 },
  );
  const explained = bench.gateway.explain({ tokens: tokensTo(49) }, "w", 0);
  expect(explained).toMatchObject({ worker: "w", dpRank: 0, reusableTokens: 24, state: "assumed" });
  expect(explained.groups.map((each) => [each.kind, each.reusableTokensAlone])).toEqual([
    ["full_attention", 40],
    ["sliding_window", 48],
    ["mamba", 40],
  ]);
  const limiting = explained.groups.filter((each) => each.isLimiting);
  expect(limiting.map((each) => each.groupId)).toEqual([explained.limitingGroupId]);
  const [answer] = bench.gateway.score({ tokens: tokensTo(49) });
  expect(answer?.reusableTokens).toBe(24);
  expect(answer?.limitingGroupId).toBe(explained.limitingGroupId);
});

test("an explanation of a rank without a layout has no groups, of an unknown rank is refused", () => {
  const bench = new Bench();
  bench.add("w");
  const query = { tokens: tokensTo(9) };
  expect(bench.gateway.explain(query, "w", 0)).toMatchObject({ state: "unknown", groups: [] });
  expect(codeOf(() => bench.gateway.explain(query, "w", 1))).toBe("worker_unknown");
  expect(codeOf(() => bench.gateway.explain(query, "x", 0))).toBe("worker_unknown");
});

test("a buffer's lines are used again from query to query, and shrink with the fleet", () => {
  const bench = new Bench();
  bench.addLive("a", [store(0, [4, 4, 8])]);
  bench.addLive("b", []);
  const buffer = new AnswerBuffer();
  bench.gateway.scoreInto({ tokens: tokensTo(9) }, buffer);
  const first = buffer.at(0);
  bench.gateway.scoreInto({ tokens: tokensTo(5) }, buffer);
  expect(buffer.at(0)).toBe(first);
  expect(first.reusableTokens).toBe(4);
  bench.gateway.removeWorker("b");
  bench.gateway.scoreInto({ tokens: tokensTo(5) }, buffer);
  expect(buffer.count).toBe(1);
  expect(() => buffer.at(1)).toThrow("is filled");
});

test("answers of score are the caller's own", () => {
  const bench = new Bench();
  bench.addLive("a", [store(0, [4, 4, 8])]);
  const [first] = bench.gateway.score({ tokens: tokensTo(9) });
  bench.gateway.score({ tokens: tokensTo(5) });
  expect(first?.reusableTokens).toBe(8);
});

test("listeners hear every change once it is done, and stop hearing", () => {
  const bench = new Bench();
  const heard: string[] = [];
  const listener = (status: RankStatus): void => {
    heard.push(status.subscriptionState);
  };
  const ends = [bench.gateway.on("state", listener), bench.gateway.on("state", listener)];
  const bridge = bench.addLive("w", []);
  expect(heard).toEqual(["connecting", "connecting", "snapshot", "snapshot", "live", "live"]);
  heard.length = 0;
  ends[0]?.();
  bridge.end("bridge_failed");
  expect(heard).toEqual(["backoff"]);
  ends[1]?.();
  bench.gateway.removeWorker("w");
  expect(heard).toEqual(["backoff"]);
});

test("a listener may remove the worker that it hears of", () => {
  const bench = new Bench();
  bench.gateway.on("state", (status) => {
    if (status.subscriptionState === "backoff") bench.gateway.removeWorker(status.worker);
  });
  bench.addLive("w", [store(0, [4, 4, 8])]).end("bridge_failed");
  expect(bench.score(9)).toBe("");
  expect(bench.clock.pendingTimers).toBe(0);
});

test("an unreachable bridge costs one line, not one for each attempt", () => {
  const bench = new Bench();
  const bridge = bench.add("w");
  for (let i = 0; i < 50; i++) {
    bridge.end("bridge_unreachable");
    bench.clock.advance(LIMITS.reconnectMaxMs.value);
  }
  expect(bench.lines).toEqual([expect.stringContaining("rank not followed")]);
  bridge.end("permission_denied");
  expect(bench.lines.length).toBe(2);
});

test("no line and no error ever shows a token", () => {
  const bench = new Bench();
  const secret = 1_234_567;
  const bridge = bench.addLive("w", [store(0, [4, 4, 8])]);
  bridge.send([batch(5)]);
  const tokens = [secret, secret, -secret];
  let text = "";
  try {
    bench.gateway.score({ tokens });
  } catch (error) {
    text = JSON.stringify(error, Object.getOwnPropertyNames(error));
  }
  expect(text).toContain("prompt_invalid");
  expect(text + bench.lines.join()).not.toContain(String(secret));
});

test("metrics count by closed lists and name no worker", async () => {
  const metrics = createMetrics();
  const bench = new Bench({ metrics });
  const bridge = bench.addLive("secret-worker", [store(0, [4, 4, 8])]);
  bench.score(9);
  bridge.send([batch(5), batch(7)]);
  const text = await metrics.metricsText();
  expect(text).toContain("kvgroup_gateway_queries_total 1");
  expect(text).toContain('kvgroup_gateway_messages_refused_total{reason="sequence_gap"} 1');
  expect(text).toContain('kvgroup_gateway_stream_errors_total{error="bridge_protocol"} 1');
  expect(text).toContain('kvgroup_gateway_applied_total{what="storedBlocks"} 2');
  expect(text).toContain('kvgroup_gateway_ranks{state="backoff"} 1');
  expect(text).toContain('kvgroup_gateway_index{what="entries"} 2');
  expect(text).not.toContain("secret-worker");
  bench.gateway.close();
  expect(await metrics.metricsText()).toContain('kvgroup_gateway_index{what="ranks"} 0');
});
