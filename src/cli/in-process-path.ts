/**
 * What it is: the whole path in one process without sockets: a rank's pipeline, its fan-out, every stream message
 * encoded to bytes and decoded again, a gateway's subscription, apply, index and score.
 * Owns: one bridge rank, and the gateways that follow it.
 * Refuses: nothing of its own.
 * Does not do: time. The clock stands still, so nothing is ever silent; a follower without a stream
 * subscribes again when it is asked to take messages.
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type EngineConfig,
  FanOut,
  type FanOutOptions,
  RankPipeline,
  type Subscriber,
  toResponse,
} from "@kv-group-bridge/bridge";
import {
  createGateway,
  type Gateway,
  type Query,
  type RankAnswer,
  type StreamHandlers,
} from "@kv-group-bridge/gateway";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { type DpRank, KeyedHasher, parseEpoch } from "@kv-group-bridge/protocol";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";

/** The name of the only worker. */
export const PATH_WORKER = "engine";

const STILL_CLOCK: Clock = { nowMs: () => 0, monotonicMs: () => 0 };
const INSTANCE = 1n;
/** Two may be needed: one whose start is refused because the engine changed, and its snapshot. */
const MAX_STREAMS_PER_DRAIN = 8;
const NO_RANDOMNESS = { uint32: () => 0, uint64: () => 0n, fraction: () => 0 };

/** What a path is made of. */
export interface InProcessPathOptions {
  readonly dpRank: DpRank;
  readonly engine: EngineConfig;
  /** Any text of at least 16 characters; answers do not depend on it. */
  readonly seed: string;
  /** Exact topic; undefined = every topic. */
  readonly topic?: string;
  /** Bounds of the fan-out; default its own. */
  readonly fanOut?: Omit<FanOutOptions, "view" | "instance">;
}

/** One gateway that follows the path's rank; it takes messages when `drain` is called. */
export class PathFollower {
  readonly gateway: Gateway;
  /** Bytes of all stream messages so far. */
  streamBytes = 0;
  private subscriber: Subscriber | undefined = undefined;
  private handlers: StreamHandlers | undefined = undefined;
  private opened: (() => void) | undefined = undefined;
  /** What the subscription waits for. */
  private timer: (() => void) | undefined = undefined;

  /** `fanOut` gives the bridge's fan-out of the moment: a bridge may be replaced. */
  constructor(
    fanOut: () => FanOut,
    options: Pick<InProcessPathOptions, "seed" | "dpRank">,
    clock: Clock = STILL_CLOCK,
  ) {
    const timers: Timers = {
      after: (_delayMs, action) => {
        this.timer = action;
        return () => {
          this.timer = undefined;
        };
      },
      every: () => () => {},
    };
    this.gateway = createGateway({
      seed: options.seed,
      clock,
      timers,
      randomness: NO_RANDOMNESS,
      sourceFactory: () => ({
        open: (_dpRank, handlers, resume) => {
          this.handlers = handlers;
          this.opened = () => handlers.onOpened();
          this.subscriber = fanOut().subscribe({
            projection: Projection.PREFIX_KEYS,
            onWake: () => {},
            resume,
          });
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
  }

  /** The connection is lost, with all that was not taken yet. The next `drain` subscribes again. */
  cut(): void {
    const { handlers } = this;
    this.closeStream();
    handlers?.onEnded("bridge_unreachable");
  }

  /** Takes up to `limit` messages of the stream; false = there is nothing left. */
  drain(limit = Number.POSITIVE_INFINITY): boolean {
    let streams = 0;
    for (let taken = 0; taken < limit; taken += 1) {
      if (this.subscriber === undefined) {
        // Streams that end one after the other are a failure to be seen, not to be waited for.
        if (streams === MAX_STREAMS_PER_DRAIN) return false;
        streams += 1;
        this.timer?.();
      }
      this.opened?.();
      this.opened = undefined;
      const item = this.subscriber?.next();
      if (item === undefined) return false;
      const bytes = toBinary(SubscribeResponseSchema, toResponse(item, false));
      this.streamBytes += bytes.length;
      this.handlers?.onMessage(fromBinary(SubscribeResponseSchema, bytes));
    }
    return true;
  }

  /** The answer for one prompt. */
  score(query: Query): RankAnswer {
    const answer = this.gateway.score(query)[0];
    invariant(answer !== undefined, "the path has one worker with one rank");
    return answer;
  }

  /** The engine's number that the gateway applied last. */
  get sequenceNumber(): bigint | undefined {
    return this.gateway.workers()[0]?.sequenceNumber;
  }

  private closeStream(): void {
    this.subscriber?.close();
    this.subscriber = undefined;
    this.handlers = undefined;
    this.opened = undefined;
  }
}

/** One engine rank and one bridge rank, followed by one gateway from the start and by any number later. */
export class InProcessPath {
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
  private readonly options: InProcessPathOptions;
  private readonly first: PathFollower;

  constructor(options: InProcessPathOptions) {
    this.options = options;
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
    this.fanOut = new FanOut({ ...options.fanOut, view: this.pipeline, instance: INSTANCE });
    this.pipeline.setConnected(true);
    this.first = this.join();
    this.first.drain();
  }

  /** The gateway that follows from the start. */
  get gateway(): Gateway {
    return this.first.gateway;
  }

  /** Bytes of all stream messages to the first gateway. */
  get streamBytes(): number {
    return this.first.streamBytes;
  }

  /** A further gateway, which joins now; it takes nothing until its `drain` is called. */
  join(): PathFollower {
    return new PathFollower(() => this.fanOut, this.options);
  }

  /** One multipart of the engine, all the way to the first gateway's index. */
  receive(frames: readonly Uint8Array[]): void {
    this.pipeline.receive(frames, 0);
    this.first.drain();
  }

  /** The engine process was replaced. */
  publisherReplaced(): void {
    this.pipeline.publisherReplaced();
    this.first.drain();
  }

  /** The first gateway's answer for one prompt. */
  score(query: Query): RankAnswer {
    return this.first.score(query);
  }
}
