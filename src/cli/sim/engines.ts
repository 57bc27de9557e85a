/**
 * What it is: the simulated engine deployment: one process after another behind one service address.
 * Owns: the processes, and which one counts now.
 * Refuses: nothing.
 * Does not do: decide when a process dies (chaos.ts does).
 */
import { EngineProcess, type PublishedBatch } from "./engine-process.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { LiveLink } from "./live-link.ts";
import type { ReplayLink } from "./replay-link.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";
import type { ProbeAnswers, TrueAnswers } from "./true-answers.ts";

/** What the deployment needs. */
export interface EnginesOptions {
  readonly plan: FaultPlan;
  readonly dice: SeededRandomness;
  readonly truth: TrueAnswers;
  readonly live: LiveLink;
  readonly replay: ReplayLink;
  readonly note: (text: string) => void;
}

/** See the file header. */
export class Engines {
  readonly all: EngineProcess[] = [];
  private readonly options: EnginesOptions;
  private stamps = 0;
  private now: EngineProcess | undefined = undefined;
  private answers: ProbeAnswers | undefined = undefined;

  constructor(options: EnginesOptions) {
    this.options = options;
  }

  /** The process that requests go to; undefined while there is none. */
  get current(): EngineProcess | undefined {
    return this.now;
  }

  /** What that process answers now. */
  get currentAnswers(): ProbeAnswers | undefined {
    return this.now === undefined ? undefined : (this.answers ?? this.options.truth.nothing);
  }

  /** A new process, which nobody is led to yet. It serves `batches` at once. */
  create(batches: number): EngineProcess {
    const { plan, dice } = this.options;
    const process = new EngineProcess(this.all.length, plan, dice, () => {
      this.stamps++;
      return this.stamps / 16;
    });
    this.all.push(process);
    for (let i = 0; i < batches; i++) this.serve(process, 1);
    return process;
  }

  /** Requests go to this process from now on. */
  use(process: EngineProcess | undefined): void {
    this.now = process;
    const last = process?.published.at(-1);
    this.answers =
      last === undefined ? undefined : this.options.truth.at(last.timestampSeconds)?.answers;
  }

  /** The current process serves some requests and publishes. */
  step(copies = 1): void {
    if (this.now !== undefined) this.serve(this.now, copies);
  }

  /** The current process forgets everything. */
  reset(): void {
    if (this.now !== undefined) this.publish(this.now, this.now.reset(), 1);
  }

  private serve(process: EngineProcess, copies: number): void {
    const { truth, dice } = this.options;
    this.publish(
      process,
      process.step(() => truth.drawLeaf(dice)),
      copies,
    );
  }

  private publish(process: EngineProcess, batch: PublishedBatch, copies: number): void {
    const { answers } = this.options.truth.note(process, batch);
    if (process === this.now) this.answers = answers;
    this.options.note(`engine: publishes ${process.id}:${batch.sequence}`);
    this.options.live.publish(process, batch, copies);
  }
}
