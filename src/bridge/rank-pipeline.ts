/**
 * What it is: the synchronous core of one rank: frames → gate → decode → validate → mirror → convert → outputs.
 * Owns: epoch, completeness and counters of the rank; one instance of every stage.
 * Refuses: nothing by throwing; every refusal is counted under its reason, and costs what docs/protocol.md says.
 * Does not do: any I/O or fan-out. Outputs go to `emit` in order; replay, timers and the live socket are behind
 * `repair`.
 */
import { toBinary } from "@bufbuild/protobuf";
import {
  Completeness,
  type Heartbeat,
  type KeyScheme,
  Projection,
  type RankDescription,
  type Start,
  Withdraw_Reason as WithdrawReason,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { EngineDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import type { KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import {
  type EngineDescription,
  type Epoch,
  engineDescriptionToWire,
  type GroupId,
  HashKeys,
  type Refusal,
  type RefusalReason,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { BatchWriter } from "./batch-writer.ts";
import { rankFingerprint } from "./checkpoint-fingerprint.ts";
import type { Checkpoint } from "./checkpoint-reader.ts";
import type { CheckpointHead } from "./checkpoint-state.ts";
import { Counters } from "./counters.ts";
import { EngineFacts } from "./engine-facts.ts";
import { EngineSnapshot } from "./engine-snapshot.ts";
import type { EngineWords } from "./engine-words.ts";
import { EventApplier } from "./event-applier.ts";
import { parseFrames } from "./frames.ts";
import { GateRunner } from "./gate-runner.ts";
import type { EpochEnd, GateBatch } from "./gate-step.ts";
import { Mirror } from "./mirror.ts";
import { mirrorOptions } from "./mirror-options.ts";
import { setRankCounters } from "./rank-counters.ts";
import {
  batchBytes,
  descriptionMessage,
  engineBatchBytes,
  heartbeatMessage,
  keySchemeMessage,
  type RankState,
  startMessage,
  withdrawBytes,
} from "./rank-messages.ts";
import {
  engineWords,
  makeRecomputer,
  type RankPipelineOptions,
  type Report,
} from "./rank-options.ts";
import type { RankView, SnapshotReader } from "./rank-output.ts";
import { recomputeRules } from "./recompute-rules.ts";
import type { Recomputer } from "./recomputer.ts";
import { MirrorSnapshot } from "./snapshot.ts";
import { type DecodeOptions, decodeBatch } from "./validate.ts";
import type { VllmBatch } from "./vllm-event.ts";

const END_REASONS = {
  lost: WithdrawReason.SEQUENCE_GAP,
  restarted: WithdrawReason.ENGINE_RESTARTED,
  unproven: WithdrawReason.ENGINE_UNPROVEN,
} as const satisfies Record<EpochEnd, WithdrawReason>;

export type { RankPipelineOptions } from "./rank-options.ts";

/** One data-parallel rank of one engine. */
export class RankPipeline implements RankView {
  private readonly options: RankPipelineOptions;
  private readonly gate: GateRunner;
  private readonly facts: EngineFacts;
  /** For checkpoints; nothing else may touch it. */
  readonly mirror: Mirror;
  private readonly hashKeys: HashKeys;
  private readonly recomputer: Recomputer;
  /** Undefined = no tokens are kept. */
  private readonly words: EngineWords | undefined;
  private readonly writer: BatchWriter;
  private readonly applier: EventApplier;
  private readonly counts = new Counters();
  private readonly reading: DecodeOptions;
  private epoch: Epoch;
  private completeness = Completeness.INCOMPLETE;
  private isConnected = false;
  private nowMs = 0;
  private lastBatchMs: number | undefined = undefined;
  private announcedRevision = 0;
  /** The last batch of this epoch that outputs contain; undefined = none yet. */
  private applied: SequenceNumber | undefined = undefined;

  constructor(options: RankPipelineOptions) {
    this.options = options;
    this.epoch = options.checkpoint?.head.epoch ?? options.mintEpoch();
    this.facts = new EngineFacts(options.engine);
    const { digestBytes } = options.engine;
    this.reading = { digestBytes, onReadSlowly: () => this.counts.add("batches_read_slowly") };
    this.words = engineWords(options);
    this.hashKeys = new HashKeys(options.hasher);
    const refuse = (reason: RefusalReason): void => this.refuse({ reason, path: "" });
    this.writer = new BatchWriter(
      (groupId) => this.facts.group(groupId),
      options.isEngineProjectionAllowed,
      refuse,
      this.hashKeys,
      this.words,
    );
    const report: Report = (message, fields) => this.report(message, fields);
    this.recomputer = makeRecomputer(options, { counters: this.counts, refuse, report });
    const rules = recomputeRules(this.facts, this.recomputer);
    this.mirror = new Mirror(options.hasher, this.writer, mirrorOptions(options), rules);
    this.applier = new EventApplier({
      facts: this.facts,
      mirror: this.mirror,
      writer: this.writer,
      counters: this.counts,
      refuse: (refusal) => this.refuse(refusal),
      withdraw: (reason, groupId, medium) => this.withdraw(reason, groupId, medium),
    });
    this.gate = new GateRunner({
      repair: options.repair,
      memory: options.checkpoint?.head.gate,
      counters: this.counts,
      deliver: (batch) => this.deliver(batch),
      endEpoch: (end) => this.beginEpoch(END_REASONS[end], end === "lost"),
      statusChanged: () => this.options.onStatus?.(),
    });
    if (options.checkpoint !== undefined) this.restore(options.checkpoint);
  }

  /** One live multipart as received. Frames may be views: nothing of them is kept. */
  receive(frames: readonly Uint8Array[], nowMs: number): void {
    this.nowMs = nowMs;
    const parsed = parseFrames(frames, { topic: this.options.topic });
    if (!parsed.ok) {
      this.refuse(parsed.error);
      return;
    }
    this.gate.live(parsed.value.sequence, parsed.value.payload);
  }

  /** The publisher is known to be another engine process, before its first batch is seen. */
  publisherReplaced(): void {
    this.gate.replaced();
  }

  /** The state of the connection to the publisher. */
  setConnected(isConnected: boolean): void {
    if (isConnected === this.isConnected) return;
    this.isConnected = isConnected;
    this.gate.setConnected(isConnected);
    this.options.onStatus?.();
  }

  /** Paths of LoRA adapters as the engine tells them now, all of them. Stated ones win. */
  setLoraPaths(paths: ReadonlyMap<string, string>): void {
    this.recomputer.setLoraPaths(paths);
  }

  /** True while the view is of the past. */
  get isCatchingUp(): boolean {
    return this.gate.isCatchingUp;
  }

  /** Ends timers and requests. Nothing may follow. */
  close(): void {
    this.gate.close();
  }

  start(projection: Projection): Start {
    return startMessage(this.state(), projection, this.options.hasher);
  }

  openSnapshot(projection: Projection): SnapshotReader | undefined {
    const factsOf = (groupId: GroupId) => this.facts.group(groupId);
    if (projection !== Projection.ENGINE) {
      return new MirrorSnapshot(this.mirror, this.hashKeys, factsOf);
    }
    return this.words === undefined ? undefined : new EngineSnapshot(this.words, factsOf);
  }

  /** The scheme of the keys, with the seed's check value. */
  keyScheme(): KeyScheme {
    return keySchemeMessage(this.options.hasher);
  }

  /** A heartbeat as of now. */
  heartbeat(nowMs: number): Heartbeat {
    return heartbeatMessage(this.state(), nowMs);
  }

  /** The state of the rank; `subscribers` is the service's to fill in. */
  describe(nowMs: number): RankDescription {
    return descriptionMessage(this.state(), nowMs, this.counters());
  }

  /** All counters by name; gauges of gate and mirror among them. */
  counters(): ReadonlyMap<string, number> {
    setRankCounters(this.counts, this.mirror, this.words, this.recomputer);
    this.gate.gauge();
    return this.counts.all();
  }

  /** What a checkpoint says beside the blocks; undefined = nothing was applied in this epoch. */
  checkpointHead(
    process: Pick<CheckpointHead, "instance" | "writtenAtMs">,
  ): CheckpointHead | undefined {
    const gate = this.gate.memory();
    if (gate === undefined) return undefined;
    return {
      fingerprint: rankFingerprint(this.options),
      dpRank: this.options.dpRank,
      epoch: this.epoch,
      gate,
      isComplete: this.completeness === Completeness.COMPLETE,
      facts: this.facts.memory(),
      grouping: this.applier.grouping,
      hashing: this.recomputer.memory(),
      ...process,
    };
  }

  /** Recomputes the invariants of gate and mirror. For tests. */
  audit(): void {
    this.gate.audit();
    this.mirror.audit();
    this.words?.audit();
    const kept = this.words?.blocks ?? 0;
    invariant(kept <= this.mirror.inLocalGpu, "words are kept of what is held alone");
  }

  private restore(checkpoint: Checkpoint): void {
    const { head } = checkpoint;
    this.recomputer.restore(head.hashing);
    this.facts.restore(head.facts);
    this.applier.restore(head.grouping);
    checkpoint.restore(this.mirror);
    this.completeness = head.isComplete ? Completeness.COMPLETE : Completeness.INCOMPLETE;
    this.applied = head.gate.last;
    this.announcedRevision = this.revision;
  }

  private deliver(batch: GateBatch): void {
    this.lastBatchMs = this.options.repair?.clock.monotonicMs() ?? this.nowMs;
    this.counts.add("batches");
    this.counts.add("payload_bytes", batch.payload.length);
    // vLLM numbers from 0 in each process: an epoch whose first batch is 0 was followed from its begin.
    if (this.applied === undefined && batch.sequence === 0n) {
      this.completeness = Completeness.COMPLETE;
    }
    this.read(batch.sequence, batch.payload);
  }

  private read(sequence: SequenceNumber, payload: Uint8Array): void {
    const decoded = decodeBatch(payload, this.reading);
    if (!decoded.ok) {
      this.refuse(decoded.error);
      this.beginEpoch(WithdrawReason.BATCH_UNREADABLE, true);
      this.emitBatch(sequence, 0, []);
      return;
    }
    const batch = decoded.value;
    if (batch.dpRank !== undefined && batch.dpRank !== this.options.dpRank) {
      this.refuse({ reason: "rank_mismatch", path: "data_parallel_rank" });
      // Batches of this rank may be in another publisher's hands: nothing here is known to be whole.
      this.completeness = Completeness.INCOMPLETE;
      if (this.holds()) this.beginEpoch(WithdrawReason.BATCH_UNREADABLE, true);
      this.emitBatch(sequence, 0, []);
      return;
    }
    this.apply(sequence, batch);
  }

  private apply(sequence: SequenceNumber, batch: VllmBatch): void {
    for (const event of batch.events) {
      if (this.applier.apply(event) === "cleared_all") this.completeness = Completeness.COMPLETE;
      if (!this.mirror.isOverLimit) continue;
      this.writer.discard();
      this.beginEpoch(WithdrawReason.LIMIT_REACHED, true);
    }
    this.mirror.endBatch();
    this.announceEngine();
    this.emitBatch(sequence, batch.timestampSeconds ?? 0, this.writer.takeKeyEvents());
  }

  private emitBatch(
    sequence: SequenceNumber,
    timestampSeconds: number,
    events: KvGroupEvent[],
  ): void {
    const engineEvents = this.writer.takeEngineEvents();
    const unplaced = this.writer.takeUnplaced();
    this.applied = sequence;
    const state = this.state();
    const { completeness } = this;
    const head = { sequence, timestampSeconds };
    this.options.emit({
      type: "batch",
      sequence,
      keyBytes: batchBytes(state, head, { events, unplaced, completeness }),
      engineBytes: engineEvents && engineBatchBytes(state, head, engineEvents),
    });
  }

  /** Takes a scope back: the stream forgets it at once, and the batch being built says so in its order too. */
  private withdraw(
    reason: WithdrawReason,
    groupId: GroupId | undefined,
    medium: string | undefined,
  ): void {
    this.mirror.clear(groupId, medium);
    this.completeness = Completeness.INCOMPLETE;
    this.counts.add(`withdrawn.${WithdrawReason[reason].toLowerCase()}`);
    this.report("withdrawn", { reason: WithdrawReason[reason], groupId, medium });
    this.options.emit({ type: "withdraw", bytes: withdrawBytes(reason, groupId, medium) });
  }

  private beginEpoch(reason: WithdrawReason, keepsPlaces: boolean): void {
    this.mirror.reset(keepsPlaces);
    this.words?.reset();
    if (!keepsPlaces) {
      this.facts.forget();
      this.recomputer.forget();
    }
    this.applier.forget();
    this.epoch = this.options.mintEpoch();
    this.applied = undefined;
    this.completeness = Completeness.INCOMPLETE;
    this.announcedRevision = this.revision;
    this.counts.add("epochs");
    this.counts.add(`withdrawn.${WithdrawReason[reason].toLowerCase()}`);
    this.report("new epoch", { reason: WithdrawReason[reason] });
    this.options.emit({ type: "epoch", bytes: withdrawBytes(reason, undefined, undefined) });
  }

  private announceEngine(): void {
    if (this.announcedRevision === this.revision) return;
    this.announcedRevision = this.revision;
    const description = engineDescriptionToWire(this.describeEngine());
    this.options.emit({ type: "engine", bytes: toBinary(EngineDescriptionSchema, description) });
  }

  /** Grows whenever the engine description would be another one. */
  private get revision(): number {
    return this.facts.revision + this.recomputer.revision;
  }

  private describeEngine(): EngineDescription {
    const { status, unitTokens } = this.recomputer;
    return { ...this.facts.describe(unitTokens), hashScheme: status };
  }

  private holds(): boolean {
    return this.mirror.placed + this.mirror.unplaced > 0;
  }

  /** Without words nobody can be told what is held; with them, all whose words are there. */
  private isEngineWhole(): boolean {
    if (this.words === undefined) return !this.holds();
    return this.words.blocks === this.mirror.inLocalGpu;
  }

  private state(): RankState {
    return {
      dpRank: this.options.dpRank,
      cursor: { epoch: this.epoch, sequence: this.applied },
      completeness: this.completeness,
      isEngineWhole: () => this.isEngineWhole(),
      engine: () => this.describeEngine(),
      isEngineConnected:
        this.isConnected && !this.gate.isUnresponsive && this.options.isAwake?.() !== false,
      isCatchingUp: this.gate.isCatchingUp,
      lastBatchMs: this.lastBatchMs,
      placed: this.mirror.placed,
      unplaced: this.mirror.unplaced,
      told: this.mirror.told,
    };
  }

  private refuse(refusal: Refusal): void {
    this.counts.add(`refused.${refusal.reason}`);
    this.report("refused", { ...refusal });
  }

  private report(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.options.report?.(message, { dpRank: this.options.dpRank, ...fields });
  }
}
