// Goal: what operators reported about ranks, fleets and silent workers (field cases H, E11, I14,
// L1), as far as one process can show it, must not happen here.
// Method: several bridge ranks behind one gateway; the cases' events and the states that tell
// answers apart.
import { describe, expect, test } from "vitest";
import {
  batchOf,
  CLEAR,
  FieldRank,
  gatewayOf,
  type Prompt,
  rm,
  st,
  statedEngine,
  statedGroup,
  tokenList,
} from "../support/field-notation.ts";

const FULL = { g: 0, k: "full", bs: 4 } as const;
const STATED = statedEngine([statedGroup(0)]);

type FieldGateway = ReturnType<typeof gatewayOf>;

/** Reusable tokens by "worker/rank". */
function ask(gateway: FieldGateway, prompt: Prompt): Record<string, number> {
  const answers = gateway.score({ tokens: tokenList(prompt) });
  return Object.fromEntries(
    answers.map((one) => [`${one.worker}/${one.dpRank}`, one.reusableTokens]),
  );
}

describe("H1, H4: one subscription per rank", () => {
  test("H1: a rank that publishes nothing is unknown with a reason, not an honest 0", () => {
    const ranks = [0, 1, 2, 3].map((dpRank) => new FieldRank("node", dpRank));
    const gateway = gatewayOf(ranks);
    for (const rank of ranks) if (rank.dpRank !== 2) rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    expect(ask(gateway, "1..5")).toEqual({ "node/0": 4, "node/1": 4, "node/2": 0, "node/3": 4 });
    const silent = gateway.workers()[2];
    expect(silent).toMatchObject({ state: "unknown", subscriptionState: "live", entries: 0 });
    expect(silent?.reasons).toContain("no_groups");
    expect(silent?.sequenceNumber).toBeUndefined();
    expect(ranks[2]?.pipeline.describe(0)).toMatchObject({ isEngineConnected: true });
    expect(ranks[2]?.pipeline.describe(0).lastBatchAgeMs).toBeUndefined();
  });

  test("H4: global ranks 4 to 7 are reported as 4 to 7", () => {
    const ranks = [4, 5, 6, 7].map((dpRank) => new FieldRank("node2", dpRank));
    const gateway = gatewayOf(ranks);
    for (const rank of ranks) rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    expect(ask(gateway, "1..5")).toEqual({
      "node2/4": 4,
      "node2/5": 4,
      "node2/6": 4,
      "node2/7": 4,
    });
  });

  test("H4: a batch of local rank 0 under the subscription of rank 4 is refused, not filed", () => {
    const rank = new FieldRank("node2", 4);
    const gateway = gatewayOf([rank]);
    rank.payload(0, batchOf([st({ ...FULL, h: [1], t: "1..4" })], 0));
    expect(ask(gateway, "1..5")).toEqual({ "node2/4": 0 });
    expect(rank.pipeline.counters().get("refused.rank_mismatch")).toBe(1);
    expect(rank.reports.map((report) => report.fields.reason)).toContain("rank_mismatch");
  });
});

describe("H2, H6: ranks are kept apart", () => {
  test("H2: rank 1's removal leaves rank 0 alone; equal workers are kept apart by name too", () => {
    const ranks = [new FieldRank("a", 0), new FieldRank("a", 1), new FieldRank("b", 1)];
    const gateway = gatewayOf(ranks);
    for (const rank of ranks) rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    ranks[1]?.send(rm({ g: 0, h: [1] }));
    expect(ask(gateway, "1..5")).toEqual({ "a/0": 4, "a/1": 0, "b/1": 4 });
    ranks[2]?.send(CLEAR);
    expect(ask(gateway, "1..5")).toEqual({ "a/0": 4, "a/1": 0, "b/1": 0 });
    gateway.audit();
  });

  test("H6: batches of rank 3 under rank 0 are refused; nothing is left over", () => {
    const rank = new FieldRank("a", 0);
    const gateway = gatewayOf([rank]);
    rank.send(st({ ...FULL, h: [9], t: "1..4" }));
    rank.payload(1, batchOf([st({ ...FULL, h: [1], t: "11..14" })], 3));
    rank.payload(2, batchOf([rm({ g: 0, h: [9] })], 3));
    expect([ask(gateway, "1..5"), ask(gateway, "11..15")]).toEqual([{ "a/0": 0 }, { "a/0": 0 }]);
    expect(rank.pipeline.counters().get("refused.rank_mismatch")).toBe(2);
    expect(gateway.workers()[0]?.entries).toBe(0);
    expect(gateway.removeWorker("a")).toBe(true);
    expect(gateway.score({ tokens: tokenList("1..5") })).toEqual([]);
    gateway.audit();
  });
});

