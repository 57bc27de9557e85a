/**
 * What it is: a simulated bridge process: the real pipeline and the real fan-out, on sockets that fail.
 * Owns: the pipeline and fan-out of the running process, its timers and its checkpoints.
 * Refuses: nothing.
 * Does not do: decide when it dies (chaos.ts does).
 */

import { fromBinary } from "@bufbuild/protobuf";
import {
  checkpointFloor,
  type EngineConfig,
  FanOut,
  type RankOutput,
  RankPipeline,
  type RankPipelineOptions,
  type ReplayHandlers,
  type ReplayPort,
  type Subscriber,
} from "@kv-group-bridge/bridge";
import { BatchSchema, Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type DpRank,
  type KeyedHasher,
  parseEpoch,
  type ResumePoint,
} from "@kv-group-bridge/protocol";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";
import { type BridgeParts, countBridge, framesOf, present, processOf } from "./bridge-parts.ts";
import type { CheckpointShelf } from "./checkpoint-shelf.ts";
import type { Claims } from "./claims.ts";
import type { Coverage } from "./coverage.ts";
import type { FaultPlan } from "./fault-plan.ts";
import { HostTimers } from "./host-timers.ts";
import type { LiveLink } from "./live-link.ts";
import type { Plant } from "./plant.ts";
import type { ReplayLink } from "./replay-link.ts";
import type { TrueAnswers } from "./true-answers.ts";

/** What a bridge process is made of. */
export interface BridgeHostOptions {
  readonly world: Timers & Clock;
  readonly plan: FaultPlan;
  readonly dpRank: DpRank;
  readonly engine: EngineConfig;
  readonly hasher: KeyedHasher;
  readonly live: LiveLink;
  readonly replay: ReplayLink;
  readonly shelf: CheckpointShelf;
  readonly truth: TrueAnswers;
  readonly claims: Claims;
  readonly coverage: Coverage;
  readonly plant: Plant | undefined;
  readonly note: (text: string) => void;
  /** A number that no other epoch of the world has. */
  readonly mintNumber: () => bigint;
}

/** A stream of a gateway, as its bridge sees it. */
export interface ServedStream {
  /** Something may be taken. Called when the bridge is at rest. */
  pump(): void;
  bridgeDied(): void;
}

const HEARTBEAT_MS = 5000;

interface Running extends BridgeParts {
  readonly timers: HostTimers;
}

/** See the file header. */
export class BridgeHost {
  private readonly options: BridgeHostOptions;
  private running: Running | undefined = undefined;
  private readonly streams = new Set<ServedStream>();
  private readonly woken = new Set<ServedStream>();
  private isPaused = false;
  private continued: bigint | undefined = undefined;
  private applied: { readonly epoch: bigint; readonly sequence: bigint } | undefined = undefined;

  constructor(options: BridgeHostOptions) {
    this.options = options;
  }

  /** True while its view is of the past. */
  get isCatchingUp(): boolean {
    return this.running?.pipeline.isCatchingUp ?? false;
  }

  /** True between `start` and `kill`. */
  get isAlive(): boolean {
    return this.running !== undefined;
  }

  /** What it applied last; undefined = nothing, or there is no process. */
  get cursor(): { readonly epoch: bigint; readonly sequence: bigint } | undefined {
    return this.applied;
  }

  /** A new process begins. */
  start(): void {
    invariant(this.running === undefined, "one bridge at a time");
    const { world, plan, live, plant, replay } = this.options;
    const timers = new HostTimers(world, () => this.flush());
    const options: RankPipelineOptions = {
      dpRank: this.options.dpRank,
      engine: this.options.engine,
      hasher: this.options.hasher,
      topic: undefined,
      isEngineProjectionAllowed: false,
      mintEpoch: () => {
        const epoch = parseEpoch(this.options.mintNumber());
        invariant(epoch !== undefined, "a minted epoch is positive");
        return epoch;
      },
      emit: (output) => {
        this.record(output);
        fanOut.publish(output);
      },
      repair: {
        replay: plan.hasReplay ? this.replayPort(replay.port(timers)) : undefined,
        timers,
        clock: world,
        reopenLive: () => {
          this.options.coverage.add("live_reopened");
          live.reopen();
        },
      },
      onStatus: () => beat(),
      report: (message, fields) =>
        this.options.note(`bridge: ${message} ${JSON.stringify(fields)}`),
    };
    const checkpoint = this.options.shelf.find(options);
    const pipeline = new RankPipeline({ ...options, checkpoint });
    this.continued = checkpoint?.head.epoch;
    const instance = this.options.mintNumber();
    const fanOut: FanOut = new FanOut({
      view: pipeline,
      instance,
      resumeFloor: checkpointFloor(checkpoint),
      resumeRingBatches: plan.ringBatches,
      heartbeatIntervalMs: HEARTBEAT_MS,
      queueBytes: plan.queueBytes,
      snapshotChunkBlocks: plan.snapshotChunkBlocks,
    });
    plant?.pipeline?.(pipeline);
    if (checkpoint !== undefined) this.checkTold(pipeline.mirror.told);
    this.running = { pipeline, fanOut, timers };
    const beat = (): void => fanOut.heartbeat(pipeline.heartbeat(world.monotonicMs()));
    timers.every(HEARTBEAT_MS, beat);
    live.attach({
      onFrames: (batch) => timers.run(() => pipeline.receive(framesOf(batch), world.monotonicMs())),
      onConnection: (isConnected) =>
        timers.run(() => {
          this.options.note(`bridge: told connected ${isConnected}`);
          pipeline.setConnected(isConnected);
          beat();
        }),
    });
  }

