/**
 * What it is: kvgroup.v1.BridgeService over the fan-outs of all ranks.
 * Owns: the checks of a subscription, and the reasons by which it is refused.
 * Refuses: unknown ranks, projections that are not allowed, cursors that are none, other key schemes or seeds, subscribers
 * beyond the limit, anything while draining. Each refusal has a code and a reason from
 * `SUBSCRIBE_REFUSALS`.
 * Does not do: listen, keep connections, or decide what a stream carries.
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  type BridgeService,
  DescribeResponseSchema,
  type KeyScheme,
  Projection,
  type RankDescription,
  type SubscribeRequest,
  type SubscribeResponse,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { parseCursor, type ResumePoint } from "@kv-group-bridge/protocol";
import type { FanOut } from "./fan-out.ts";
import { drainingError, subscriberStream, Wakeup } from "./subscriber-stream.ts";

/** One rank as the service sees it. */
export interface ServedRank {
  readonly fanOut: FanOut;
  /** State now; `subscribers` and `instance` are filled in by the service. */
  describe(): RankDescription;
}

/** What the service serves. */
export interface BridgeServiceOptions {
  /** By dp rank. */
  readonly ranks: ReadonlyMap<number, ServedRank>;
  readonly keyScheme: KeyScheme;
  readonly isEngineProjectionAllowed: boolean;
  readonly bridgeVersion: string;
  /** Aborts when the bridge drains. */
  readonly shutdown: AbortSignal;
}

/** Why a subscription is refused: code, and name in the message and in REFUSAL_HEADER. */
export const SUBSCRIBE_REFUSALS = {
  rank_unknown: Code.NotFound,
  projection_unknown: Code.InvalidArgument,
  cursor_invalid: Code.InvalidArgument,
  projection_not_allowed: Code.PermissionDenied,
  key_scheme_differs: Code.FailedPrecondition,
  key_seed_differs: Code.FailedPrecondition,
  subscriber_limit: Code.ResourceExhausted,
} as const satisfies Record<string, Code>;

/** Trailer that carries the reason's name of a refusal. */
export const REFUSAL_HEADER = "kvgroup-refusal";

/** The service's implementation. */
export function bridgeService(options: BridgeServiceOptions): ServiceImpl<typeof BridgeService> {
  return {
    subscribe: (request, context) => subscribe(options, request, context),
    describe: () =>
      create(DescribeResponseSchema, {
        ranks: [...options.ranks.values()].map(describeRank).sort((a, b) => a.dpRank - b.dpRank),
        keyScheme: options.keyScheme,
        bridgeVersion: options.bridgeVersion,
      }),
  };
}

async function* subscribe(
  options: BridgeServiceOptions,
  request: SubscribeRequest,
  context: HandlerContext,
): AsyncGenerator<SubscribeResponse, void, undefined> {
  if (options.shutdown.aborted) throw drainingError();
  const rank = options.ranks.get(request.dpRank);
  if (rank === undefined) throw refusal("rank_unknown", `no data-parallel rank ${request.dpRank}`);
  const projection = resolveProjection(options, request.projection);
  if (projection === Projection.PREFIX_KEYS) checkKeyScheme(options.keyScheme, request.keyScheme);
  const wakeup = new Wakeup();
  const subscriber = rank.fanOut.subscribe({
    projection,
    onWake: () => wakeup.notify(),
    resume: resumePoint(request),
  });
  if (subscriber === undefined) throw refusal("subscriber_limit", "too many subscribers");
  yield* subscriberStream({
    subscriber,
    wakeup,
    signal: context.signal,
    shutdown: options.shutdown,
    isJson: context.requestHeader.get("content-type")?.includes("json") ?? false,
  });
}

function resolveProjection(options: BridgeServiceOptions, asked: Projection): Projection {
  switch (asked) {
    case Projection.UNSPECIFIED:
    case Projection.PREFIX_KEYS:
      return Projection.PREFIX_KEYS;
    case Projection.ENGINE:
      if (options.isEngineProjectionAllowed) return Projection.ENGINE;
      throw refusal("projection_not_allowed", "this bridge's configuration keeps prompts inside");
    default:
      throw refusal("projection_unknown", "this bridge does not know the projection");
  }
}

/** Where the subscriber would go on; undefined = it asks for a snapshot. */
function resumePoint(request: SubscribeRequest): ResumePoint | undefined {
  if (request.resume === undefined) return undefined;
  const cursor = parseCursor(request.resume);
  if (cursor === undefined) {
    throw refusal("cursor_invalid", "a cursor to resume from has an epoch");
  }
  return { cursor, instance: request.resumeInstance };
}

function checkKeyScheme(ours: KeyScheme, theirs: KeyScheme | undefined): void {
  if (theirs === undefined) return;
  if (theirs.id !== ours.id) {
    throw refusal("key_scheme_differs", `the bridge's key scheme is ${ours.id}`);
  }
  if (Buffer.compare(theirs.checkValue, ours.checkValue) !== 0) {
    throw refusal("key_seed_differs", "the seeds of bridge and subscriber are not the same");
  }
}

function refusal(reason: keyof typeof SUBSCRIBE_REFUSALS, message: string): ConnectError {
  return new ConnectError(`${reason}: ${message}`, SUBSCRIBE_REFUSALS[reason], {
    [REFUSAL_HEADER]: reason,
  });
}

function describeRank(rank: ServedRank): RankDescription {
  const description = rank.describe();
  const counters = rank.fanOut.counters();
  description.instance = rank.fanOut.instance;
  description.subscribers = rank.fanOut.subscriberCount;
  description.counters["subscriber.starts"] = BigInt(counters.starts);
  description.counters["subscriber.resumed"] = BigInt(counters.resumed);
  description.counters["subscriber.overflows"] = BigInt(counters.overflows);
  description.counters["subscriber.snapshot_chunks"] = BigInt(counters.snapshotChunks);
  description.counters["subscriber.refused"] = BigInt(counters.refusedSubscribers);
  description.counters["ring.bytes"] = BigInt(counters.ringBytes);
  description.counters["ring.batches"] = BigInt(counters.ringBatches);
  return description;
}