describe("E11: choosing among workers", () => {
  const held: Readonly<Record<string, number>> = { w4: 1, w12a: 3, w8: 2, w12b: 3, w0: 0 };

  function fleet(names: readonly string[]): FieldGateway {
    const ranks = names.map((name) => {
      if (name === "odd" || name === "silent") return new FieldRank(name, 0);
      return new FieldRank(name, 0, STATED);
    });
    const gateway = gatewayOf(ranks);
    for (const rank of ranks) {
      const blocks = held[rank.worker];
      if (rank.worker === "odd") {
        rank.send(st({ g: 0, k: "foo", bs: 4, h: [1, 2, 3], t: "1..12" }));
      } else if (blocks !== undefined) {
        rank.send(st({ ...FULL, h: [1, 2, 3], t: "1..12" }));
        const gone = [1, 2, 3].slice(blocks);
        if (gone.length > 0) rank.send(rm({ g: 0, h: gone }));
      }
    }
    return gateway;
  }

  const names = ["w4", "w12a", "w8", "w12b", "w0", "odd", "silent"];

  test("E11: scores are exact in every order of insertion, and ties stay ties", () => {
    for (let turn = 0; turn < names.length; turn++) {
      const turned = [...names.slice(turn), ...names.slice(0, turn)];
      for (const order of [turned, turned.toReversed()]) {
        expect(ask(fleet(order), "1..13")).toEqual({
          "odd/0": 0,
          "silent/0": 0,
          "w0/0": 0,
          "w12a/0": 12,
          "w12b/0": 12,
          "w4/0": 4,
          "w8/0": 8,
        });
      }
    }
  });

  test("E11: no data, unsupported and 0 are three answers", () => {
    const answers = fleet(names).score({ tokens: tokenList("1..13") });
    const of = (worker: string): unknown => {
      const found = answers.find((one) => one.worker === worker);
      return [found?.state, found?.reasons[0]];
    };
    expect(of("w0")).toEqual(["exact", undefined]);
    expect(of("silent")).toEqual(["unknown", "no_groups"]);
    expect(of("odd")).toEqual(["unknown", "kind_unsupported"]);
  });
});

describe("L1: everything configured, nothing arrives", () => {
  test("L1: not connected, connected without a message, and no usable store are told apart", () => {
    const [lost, idle, useless, late] = ["lost", "idle", "useless", "late"].map(
      (name) => new FieldRank(name, 0, STATED),
    );
    if (!lost || !idle || !useless || !late) throw new Error("four ranks");
    lost.pipeline.setConnected(false);
    const gateway = gatewayOf([lost, idle, useless, late]);
    useless.send(st({ ...FULL, p: 99, h: [1], t: "1..4" }), { type: "Novel" }, { no: "type" });
    late.payload(7, batchOf([]));
    const states = Object.fromEntries(
      gateway.workers().map((one) => [one.worker, [one.state, one.reasons, one.sequenceNumber]]),
    );
    expect(states).toEqual({
      idle: ["assumed", ["group_unseen", "incomplete"], undefined],
      late: ["assumed", ["group_unseen", "incomplete"], 7n],
      lost: ["stale", ["group_unseen", "engine_disconnected", "incomplete"], undefined],
      useless: ["lower_bound", ["unplaced_blocks"], 0n],
    });
    for (const [, [state]] of Object.entries(states)) expect(state).not.toBe("exact");
  });

  test("L1: a heartbeat tells that the engine went away; the number is called stale", () => {
    const rank = new FieldRank("a", 0, STATED);
    const gateway = gatewayOf([rank]);
    rank.send(st({ ...FULL, h: [1], t: "1..4" }));
    rank.pipeline.setConnected(false);
    rank.fanOut.heartbeat(rank.pipeline.heartbeat(0));
    rank.drain();
    const answer = gateway.score({ tokens: tokenList("1..5") })[0];
    expect(answer).toMatchObject({ state: "stale", reusableTokens: 4 });
    expect(answer?.reasons).toEqual(["engine_disconnected"]);
  });
});

test("I14: no report or counter shows a token, a salt or a hash, whatever is refused", () => {
  const token = 987_654_321;
  const tokens = [token, token, token, token];
  const hash = 123_456_789_012_345n;
  const rank = new FieldRank("a", 0, STATED);
  gatewayOf([rank]);
  const store = (more: Record<string, unknown>): unknown =>
    st({ ...FULL, h: [hash], t: tokens, more });
  rank.send(
    store({ token_ids: [...tokens, token] }),
    store({ token_ids: [...tokens, -1] }),
    store({ token_ids: { a: token } }),
    store({ block_hashes: [hash, hash] }),
    store({ block_hashes: [hash, "x"] }),
    store({ parent_block_hash: hash }),
    store({ block_size: token }),
    store({ extra_keys: [["secret-salt", token]] }),
    store({ extra_keys: token }),
    store({ lora_name: token }),
    store({ medium: token }),
    store({ kv_cache_spec_kind: token }),
    store({ kv_cache_spec_kind: "mamba" }),
    store({ group_idx: 7 }),
    store({ lookahead_token_ids: [[token]] }),
    ["BlockStored", [hash], null, tokens],
    [tokens],
    tokens,
    token,
    { type: "Novel", token_ids: tokens },
    rm({ g: 0, h: [hash], more: { medium: token } }),
    rm({ h: [hash], more: { block_hashes: [hash, "x"] } }),
    rm({ g: 0, h: [hash], more: { remaining_copy_counts: tokens } }),
    { ...CLEAR, ownership: token },
  );
  rank.payload(1, tokens);
  rank.payload(2, batchOf([store({})], token));
  expect(rank.reports.length).toBeGreaterThan(20);
  const counters = [...rank.pipeline.counters().keys()];
  const said = JSON.stringify([rank.reports, counters]);
  expect(said).not.toMatch(/987654321|123456789012345|secret-salt/);
});
