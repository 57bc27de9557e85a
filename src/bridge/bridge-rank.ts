/**
 * What it is: one rank wired together: source → pipeline → fan-out, with its heartbeat and its
 * watch.
 * Owns: the pipeline, the fan-out and the source of one data-parallel rank.
 * Refuses: nothing.
 * Does not do: decide about frames or subscribers, or start its own timers.
 */
import type { Heartbeat, RankDescription } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { DpRank, Epoch, KeyedHasher } from "@kv-group-bridge/protocol";
import {
  type Clock,
  type Log,
  type LogFields,
  RateLimitedLog,
  type Timers,
} from "@kv-group-bridge/runtime";
import { type Arrival, ArrivalWatch, arrivalHint } from "./arrival-watch.ts";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { CheckpointKeeper } from "./checkpoint-keeper.ts";
import { type Checkpoint, checkpointFloor } from "./checkpoint-reader.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { EndpointMode } from "./engine-endpoint.ts";
import { FanOut } from "./fan-out.ts";
import { RankPipeline } from "./rank-pipeline.ts";
import { ReplayClient } from "./replay-client.ts";
import type { ReplayFailure } from "./replay-port.ts";
import type { ServedRank } from "./service.ts";
import { ZmqSource } from "./zmq-source.ts";

/** One rank as configured, and the seams to the world. */
export interface BridgeRankOptions {
  readonly dpRank: DpRank;
  readonly endpoint: string;
  /** Undefined: there is no replay socket. */
  readonly replayEndpoint: string | undefined;
  readonly mode: EndpointMode;
  /** Exact topic; undefined = every topic. */
  readonly topic: string | undefined;
  readonly engine: EngineConfig;
  readonly hasher: KeyedHasher;
  readonly isEngineProjectionAllowed: boolean;
  /** As in RankPipelineOptions. */
  readonly hasEngineSnapshot: boolean | undefined;
  readonly queueBytes: number | undefined;
  readonly maxSubscribers: number | undefined;
  readonly heartbeatIntervalMs: number;
  /** Where checkpoints are kept; undefined = there are none. */
  readonly checkpoints: CheckpointPlace | undefined;
  /** As in RankPipelineOptions. */
  readonly onLoraPathWanted: (name: string) => void;
  readonly mintEpoch: () => Epoch;
  /** Names the running process; see FanOutOptions. */
  readonly instance: bigint;
  readonly clock: Clock;
  /** As RankPipelineOptions.isAwake. */
  readonly isAwake: () => boolean;
  readonly timers: Timers;
  readonly log: Log;
  /** Our bug, or a socket that failed for good: the process should end. */
  onFatal(error: unknown): void;
}

/** A rank's place for checkpoints, and what was found there. */
export interface CheckpointPlace {
  readonly file: CheckpointFile;
  readonly intervalMs: number;
  readonly found: Checkpoint | undefined;
}

/** A reason that repeats is said once in this time, with the number left out. */
const REPEAT_INTERVAL_MS = 60_000;
const REPLAY_HINTS: Readonly<Record<ReplayFailure, string>> = {
  timeout: "is the engine up, is it started with replay_endpoint, and is the port right?",
  socket_failed: "the socket could not be opened, or broke",
  malformed: "is it vLLM's replay_endpoint, and is engine.topic its topic?",
};
const REFUTED =
  "the replay socket contradicts the live one: is it the same rank's of the same engine, and does the engine keep " +
  "batches (buffer_steps)? It is not used until it agrees: what is lost stays lost";
/** More than there are messages times reasons. */
const MAX_REPEAT_KEYS = 256;

/** One rank. `start` connects, `tick` is for a timer outside, `close` ends it. */
export class BridgeRank implements ServedRank {
  readonly dpRank: DpRank;
  readonly fanOut: FanOut;
  private readonly options: BridgeRankOptions;
  private readonly pipeline: RankPipeline;
  private readonly source: ZmqSource;
  private readonly replay: ReplayClient | undefined;
  private readonly keeper: CheckpointKeeper | undefined;
  private readonly watch: ArrivalWatch;
  private readonly log: Log;
  private readonly repeats: RateLimitedLog;
  private messages = 0;
  private isConnected = false;
  /** Whether a checkpoint's engine is the same one was told. */
  private isProofTold = false;
  private isClosed = false;
  /** A connection that flaps is not told each time it comes back either. */
  private isLossSaid = true;

