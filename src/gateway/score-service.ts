/**
 * What it is: ScoreService over a gateway: requests checked and translated, nothing else.
 * Owns: nothing.
 * Refuses: malformed prompts (INVALID_ARGUMENT) and workers that are not followed (NOT_FOUND).
 * Does not do: log or keep prompts, choose a worker.
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  GroupExplanationSchema,
  type ListWorkersResponse,
  ListWorkersResponseSchema,
  type RankScore,
  RankScoreSchema,
  RankStateSchema,
  type ScoreRequest,
  type ScoreResponse,
  ScoreResponseSchema,
  type ScoreService,
  AnswerState as WireState,
} from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import { type ErrorCode, KvEventsError } from "@kv-group-bridge/protocol";
import { yieldToEventLoop } from "@kv-group-bridge/runtime";
import type { AnswerState } from "./answer.ts";
import type { RankAnswer } from "./answer-buffer.ts";
import type { Gateway } from "./gateway.ts";
import type { Query } from "./query.ts";
import type { GroupExplanation, RankStatus } from "./rank-status.ts";

const TO_WIRE: Readonly<Record<AnswerState, WireState>> = {
  exact: WireState.EXACT,
  assumed: WireState.ASSUMED,
  lower_bound: WireState.LOWER_BOUND,
  stale: WireState.STALE,
  unknown: WireState.UNKNOWN,
};

const CONNECT_CODES: Readonly<Partial<Record<ErrorCode, Code>>> = {
  prompt_invalid: Code.InvalidArgument,
  worker_unknown: Code.NotFound,
};

/** The handlers of a gateway's ScoreService. */
export function scoreService(gateway: Gateway): ServiceImpl<typeof ScoreService> {
  return {
    score: (request) => translateErrors(() => score(gateway, request)),
    listWorkers: () => listWorkers(gateway),
  };
}

async function score(gateway: Gateway, request: ScoreRequest): Promise<ScoreResponse> {
  const wanted = new Set(request.workers);
  for (const name of wanted) {
    if (!gateway.hasWorker(name)) throw new KvEventsError("worker_unknown", name);
  }
  const query: Query = {
    tokens: request.tokenIds,
    loraName: request.loraName,
    cacheSalt: request.cacheSalt,
    // A length of 0 means the same in both.
    multimodalItems: request.multimodalItems,
  };
  const scores: RankScore[] = [];
  for (const answer of gateway.score(query)) {
    if (wanted.size > 0 && !wanted.has(answer.worker)) continue;
    if (!request.explain) {
      scores.push(rankScore(answer, []));
      continue;
    }
    // Each explanation walks the whole prompt: events and other queries have their turn in between.
    await yieldToEventLoop();
    if (!gateway.hasWorker(answer.worker)) continue;
    const explained = gateway.explain(query, answer.worker, answer.dpRank);
    scores.push(rankScore(explained, explained.groups));
  }
  return create(ScoreResponseSchema, { scores });
}

function rankScore(answer: RankAnswer, groups: readonly GroupExplanation[]): RankScore {
  return create(RankScoreSchema, {
    worker: answer.worker,
    dpRank: answer.dpRank,
    reusableTokens: answer.reusableTokens,
    state: TO_WIRE[answer.state],
    reasons: [...answer.reasons],
    groups: groups.map((group) => create(GroupExplanationSchema, group)),
  });
}

function listWorkers(gateway: Gateway): ListWorkersResponse {
  return create(ListWorkersResponseSchema, { ranks: gateway.workers().map(rankState) });
}

function rankState(status: RankStatus): ReturnType<typeof create<typeof RankStateSchema>> {
  return create(RankStateSchema, {
    worker: status.worker,
    dpRank: status.dpRank,
    bridgeUrl: status.bridgeUrl,
    subscriptionState: status.subscriptionState,
    entries: BigInt(status.entries),
    unplacedBlocks: BigInt(status.unplacedBlocks),
    unplacedFound: BigInt(status.unplacedFound),
    lastError: status.lastError ?? "",
    state: TO_WIRE[status.state],
    reasons: [...status.reasons],
    ...(status.sequenceNumber === undefined ? {} : { sequenceNumber: status.sequenceNumber }),
  });
}

async function translateErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof KvEventsError ? CONNECT_CODES[error.code] : undefined;
    if (code === undefined || !(error instanceof KvEventsError)) throw error;
    throw new ConnectError(`${error.code}: ${error.message}`, code, undefined, undefined, error);
  }
}