  /** The process dies (SIGKILL). */
  kill(): void {
    const { running } = this;
    if (running === undefined) return;
    countBridge(running, this.options.coverage);
    // A paused process dies without a word.
    if (this.isPaused) this.options.shelf.died();
    else this.options.shelf.ended(processOf(running));
    this.running = undefined;
    this.applied = undefined;
    this.isPaused = false;
    running.timers.kill();
    this.options.live.attach(undefined);
    for (const stream of this.streams) stream.bridgeDied();
    this.streams.clear();
    this.woken.clear();
  }

  /** The process stops for a while (SIGSTOP). */
  pause(): void {
    this.isPaused = true;
    this.running?.timers.pause();
  }

  /** The process goes on. */
  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.running?.timers.resume();
  }

  /** Does something inside the process, now or when it goes on. */
  run(action: () => void): void {
    this.running?.timers.run(action);
  }

  /** A subscription; undefined = refused. Only inside `run`. */
  subscribe(stream: ServedStream, resume: ResumePoint | undefined): Subscriber | undefined {
    const { running } = this;
    const { plant } = this.options;
    if (running === undefined) return undefined;
    const subscriber = running.fanOut.subscribe({
      projection: Projection.PREFIX_KEYS,
      onWake: () => this.woken.add(stream),
      resume: plant?.resume === undefined ? resume : plant.resume(resume, present(running)),
    });
    if (subscriber === undefined) return undefined;
    plant?.subscriber?.(subscriber);
    this.streams.add(stream);
    this.options.coverage.add("subscriptions");
    return subscriber;
  }

  /** The stream is over. */
  leave(stream: ServedStream): void {
    this.streams.delete(stream);
    this.woken.delete(stream);
  }

  /** Time for the checkpoint. */
  keep(): void {
    const { running } = this;
    if (running !== undefined && !this.isPaused) this.options.shelf.step(processOf(running));
  }

  /** Recomputes the invariants of every part. */
  audit(): void {
    this.running?.pipeline.audit();
    this.running?.fanOut.audit();
  }

  /** Adds what the running process counted to the coverage, at the end of a seed. */
  countAll(): void {
    if (this.running !== undefined) countBridge(this.running, this.options.coverage);
  }

  /** A process that goes on from a checkpoint tells as many blocks without a place as the one that wrote it. */
  private checkTold(told: number): void {
    const { shelf, coverage } = this.options;
    invariant(told === shelf.foundTold, "a checkpoint has what is told without a place");
    if (told > 0) coverage.add("checkpoints_with_tails");
  }

  private replayPort(port: ReplayPort): ReplayPort {
    const { plant, note } = this.options;
    return {
      request: (from, handlers) => {
        note(`bridge: asks for ${from}`);
        const noted: ReplayHandlers = {
          onBatch: (sequence, payload) => handlers.onBatch(sequence, payload),
          onEnd: () => {
            note("bridge: the reply has its end marker");
            handlers.onEnd();
          },
          onFailed: (reason) => {
            note(`bridge: the reply failed: ${reason}`);
            handlers.onFailed(reason);
          },
        };
        return port.request(from, plant?.replay?.(from, noted) ?? noted);
      },
    };
  }

  private flush(): void {
    while (this.woken.size > 0) {
      const woken = [...this.woken];
      this.woken.clear();
      for (const stream of woken) stream.pump();
    }
  }

  private record(output: RankOutput): void {
    if (output.type !== "batch") return;
    const { claims, truth, coverage, world, note } = this.options;
    const { epoch, batch } = fromBinary(BatchSchema, output.keyBytes);
    invariant(batch !== undefined, "a batch has its events");
    const moment = truth.at(batch.timestampSeconds);
    invariant(moment !== undefined, "every applied batch was published");
    const { sequence } = output;
    this.applied = { epoch, sequence };
    if (epoch === this.continued) coverage.add("checkpoints_continued");
    this.continued = undefined;
    note(`bridge: applied ${moment.process}:${moment.sequence} as ${epoch}:${sequence}`);
    if (claims.note({ epoch, sequence }, moment, world.monotonicMs())) coverage.add("epochs_mixed");
  }
}