  /** Fails with `engine_endpoint_invalid`. Opens nothing. */
  constructor(options: BridgeRankOptions) {
    const { clock, timers, dpRank } = options;
    this.options = options;
    this.dpRank = dpRank;
    this.log = options.log.child({ dpRank });
    this.repeats = new RateLimitedLog({
      log: this.log,
      intervalMs: REPEAT_INTERVAL_MS,
      maxKeys: MAX_REPEAT_KEYS,
    });
    this.watch = new ArrivalWatch(clock.monotonicMs());
    this.replay = replayClient(options);
    this.pipeline = new RankPipeline({
      dpRank,
      engine: options.engine,
      hasher: options.hasher,
      topic: options.topic,
      isEngineProjectionAllowed: options.isEngineProjectionAllowed,
      hasEngineSnapshot: options.hasEngineSnapshot,
      mintEpoch: options.mintEpoch,
      emit: (output) => this.fanOut.publish(output),
      report: (message, fields) => this.tellOf(message, fields),
      repair: {
        replay: this.replay,
        timers,
        clock,
        reopenLive: () => this.reopenLive(),
        replayRefuted: (isRefuted) => this.tellRefuted(isRefuted),
        replayFailed: (reason) => this.tellReplayFailed(reason),
      },
      onStatus: () => this.statusChanged(),
      checkpoint: options.checkpoints?.found,
      isAwake: options.isAwake,
      onLoraPathWanted: options.onLoraPathWanted,
    });
    this.keeper = this.makeKeeper();
    this.fanOut = new FanOut({
      view: this.pipeline,
      instance: options.instance,
      resumeFloor: checkpointFloor(options.checkpoints?.found),
      heartbeatIntervalMs: options.heartbeatIntervalMs,
      ...(options.queueBytes === undefined ? {} : { queueBytes: options.queueBytes }),
      ...(options.maxSubscribers === undefined ? {} : { maxSubscribers: options.maxSubscribers }),
    });
    this.source = new ZmqSource({
      endpoint: options.endpoint,
      mode: options.mode,
      clock,
      timers,
      onMessage: (frames) => this.receive(frames),
      onConnection: (isConnected) => this.connectionChanged(isConnected),
      onFailure: (error) => options.onFatal(error),
    });
  }

  /** Opens the source; fails with `engine_socket_failed`. The engine need not be there. */
  async start(): Promise<void> {
    const address = await this.source.start();
    this.keeper?.start();
    this.log.info({ mode: this.options.mode, address }, "rank opened");
  }

  /**
   * A heartbeat to every subscriber, and what an operator should know. Every heartbeat interval.
   */
  tick(): void {
    const nowMs = this.options.clock.monotonicMs();
    this.heartbeat();
    const { isConnected, messages } = this;
    const { placedBlocks, isCatchingUp } = this.pipeline.describe(nowMs);
    const arrival = this.watch.step(nowMs, { isConnected, messages, placedBlocks, isCatchingUp });
    if (arrival !== undefined) this.tell(arrival);
  }

  /** Paths of the engine's LoRA adapters by name, all that are known. */
  setLoraPaths(paths: ReadonlyMap<string, string>): void {
    this.pipeline.setLoraPaths(paths);
  }

  /** State now, without `subscribers`. */
  describe(): RankDescription {
    const description = this.pipeline.describe(this.options.clock.monotonicMs());
    const checkpoints = this.keeper?.counters();
    if (checkpoints === undefined) return description;
    description.counters["checkpoint.written"] = BigInt(checkpoints.written);
    description.counters["checkpoint.failed"] = BigInt(checkpoints.failed);
    description.counters["checkpoint.voided"] = BigInt(checkpoints.voided);
    description.counters["checkpoint.bytes"] = BigInt(checkpoints.lastBytes);
    description.counters["checkpoint.milliseconds"] = BigInt(
      Math.round(checkpoints.lastDurationMs),
    );
    return description;
  }

  /** How far the rank has come, as of the last tick. */
  get arrival(): Arrival {
    return this.watch.current;
  }

