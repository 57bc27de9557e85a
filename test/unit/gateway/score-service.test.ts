import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { AnswerState, ScoreService } from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import { expect, test } from "vitest";
import { createGateway } from "../../../src/gateway/dist/index.js";
import { scoreService } from "../../../src/gateway/dist/score-service.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { VirtualClock } from "../../support/virtual-clock.ts";
import { batch, FULL_4, HandBridge, keysAt, liveWith, SEED, store, tokensTo } from "./messages.ts";
import { batchWith, realHash, unplaced, withScheme } from "./unplaced-messages.ts";

function bench() {
  const clock = new VirtualClock();
  const bridges = { a: new HandBridge(), b: new HandBridge() };
  const gateway = createGateway({
    seed: SEED,
    clock,
    timers: clock,
    sourceFactory: ({ url }) => (url.includes("a") ? bridges.a : bridges.b),
  });
  gateway.addWorker({ name: "b", url: "http://b:1", dpRanks: [1, 0] });
  gateway.addWorker({ name: "a", url: "http://a:1" });
  const client = createClient(
    ScoreService,
    createRouterTransport((router) => router.service(ScoreService, scoreService(gateway))),
  );
  return { gateway, client, bridges };
}

const codeOf = async (call: Promise<unknown>): Promise<string> => {
  try {
    await call;
    return "";
  } catch (error) {
    const failure = ConnectError.from(error);
    return `${Code[failure.code]}: ${failure.rawMessage}`;
  }
};

const tokenIds = [...tokensTo(9)];

test("scores come by worker name, then rank, with state and reasons", async () => {
  const { client, bridges } = bench();
  bridges.a.send(liveWith([store(0, [4, 4, 8])]));
  bridges.b.send(liveWith([store(0, [4, 4, 4])], { ...FULL_4, isRosterComplete: false }, 1), 1);
  const { scores } = await client.score({ tokenIds });
  expect(
    scores.map((score) => [score.worker, score.dpRank, score.reusableTokens, score.state]),
  ).toEqual([
    ["a", 0, 8, AnswerState.EXACT],
    ["b", 0, 0, AnswerState.UNKNOWN],
    ["b", 1, 4, AnswerState.ASSUMED],
  ]);
  expect(scores.map((score) => score.reasons)).toEqual([
    [],
    ["no_view", "disconnected"],
    ["roster_incomplete"],
  ]);
  expect(scores.every((score) => score.groups.length === 0)).toBe(true);
});

test("only the workers asked for are answered; a duplicate is harmless, an unknown one an error", async () => {
  const { client } = bench();
  const { scores } = await client.score({ tokenIds, workers: ["a", "a"] });
  expect(scores.map((score) => score.worker)).toEqual(["a"]);
  expect(await codeOf(client.score({ tokenIds, workers: ["a", "c"] }))).toBe(
    "NotFound: worker_unknown: c",
  );
});

test("with explain every rank tells its groups", async () => {
  const { client, bridges } = bench();
  bridges.a.send(liveWith([store(0, [4, 4, 8])]));
  const { scores } = await client.score({ tokenIds, explain: true });
  expect(scores.map((score) => score.groups.length)).toEqual([1, 0, 0]);
  expect(scores[0]).toMatchObject({ reusableTokens: 8, state: AnswerState.EXACT });
  expect(scores[0]?.groups[0]).toMatchObject({
    groupId: 0,
    kind: "full_attention",
    reusableTokensAlone: 8,
  });
});

test("an item's length lets blocks behind it be found; 0 is none; ListWorkers counts what waits", async () => {
  const { client, bridges } = bench();
  const item = { identifier: "image", offset: 1, length: 2 };
  const prompt = { tokens: tokensTo(9), multimodalItems: [item] };
  bridges.a.send(liveWith([], withScheme()));
  bridges.a.send([batchWith(0, { stored: [unplaced(prompt, [4, 8], { hashOf: realHash })] })]);
  const ask = async (length: number) => {
    const multimodalItems = [{ ...item, length }];
    const { scores } = await client.score({ tokenIds, multimodalItems, workers: ["a"] });
    const [rank] = (await client.listWorkers({})).ranks;
    const { reusableTokens, reasons } = scores[0] ?? {};
    return [reusableTokens, reasons, rank?.unplacedBlocks, rank?.unplacedFound];
  };
  expect(await ask(0)).toEqual([0, ["unplaced_blocks"], 2n, 0n]);
  expect(await ask(2)).toEqual([8, [], 0n, 2n]);
  expect(await ask(0)).toEqual([8, [], 0n, 2n]);
});

test("an empty prompt scores 0 everywhere", async () => {
  const { client, bridges } = bench();
  bridges.a.send(liveWith([store(0, [4, 4, 8])]));
  const { scores } = await client.score({ workers: ["a"] });
  expect(scores[0]).toMatchObject({ reusableTokens: 0, state: AnswerState.EXACT });
});

test("a query may name its namespace; an empty salt is none", async () => {
  const { client, bridges } = bench();
  const salted = keysAt(tokensTo(9), [4, 8], { loraName: undefined, cacheSalt: "s" });
  bridges.a.send(liveWith([{ ...store(0, [4, 4, 8]), prefixKeys: salted }]));
  const tokensOf = async (cacheSalt: string): Promise<number | undefined> =>
    (await client.score({ tokenIds, cacheSalt, workers: ["a"] })).scores[0]?.reusableTokens;
  expect(await tokensOf("s")).toBe(8);
  expect(await tokensOf("")).toBe(0);
});

test("malformed prompts are INVALID_ARGUMENT, named by field", async () => {
  const { client } = bench();
  const item = (offset: number) => ({ identifier: "i", offset });
  expect(await codeOf(client.score({ tokenIds, multimodalItems: [item(5), item(5)] }))).toBe(
    "InvalidArgument: prompt_invalid: multimodalItems: not ascending by offset",
  );
  const long = new Array<number>(LIMITS.promptTokens.value + 1).fill(1);
  expect(await codeOf(client.score({ tokenIds: long }))).toBe(
    "InvalidArgument: prompt_invalid: tokens: too many",
  );
});

test("the list of workers tells state, entries, last error and sequence", async () => {
  const { client, bridges } = bench();
  bridges.a.send([...liveWith([store(0, [4, 4, 8])]), batch(0)]);
  bridges.b.end("permission_denied", 1);
  const { ranks } = await client.listWorkers({});
  expect(ranks.map((rank) => [rank.worker, rank.dpRank, rank.subscriptionState])).toEqual([
    ["a", 0, "live"],
    ["b", 0, "connecting"],
    ["b", 1, "backoff"],
  ]);
  expect(ranks[0]).toMatchObject({
    bridgeUrl: "http://a:1",
    entries: 2n,
    lastError: "",
    sequenceNumber: 0n,
  });
  expect(ranks[2]?.lastError).toBe("permission_denied");
  expect(ranks[2]?.sequenceNumber).toBeUndefined();
});
