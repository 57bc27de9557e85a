/**
 * What it is: the synchronous core of one rank: frames → gate → decode → validate → mirror → convert → outputs.
 * Owns: epoch, completeness and counters of the rank; one instance of every stage.
 * Refuses: nothing by throwing; every refusal is counted under its reason, and costs what docs/protocol.md says.
 * Does not do: any I/O, timing or fan-out. Outputs go to `emit` in order.
 */
import { createHash } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import {
  BatchSchema,
  Completeness,
  CursorSchema,
  type Heartbeat,
  HeartbeatSchema,
  KeySchemeSchema,
  Projection,
  type RankDescription,
  RankDescriptionSchema,
  type Start,
  StartSchema,
  Withdraw_Reason as WithdrawReason,
  WithdrawSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { EngineDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { KvGroupBatchSchema, type KvGroupEvent } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import {
  type DpRank,
  type Epoch,
  engineDescriptionToWire,
  type GroupId,
  KEY_SCHEME_ID,
  type KeyedHasher,
  LIMITS,
  type Refusal,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";
import { BatchWriter } from "./batch-writer.ts";
import { wireMedium } from "./convert.ts";
import { Counters } from "./counters.ts";
import type { EngineConfig } from "./engine-config.ts";
import { EngineFacts } from "./engine-facts.ts";
import { EventApplier } from "./event-applier.ts";
import { parseFrames } from "./frames.ts";
import { MIRROR_DEFAULTS, Mirror, type MirrorOptions } from "./mirror.ts";
import { Placement } from "./placement.ts";
import type { RankOutput, RankView, SnapshotReader } from "./rank-output.ts";
import { SequenceGate } from "./sequence-gate.ts";
import { MirrorSnapshot } from "./snapshot.ts";
import { decodeBatch } from "./validate.ts";
import type { VllmBatch } from "./vllm-event.ts";

/** What a rank needs from outside. */
export interface RankPipelineOptions {
  readonly dpRank: DpRank;
  readonly engine: EngineConfig;
  readonly hasher: KeyedHasher;
  /** Exact topic; undefined or "" = every topic. */
  readonly topic: string | undefined;
  readonly isEngineProjectionAllowed: boolean;
  readonly mintEpoch: () => Epoch;
  readonly emit: (output: RankOutput) => void;
  /** Told of every refusal, withdrawal and epoch, never with token ids; the caller limits the rate. */
  readonly report?: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Bounds of the mirror; default MIRROR_DEFAULTS with the engine's removal rule. */
  readonly mirror?: Partial<MirrorOptions>;
}

/** One data-parallel rank of one engine. */
export class RankPipeline implements RankView {
  private readonly options: RankPipelineOptions;
  private readonly gate = new SequenceGate(LIMITS.duplicateDigests.value);
  private readonly facts: EngineFacts;
  private readonly mirror: Mirror;
  private readonly writer: BatchWriter;
  private readonly applier: EventApplier;
  private readonly counts = new Counters();
  private epoch: Epoch;
  private completeness = Completeness.INCOMPLETE;
  private isConnected = false;
  private isConfirmed = true;
  private isFreshPublisher = true;
  private lastBatchMs: number | undefined = undefined;
  private announcedRevision = 0;
  /** The last batch of this epoch that outputs contain; undefined = none yet. */
  private applied: SequenceNumber | undefined = undefined;

  constructor(options: RankPipelineOptions) {
    this.options = options;
    this.epoch = options.mintEpoch();
    this.facts = new EngineFacts(options.engine);
    this.writer = new BatchWriter(
      (groupId) => this.factsOf(groupId),
      options.isEngineProjectionAllowed,
      (reason) => this.refuse({ reason, path: "" }),
    );
    this.mirror = new Mirror(new Placement(options.hasher), this.writer, {
      ...MIRROR_DEFAULTS,
      removalRule: options.engine.removalRule,
      ...options.mirror,
    });
    this.applier = new EventApplier({
      facts: this.facts,
      mirror: this.mirror,
      writer: this.writer,
      counters: this.counts,
      refuse: (refusal) => this.refuse(refusal),
      withdraw: (reason, groupId, medium) => this.withdraw(reason, groupId, medium),
    });
  }

  /** One multipart as received. Frames may be views: nothing of them is kept. */
  receive(frames: readonly Uint8Array[], nowMs: number): void {
    const parsed = parseFrames(frames, { topic: this.options.topic });
    if (!parsed.ok) {
      this.refuse(parsed.error);
      return;
    }
    const { sequence, payload } = parsed.value;
    const digest = createHash("sha256").update(payload).digest("base64");
    const decision = this.gate.step(sequence, digest);
    if (decision.type === "duplicate") {
      this.counts.add("duplicates");
      return;
    }
    this.lastBatchMs = nowMs;
    this.isConfirmed = true;
    this.counts.add("batches");
    this.counts.add("payload_bytes", payload.length);
    if (decision.type === "lost") {
      this.counts.add("batches_lost", Number(decision.missing));
      this.beginEpoch(WithdrawReason.SEQUENCE_GAP, true);
    } else if (decision.type === "restarted") {
      this.isFreshPublisher = true;
      this.beginEpoch(WithdrawReason.ENGINE_RESTARTED, false);
    }
    // vLLM numbers from 0 in each process: a publisher whose first batch is 0 was followed from its begin.
    if (this.isFreshPublisher && sequence === 0n) this.completeness = Completeness.COMPLETE;
    this.isFreshPublisher = false;
    this.deliver(sequence, payload);
  }

  /** The publisher is known to be another engine process, before its first batch is seen. */
  publisherReplaced(): void {
    this.gate.forget();
    this.isFreshPublisher = true;
    this.beginEpoch(WithdrawReason.ENGINE_RESTARTED, false);
  }

  /** The state of the connection to the publisher. */
  setConnected(isConnected: boolean): void {
    // Whoever answers after a loss may be another engine, until a batch goes on where the last one stopped.
    if (!isConnected && this.isConnected && this.lastBatchMs !== undefined)
      this.isConfirmed = false;
    this.isConnected = isConnected;
  }

  start(projection: Projection): Start {
    const isEngine = projection === Projection.ENGINE;
    return create(StartSchema, {
      dpRank: this.options.dpRank,
      cursor: this.cursor(),
      isResumed: false,
      completeness: isEngine && this.holds() ? Completeness.INCOMPLETE : this.completeness,
      engine: engineDescriptionToWire(this.facts.describe()),
      ...(isEngine ? {} : { keyScheme: this.keyScheme() }),
      projection: isEngine ? Projection.ENGINE : Projection.PREFIX_KEYS,
      isEngineConnected: this.isConnected && this.isConfirmed,
      unplacedBlocks: BigInt(this.mirror.unplaced),
    });
  }

  openSnapshot(): SnapshotReader {
    return new MirrorSnapshot(this.mirror, (groupId) => this.factsOf(groupId));
  }

  /** The scheme of the keys, with the seed's check value. */
  keyScheme(): ReturnType<typeof create<typeof KeySchemeSchema>> {
    return create(KeySchemeSchema, {
      id: KEY_SCHEME_ID,
      checkValue: this.options.hasher.checkValue(),
    });
  }

  /** A heartbeat as of now. */
  heartbeat(nowMs: number): Heartbeat {
    return create(HeartbeatSchema, {
      cursor: this.cursor(),
      isEngineConnected: this.isConnected && this.isConfirmed,
      ...this.ageAt(nowMs),
    });
  }

  /** The state of the rank; `subscribers` is the service's to fill in. */
  describe(nowMs: number): RankDescription {
    const counters: Record<string, bigint> = {};
    for (const [name, value] of this.counters()) counters[name] = BigInt(value);
    return create(RankDescriptionSchema, {
      dpRank: this.options.dpRank,
      cursor: this.cursor(),
      completeness: this.completeness,
      engine: engineDescriptionToWire(this.facts.describe()),
      isEngineConnected: this.isConnected && this.isConfirmed,
      ...this.ageAt(nowMs),
      placedBlocks: BigInt(this.mirror.placed),
      unplacedBlocks: BigInt(this.mirror.unplaced),
      counters,
    });
  }

  /** All counters by name; gauges of the mirror among them. */
  counters(): ReadonlyMap<string, number> {
    this.counts.set("removals_unknown", this.mirror.unknownRemovals);
    this.counts.set("places_forgotten", this.mirror.forgottenPlaces);
    return this.counts.all();
  }

  /** Recomputes the mirror's invariants. For tests. */
  audit(): void {
    this.mirror.audit();
  }

  private deliver(sequence: SequenceNumber, payload: Uint8Array): void {
    const decoded = decodeBatch(payload, { digestBytes: this.options.engine.digestBytes });
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
    this.announceEngine();
    this.emitBatch(sequence, batch.timestampSeconds ?? 0, this.writer.takeKeyEvents());
  }

  private emitBatch(
    sequence: SequenceNumber,
    timestampSeconds: number,
    events: KvGroupEvent[],
  ): void {
    const engineEvents = this.writer.takeEngineEvents();
    const bytes = (list: KvGroupEvent[], completeness: Completeness): Uint8Array =>
      toBinary(
        BatchSchema,
        create(BatchSchema, {
          epoch: this.epoch,
          batch: create(KvGroupBatchSchema, {
            sequenceNumber: sequence,
            timestampSeconds,
            events: list,
          }),
          completeness,
          unplacedBlocks: BigInt(this.mirror.unplaced),
        }),
      );
    this.applied = sequence;
    this.options.emit({
      type: "batch",
      sequence,
      keyBytes: bytes(events, this.completeness),
      // A subscriber of ENGINE gets no snapshot, so only its own start can say what it misses.
      engineBytes:
        engineEvents === undefined ? undefined : bytes(engineEvents, Completeness.UNSPECIFIED),
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
    this.options.emit({ type: "withdraw", bytes: this.withdrawBytes(reason, groupId, medium) });
  }

  private beginEpoch(reason: WithdrawReason, keepsPlaces: boolean): void {
    this.mirror.reset(keepsPlaces);
    if (!keepsPlaces) this.facts.forget();
    this.applier.forget();
    this.epoch = this.options.mintEpoch();
    this.applied = undefined;
    this.completeness = Completeness.INCOMPLETE;
    this.announcedRevision = this.facts.revision;
    this.counts.add("epochs");
    this.counts.add(`withdrawn.${WithdrawReason[reason].toLowerCase()}`);
    this.report("new epoch", { reason: WithdrawReason[reason] });
    this.options.emit({
      type: "epoch",
      bytes: this.withdrawBytes(reason, undefined, undefined),
    });
  }

  private withdrawBytes(
    reason: WithdrawReason,
    groupId: GroupId | undefined,
    medium: string | undefined,
  ): Uint8Array {
    return toBinary(
      WithdrawSchema,
      create(WithdrawSchema, {
        reason,
        ...(groupId === undefined ? {} : { groupId }),
        ...(medium === undefined ? {} : { medium: wireMedium(medium) }),
      }),
    );
  }

  private announceEngine(): void {
    if (this.announcedRevision === this.facts.revision) return;
    this.announcedRevision = this.facts.revision;
    const description = engineDescriptionToWire(this.facts.describe());
    this.options.emit({ type: "engine", bytes: toBinary(EngineDescriptionSchema, description) });
  }

  private factsOf(groupId: GroupId): {
    readonly kind: string | undefined;
    readonly windowTokens: number | undefined;
    readonly blockSizeTokens: number | undefined;
  } {
    return this.facts.group(groupId);
  }

  private holds(): boolean {
    return this.mirror.placed + this.mirror.unplaced > 0;
  }

  private cursor(): ReturnType<typeof create<typeof CursorSchema>> {
    return create(CursorSchema, {
      epoch: this.epoch,
      ...(this.applied === undefined ? {} : { sequenceNumber: this.applied }),
    });
  }

  private ageAt(nowMs: number): { lastBatchAgeMs?: bigint } {
    if (this.lastBatchMs === undefined) return {};
    return { lastBatchAgeMs: BigInt(Math.max(0, Math.round(nowMs - this.lastBatchMs))) };
  }

  private refuse(refusal: Refusal): void {
    this.counts.add(`refused.${refusal.reason}`);
    this.report("refused", { ...refusal });
  }

  private report(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.options.report?.(message, { dpRank: this.options.dpRank, ...fields });
  }
}
