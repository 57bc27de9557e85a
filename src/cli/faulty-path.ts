/**
 * What it is: the whole path of one recorded engine on a virtual clock, with faults drawn from a seed: live batches
 * lost and repeated, connections cut, replay in one of its modes, the bridge (with a checkpoint of its end, an older one
 * or none) and the gateway's stream restarted.
 * Owns: one engine, one bridge process at a time, one gateway.
 * Refuses: nothing.
 * Does not do: judge answers (verify-faults.ts does).
 */
import {
  type Checkpoint,
  CheckpointWriter,
  checkpointFloor,
  FanOut,
  RankPipeline,
  type RankPipelineOptions,
  rankFingerprint,
  readCheckpoint,
} from "@kv-group-bridge/bridge";
import type { Query, RankAnswer } from "@kv-group-bridge/gateway";
import { KeyedHasher, parseEpoch } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { type InProcessPathOptions, PathFollower } from "./in-process-path.ts";
import { type RecordedBatch, RecordedEngine, type ReplayMode } from "./recorded-engine.ts";
import { SeededRandomness } from "./sim/seeded-randomness.ts";
import { VirtualClock } from "./sim/virtual-clock.ts";

/** Faults that happened, by kind. */
export interface FaultCounts {
  drops: number;
  repeats: number;
  cuts: number;
  bridgeRestarts: number;
  checkpoints: number;
  streamCuts: number;
  engineRestarts: number;
}

/** Probability of each fault for one published batch. */
const RATES = {
  drop: 0.04,
  repeat: 0.03,
  cut: 0.015,
  bridgeRestart: 0.006,
  checkpoint: 0.01,
  streamCut: 0.03,
};
/** Each may play the whole recording again. */
const BRIDGE_RESTARTS_MAX = 8;
const PAUSE_MAX_MS = 60;
const CUT_BATCHES_MAX = 6;
const HEARTBEAT_MS = 5_000;
/** Beyond two probes with all their requests and pauses. */
const SETTLE_MAX_MS = 180_000;
const SETTLE_STEP_MS = 2_000;

/** One run. */
export class FaultyPath {
  readonly counts: FaultCounts = {
    drops: 0,
    repeats: 0,
    cuts: 0,
    bridgeRestarts: 0,
    checkpoints: 0,
    streamCuts: 0,
    engineRestarts: 0,
  };
  private readonly options: InProcessPathOptions;
  private readonly mode: ReplayMode;
  private readonly world = new VirtualClock();
  private readonly dice: SeededRandomness;
  private readonly engine: RecordedEngine;
  private pipeline: RankPipeline;
  private fanOut: FanOut;
  private cancelHeartbeat: () => void = () => {};
  private instance = 0n;
  /** The last one that was written while the bridge ran. */
  private checkpoint: Uint8Array | undefined = undefined;
  private follower: PathFollower;
  private minted = 0n;
  /** Batches until a lost live connection comes back. */
  private awayBatches = 0;
  private isAway = false;
  /** An engine process that the bridge has not told of yet. */
  private isReplacementUntold = false;

  constructor(options: InProcessPathOptions, mode: ReplayMode, seed: number) {
    this.options = options;
    this.mode = mode;
    this.dice = new SeededRandomness(seed);
    this.engine = new RecordedEngine(this.world, this.dice);
    const { pipeline, fanOut } = this.startBridge(undefined);
    this.pipeline = pipeline;
    this.fanOut = fanOut;
    this.follower = new PathFollower(() => this.fanOut, options, this.world);
    pipeline.setConnected(true);
    this.follower.drain();
  }

  /** The engine publishes; what happens to it on the way is drawn. */
  publish(frames: readonly Uint8Array[]): void {
    const { dice } = this;
    const batch = this.engine.publish(frames);
    if (this.isAway) {
      this.awayBatches -= 1;
      if (this.awayBatches <= 0) this.reconnect();
    } else if (dice.chance(RATES.cut)) {
      this.counts.cuts += 1;
      this.cut();
    } else this.deliver(batch);
    if (dice.chance(RATES.checkpoint)) this.checkpoint = this.writeCheckpoint();
    const mayRestart = this.counts.bridgeRestarts < BRIDGE_RESTARTS_MAX;
    if (mayRestart && dice.chance(RATES.bridgeRestart)) this.restartBridge();
    if (dice.chance(RATES.streamCut)) {
      this.counts.streamCuts += 1;
      this.follower.cut();
    }
    this.world.advance(dice.between(0, PAUSE_MAX_MS));
    if (dice.chance(0.7)) this.follower.drain(dice.between(1, 40));
  }

  /** The engine process is replaced; the live connection is lost and comes back after some batches. */
  restartEngine(): void {
    this.counts.engineRestarts += 1;
    this.engine.restart();
    this.isReplacementUntold = true;
    this.cut();
  }

  /**
   * Heals what is broken and waits until bridge and gateway have what the engine published. False: they never will
   * know of the newest batches (possible without a replay socket only).
   */
  settle(): boolean {
    if (this.isAway) this.reconnect();
    for (let waitedMs = 0; waitedMs < SETTLE_MAX_MS; waitedMs += SETTLE_STEP_MS) {
      this.follower.drain();
      if (this.isCurrent && !this.pipeline.heartbeat(0).isCatchingUp) {
        // What was said last of the engine's state is said to the gateway too.
        this.fanOut.heartbeat(this.pipeline.heartbeat(this.world.monotonicMs()));
        this.follower.drain();
        return true;
      }
      this.world.advance(SETTLE_STEP_MS);
    }
    return false;
  }

