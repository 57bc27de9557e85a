/**
 * What it is: the whole path in one process without sockets: a rank's pipeline, its fan-out, every stream message
 * encoded to bytes and decoded again, a gateway's subscription, apply, index and score.
 * Owns: one bridge rank and one gateway that follows it.
 * Refuses: nothing of its own.
 * Does not do: time. The clock stands still, so nothing is ever stale; heartbeats are sent by `heartbeat`.
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type EngineConfig,
  FanOut,
  RankPipeline,
  type Subscriber,
  toResponse,
} from "@kv-group-bridge/bridge";
import { createGateway, type Gateway, type Query, type RankAnswer } from "@kv-group-bridge/gateway";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { type DpRank, KeyedHasher, parseEpoch } from "@kv-group-bridge/protocol";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";

/** The name of the only worker. */
export const PATH_WORKER = "engine";

const STILL_CLOCK: Clock = { nowMs: () => 0, monotonicMs: () => 0 };
const NO_TIMERS: Timers = { after: () => () => {}, every: () => () => {} };
const NO_RANDOMNESS = { uint32: () => 0, uint64: () => 0n, fraction: () => 0 };

/** What a path is made of. */
export interface InProcessPathOptions {
  readonly dpRank: DpRank;
  readonly engine: EngineConfig;
  /** Any text of at least 16 characters; answers do not depend on it. */
  readonly seed: string;
  /** Exact topic; undefined = every topic. */
  readonly topic?: string;
}

/** One engine rank, one bridge rank, one gateway. */
export class InProcessPath {
  readonly pipeline: RankPipeline;
  readonly gateway: Gateway;
  private readonly fanOut: FanOut;
  private subscriber: Subscriber | undefined = undefined;
  private opened: (() => void) | undefined = undefined;
  private deliver: ((bytes: Uint8Array) => void) | undefined = undefined;
  /** Bytes of all stream messages so far. */
  streamBytes = 0;

  constructor(options: InProcessPathOptions) {
    let minted = 0n;
    this.pipeline = new RankPipeline({
      dpRank: options.dpRank,
      engine: options.engine,
      hasher: new KeyedHasher(options.seed),
      topic: options.topic,
      isEngineProjectionAllowed: false,
      mintEpoch: () => {
        minted += 1n;
        const epoch = parseEpoch(minted);
        invariant(epoch !== undefined, "a minted epoch is positive");
        return epoch;
      },
      emit: (output) => this.fanOut.publish(output),
    });
    this.fanOut = new FanOut({ view: this.pipeline });
    this.pipeline.setConnected(true);
    this.gateway = createGateway({
      seed: options.seed,
      clock: STILL_CLOCK,
      timers: NO_TIMERS,
      randomness: NO_RANDOMNESS,
      sourceFactory: () => ({
        open: (_dpRank, handlers) => {
          this.deliver = (bytes) => handlers.onMessage(fromBinary(SubscribeResponseSchema, bytes));
          this.subscriber = this.fanOut.subscribe({
            projection: Projection.PREFIX_KEYS,
            onWake: () => {},
          });
          this.opened = () => handlers.onOpened();
          return () => this.closeStream();
        },
        close: () => this.closeStream(),
      }),
    });
    this.gateway.addWorker({
      name: PATH_WORKER,
      url: "http://in-process",
      dpRanks: [options.dpRank],
    });
    this.drain();
  }

  /** One multipart of the engine, all the way to the index. */
  receive(frames: readonly Uint8Array[]): void {
    this.pipeline.receive(frames, 0);
    this.drain();
  }

  /** The engine process was replaced. */
  publisherReplaced(): void {
    this.pipeline.publisherReplaced();
    this.drain();
  }

  /** The answer for one prompt. */
  score(query: Query): RankAnswer {
    const answer = this.gateway.score(query)[0];
    invariant(answer !== undefined, "the path has one worker with one rank");
    return answer;
  }

  private drain(): void {
    this.opened?.();
    this.opened = undefined;
    for (;;) {
      const item = this.subscriber?.next();
      if (item === undefined) return;
      const bytes = toBinary(SubscribeResponseSchema, toResponse(item, false));
      this.streamBytes += bytes.length;
      this.deliver?.(bytes);
    }
  }

  private closeStream(): void {
    this.subscriber?.close();
    this.subscriber = undefined;
    this.deliver = undefined;
  }
}
