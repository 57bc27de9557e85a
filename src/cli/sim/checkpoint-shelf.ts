/**
 * What it is: the directory in which simulated bridge processes leave checkpoints, and what the next one finds there.
 * Owns: the checkpoints written so far, newest last, and the cut that is being written.
 * Refuses: nothing; what is damaged is the reader's to refuse.
 * Does not do: judge whether an engine is the same one.
 */
import {
  type Checkpoint,
  CheckpointWriter,
  type RankPipeline,
  type RankPipelineOptions,
  rankFingerprint,
  readCheckpoint,
} from "@kv-group-bridge/bridge";
import { invariant } from "@kv-group-bridge/runtime";
import type { Coverage } from "./coverage.ts";
import { hasTails } from "./engine-layout.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** What a shelf needs. */
export interface CheckpointShelfOptions {
  readonly plan: FaultPlan;
  readonly dice: SeededRandomness;
  readonly coverage: Coverage;
}

/** A running process, as far as its checkpoints go. */
export interface CheckpointedProcess {
  readonly pipeline: RankPipeline;
  readonly instance: bigint;
}

/** Blocks in one piece of a cut: few, so that live batches come between. */
const MOST_PIECE_BLOCKS = 12;
const KEPT_CHECKPOINTS = 4;

interface KeptCheckpoint {
  readonly bytes: Uint8Array;
  /** Blocks that the process told without a place when it was finished. */
  readonly told: number;
}

/** See the file header. */
export class CheckpointShelf {
  private readonly options: CheckpointShelfOptions;
  private readonly kept: KeptCheckpoint[] = [];
  private cut: { readonly writer: CheckpointWriter; readonly pieces: Uint8Array[] } | undefined =
    undefined;
  private steps = 0;
  /** Of the checkpoint that was found last: what a process that begins with it tells without a place. */
  foundTold = 0;

  constructor(options: CheckpointShelfOptions) {
    this.options = options;
  }

  /** A step of time: begins a cut, writes a piece of it, or ends it. The pipeline is at rest. */
  step(process: CheckpointedProcess): void {
    this.steps++;
    if (this.cut === undefined) {
      if (this.steps % this.options.plan.checkpointEverySteps !== 0) return;
      this.cut = { writer: new CheckpointWriter(process.pipeline.mirror), pieces: [] };
    }
    const { writer, pieces } = this.cut;
    if (writer.isVoid) {
      this.abandon();
      return;
    }
    const piece = writer.piece(this.options.dice.between(1, MOST_PIECE_BLOCKS));
    if (piece === undefined) this.finish(process);
    else pieces.push(piece);
  }

  /** The process ends: in order, with a last checkpoint, or at once. */
  ended(process: CheckpointedProcess): void {
    const { dice, plan } = this.options;
    // Tails are few and soon gone: only the last moment has them.
    if (dice.chance(hasTails(plan) ? 0.7 : 0.3)) {
      this.abandon();
      this.cut = { writer: new CheckpointWriter(process.pipeline.mirror), pieces: [] };
      this.finish(process);
    }
    this.cut = undefined;
  }

  /** The process dies without a word: what it was writing is never finished. */
  died(): void {
    this.cut = undefined;
  }

  /** What the next process finds: undefined = nothing that it can use. */
  find(options: RankPipelineOptions): Checkpoint | undefined {
    const { coverage, dice } = this.options;
    const bytes = this.draw();
    if (bytes === undefined) {
      coverage.add("checkpoint_none");
      return undefined;
    }
    const isDamaged = dice.chance(0.25);
    if (isDamaged) {
      coverage.add("checkpoint_damaged");
      const at = dice.below(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << dice.below(8));
    }
    const { dpRank } = options;
    const found = readCheckpoint(bytes, { fingerprint: rankFingerprint(options), dpRank });
    const verdict = found.ok ? "taken" : `${found.error.reason}: ${found.error.detail}`;
    const state = isDamaged ? "damaged" : "sound";
    invariant(found.ok !== isDamaged, `a ${state} checkpoint is ${verdict}`);
    if (found.ok) return found.value;
    coverage.add("checkpoints_refused");
    return undefined;
  }

  /** A copy of the last checkpoint, of an older one, or nothing. */
  private draw(): Uint8Array | undefined {
    const { coverage, dice } = this.options;
    if (dice.chance(0.2)) return undefined;
    const age = dice.chance(0.3) ? dice.between(1, KEPT_CHECKPOINTS - 1) : 0;
    const kept = this.kept.at(-1 - age);
    if (kept === undefined) return undefined;
    this.foundTold = kept.told;
    coverage.add(age === 0 ? "checkpoint_last" : "checkpoint_older");
    return new Uint8Array(kept.bytes);
  }

  private finish({ pipeline, instance }: CheckpointedProcess): void {
    const { cut } = this;
    const head = pipeline.checkpointHead({ instance, writtenAtMs: 0 });
    if (cut === undefined || head === undefined || cut.writer.isVoid) {
      this.abandon();
      return;
    }
    const bytes = Buffer.concat([...cut.pieces, cut.writer.finish(head)]);
    this.kept.push({ bytes, told: pipeline.mirror.told });
    if (this.kept.length > KEPT_CHECKPOINTS) this.kept.shift();
    this.cut = undefined;
  }

  private abandon(): void {
    this.cut?.writer.abandon();
    this.cut = undefined;
  }
}