  /** Closes the sockets and writes the last checkpoint. Streams are the server's to end. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.pipeline.close();
    await Promise.all([this.source.close(), this.replay?.close()]);
    // No batch can come any more: the last checkpoint is of the last one.
    await this.keeper?.close();
  }

  private receive(frames: readonly Uint8Array[]): void {
    this.messages++;
    this.pipeline.receive(frames, this.options.clock.monotonicMs());
  }

  private connectionChanged(isConnected: boolean): void {
    this.isConnected = isConnected;
    if (!isConnected) {
      this.messages = 0;
      this.watch.disconnected();
      this.isLossSaid = this.report("engine disconnected", {});
    } else if (this.isLossSaid) this.log.info({}, "engine connected");
    // Subscribers learn of it now, not with the next tick. What follows from it is told after it.
    this.pipeline.setConnected(isConnected);
  }

  private makeKeeper(): CheckpointKeeper | undefined {
    const { checkpoints, clock, timers, instance } = this.options;
    if (checkpoints === undefined) return undefined;
    return new CheckpointKeeper({
      target: checkpoints.file,
      intervalMs: checkpoints.intervalMs,
      mirror: this.pipeline.mirror,
      head: () => this.pipeline.checkpointHead({ instance, writtenAtMs: clock.nowMs() }),
      clock,
      timers,
      report: (message, fields) => this.log.warn(fields, message),
      onFatal: (error) => this.options.onFatal(error),
    });
  }

  private statusChanged(): void {
    const { cursor, isCatchingUp } = this.heartbeat();
    if (this.isProofTold || !this.isConnected || isCatchingUp) return;
    this.isProofTold = true;
    if (cursor?.epoch !== this.options.checkpoints?.found?.head.epoch) return;
    this.log.info({}, "the engine proved to be the checkpoint's: its epoch goes on");
  }

  private heartbeat(): Heartbeat {
    const heartbeat = this.pipeline.heartbeat(this.options.clock.monotonicMs());
    this.fanOut.heartbeat(heartbeat);
    return heartbeat;
  }

  private reopenLive(): void {
    this.report("live socket opened anew", {});
    if (this.options.mode === "connect") {
      this.source.reopen();
      return;
    }
    // Who binds waits for its engine: the connection that is there, if it still is then, is asked again.
    this.options.timers.after(0, () => {
      if (!this.isConnected || this.isClosed) return;
      this.connectionChanged(false);
      this.connectionChanged(true);
    });
  }

  private tellRefuted(isRefuted: boolean): void {
    const fields = { replayEndpoint: this.options.replayEndpoint };
    if (isRefuted) this.repeats.warn("refuted", this.options.clock.monotonicMs(), fields, REFUTED);
    else this.log.info(fields, "the replay socket agrees with the live one again");
  }

  private tellReplayFailed(reason: ReplayFailure): void {
    const { replayEndpoint } = this.options;
    this.report(`the replay socket gave no whole answer: ${REPLAY_HINTS[reason]}`, {
      reason,
      replayEndpoint,
    });
  }

  private tell(arrival: Arrival): void {
    const fields = { arrival, endpoint: this.options.endpoint };
    if (arrival === "following") this.log.info(fields, arrivalHint(arrival));
    else this.log.warn(fields, arrivalHint(arrival));
  }

  /** What the pipeline reports: good news once and for all, the rest as `report` does. */
  private tellOf(message: string, fields: LogFields): void {
    // The log of a rank names it already.
    const { dpRank: _, reason, ...told } = fields;
    if (reason !== "proven") this.report(message, fields);
    else this.log.info(told, message);
  }

  /**
   * What may happen with every message or connection: one line a minute for each message and
   * reason.
   */
  private report(message: string, fields: LogFields): boolean {
    const { reason } = fields;
    // The log of a rank names it already.
    const { dpRank: _, ...told } = fields;
    const key = typeof reason === "string" ? `${message}:${reason}` : message;
    return this.repeats.warn(key, this.options.clock.monotonicMs(), told, message);
  }
}

function replayClient(options: BridgeRankOptions): ReplayClient | undefined {
  const { replayEndpoint: endpoint, topic, clock, timers } = options;
  if (endpoint === undefined) return undefined;
  return new ReplayClient({
    endpoint,
    topic,
    clock,
    timers,
    onBug: (error) => options.onFatal(error),
  });
}