  /** True when the gateway has exactly what the present engine process published. */
  get isCurrent(): boolean {
    const { last } = this.engine;
    if (this.isReplacementUntold) return false;
    return this.follower.sequenceNumber === last && this.applied === last;
  }

  /** The gateway's answer. */
  score(query: Query): RankAnswer {
    return this.follower.score(query);
  }

  /** Recomputes every invariant and ends everything. */
  close(): void {
    this.pipeline.audit();
    this.fanOut.audit();
    this.follower.gateway.audit();
    this.follower.gateway.close();
    this.pipeline.close();
  }

  private get applied(): bigint | undefined {
    return this.pipeline.heartbeat(0).cursor?.sequenceNumber;
  }

  private deliver(batch: RecordedBatch): void {
    if (this.dice.chance(RATES.drop)) {
      this.counts.drops += 1;
      return;
    }
    this.receive(batch);
    if (!this.dice.chance(RATES.repeat)) return;
    this.counts.repeats += 1;
    this.receive(batch);
  }

  private receive(batch: RecordedBatch): void {
    this.pipeline.receive(batch.frames, this.world.monotonicMs());
  }

  private cut(): void {
    if (this.isAway) return;
    this.isAway = true;
    this.awayBatches = this.dice.between(0, CUT_BATCHES_MAX);
    this.pipeline.setConnected(false);
  }

  private reconnect(): void {
    this.isAway = false;
    // A bridge that has applied nothing has no epoch to end.
    if (this.applied === undefined) this.isReplacementUntold = false;
    this.pipeline.setConnected(true);
  }

  private restartBridge(): void {
    this.counts.bridgeRestarts += 1;
    const end = this.dice.pick(["stopped", "killed", "emptied"]);
    if (end === "stopped") this.checkpoint = this.writeCheckpoint();
    if (end === "emptied") this.checkpoint = undefined;
    this.pipeline.close();
    this.cancelHeartbeat();
    const { pipeline, fanOut } = this.startBridge(this.readCheckpoint());
    this.pipeline = pipeline;
    this.fanOut = fanOut;
    this.follower.cut();
    if (!this.isAway) pipeline.setConnected(true);
  }

  private writeCheckpoint(): Uint8Array | undefined {
    const { instance } = this;
    const head = this.pipeline.checkpointHead({ instance, writtenAtMs: this.world.nowMs() });
    if (head === undefined) return this.checkpoint;
    const cut = new CheckpointWriter(this.pipeline.mirror);
    const pieces: Uint8Array[] = [];
    for (let piece = cut.piece(50); piece !== undefined; piece = cut.piece(50)) pieces.push(piece);
    pieces.push(cut.finish(head));
    cut.abandon();
    return Buffer.concat(pieces);
  }

  private readCheckpoint(): Checkpoint | undefined {
    if (this.checkpoint === undefined) return undefined;
    const { dpRank } = this.options;
    const fingerprint = rankFingerprint(this.rankOptions());
    const read = readCheckpoint(this.checkpoint, { fingerprint, dpRank });
    invariant(read.ok, "a checkpoint that was written can be read");
    this.counts.checkpoints += 1;
    return read.value;
  }

  private rankOptions(): Pick<RankPipelineOptions, "dpRank" | "engine" | "hasher" | "topic"> {
    const { dpRank, engine, seed, topic } = this.options;
    return { dpRank, engine, hasher: new KeyedHasher(seed), topic };
  }

  private startBridge(checkpoint: Checkpoint | undefined): {
    readonly pipeline: RankPipeline;
    readonly fanOut: FanOut;
  } {
    const { world, options } = this;
    this.instance = this.mint((value) => value);
    const beat = (): void => fanOut.heartbeat(pipeline.heartbeat(world.monotonicMs()));
    const pipeline = new RankPipeline({
      ...this.rankOptions(),
      checkpoint,
      isEngineProjectionAllowed: false,
      mintEpoch: () => this.mint(parseEpoch),
      emit: (output) => {
        if (output.type === "epoch") this.isReplacementUntold = false;
        fanOut.publish(output);
      },
      repair: {
        replay: this.engine.replayPort(this.mode),
        timers: world,
        clock: world,
        reopenLive: () => {
          world.after(0, () => pipeline.setConnected(false));
          world.after(1, () => (this.isAway ? undefined : pipeline.setConnected(true)));
        },
      },
      onStatus: beat,
    });
    const fanOut = new FanOut({
      ...options.fanOut,
      view: pipeline,
      instance: this.instance,
      resumeFloor: checkpointFloor(checkpoint),
    });
    this.cancelHeartbeat = world.every(HEARTBEAT_MS, beat);
    return { pipeline, fanOut };
  }

  private mint<T>(parse: (value: bigint) => T | undefined): T {
    this.minted += 1n;
    const minted = parse(this.minted);
    invariant(minted !== undefined, "a minted number is positive");
    return minted;
  }
}
