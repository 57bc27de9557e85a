/**
 * What it is: the way to the engine's replay socket, with everything that can go wrong on it.
 * Owns: which process answers, and the answers under way.
 * Refuses: nothing.
 * Does not do: know wire forms; the port's contract begins behind them.
 */
import type { ReplayHandlers, ReplayPort } from "@kv-group-bridge/bridge";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";
import type { Coverage } from "./coverage.ts";
import type { EngineProcess, PublishedBatch } from "./engine-process.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** What the link needs. */
export interface ReplayLinkOptions {
  readonly world: Timers & Clock;
  readonly dice: SeededRandomness;
  readonly plan: FaultPlan;
  readonly coverage: Coverage;
}

/** Silence after which the socket's adapter gives a request up. */
const SILENCE_MS = 5000;
/** The longest that one request may take. */
const REQUEST_MS = 30_000;

/** See the file header. */
export class ReplayLink {
  /** Nothing answers, from the next request on. */
  isDead = false;
  /** True = no fault is drawn any more. */
  isHealed = false;
  private readonly options: ReplayLinkOptions;
  private target: EngineProcess | undefined = undefined;

  constructor(options: ReplayLinkOptions) {
    this.options = options;
  }

  /** The address leads to this process from now on. */
  leadTo(process: EngineProcess | undefined): void {
    this.target = process;
  }

  /** The port of one bridge process, on that process's timers. */
  port(timers: Timers): ReplayPort {
    let inFlight = 0;
    return {
      request: (from, handlers) => {
        invariant(inFlight === 0, "at most one replay request is in flight");
        inFlight++;
        this.options.coverage.add("replays");
        let isOver = false;
        const end = (): void => {
          if (!isOver) inFlight--;
          isOver = true;
        };
        const over: ReplayHandlers = {
          onBatch: (sequence, payload) => {
            if (!isOver) handlers.onBatch(sequence, payload);
          },
          onEnd: () => {
            if (isOver) return;
            end();
            handlers.onEnd();
          },
          onFailed: (reason) => {
            if (isOver) return;
            end();
            handlers.onFailed(reason);
          },
        };
        timers.after(REQUEST_MS, () => over.onFailed("timeout"));
        this.answer(timers, from, over);
        return end;
      },
    };
  }

  private answer(timers: Timers, from: bigint, handlers: ReplayHandlers): void {
    const { dice, plan } = this.options;
    const latencyMs = 1 + dice.between(0, plan.latencyMs);
    if (this.draws(plan.replayRefusedRate, "replay_refused")) {
      const reason = dice.pick(["socket_failed", "malformed"] as const);
      timers.after(latencyMs, () => handlers.onFailed(reason));
      return;
    }
    timers.after(latencyMs, () => {
      const process = this.target;
      if (process?.isAlive !== true || this.isDead) {
        timers.after(SILENCE_MS, () => handlers.onFailed("timeout"));
        return;
      }
      this.stream(timers, this.kept(process, from), handlers);
    });
  }

  /** What the buffer has from a number on, with the holes that an overfull ROUTER socket leaves. */
  private kept(process: EngineProcess, from: bigint): readonly PublishedBatch[] {
    const { plan } = this.options;
    const oldest = Math.max(0, process.published.length - plan.replaySteps);
    const first = Math.max(oldest, Number(from));
    if (oldest > Number(from)) this.options.coverage.add("replay_buffer_small");
    const batches = process.published.slice(first);
    if (batches.length === 0 || !this.draws(plan.replayHoleRate, "replay_hole")) return batches;
    // A socket that is too full drops what lies in the middle; a short reply never lacks its end.
    const hole = this.options.dice.below(batches.length);
    const size = this.options.dice.between(1, 3);
    const last = batches.length - 1;
    return batches.filter((_, i) => i < hole || i >= hole + size || i === last);
  }

  private stream(
    timers: Timers,
    batches: readonly PublishedBatch[],
    handlers: ReplayHandlers,
  ): void {
    const { dice, plan, coverage } = this.options;
    const isSlow = this.draws(plan.replaySlowRate, "replay_slow");
    const losesEnd = this.draws(plan.replayEndLostRate, "replay_end_lost");
    const burst = isSlow ? 1 : dice.between(1, 64);
    const pauseMs = isSlow ? dice.between(100, 4000) : dice.between(0, 3);
    let next = 0;
    const go = (): void => {
      for (let sent = 0; sent < burst && next < batches.length; sent++, next++) {
        const batch = batches[next];
        invariant(batch !== undefined, "a batch of the answer");
        handlers.onBatch(batch.sequence, batch.payload);
      }
      if (next < batches.length) timers.after(pauseMs, go);
      else if (losesEnd) timers.after(SILENCE_MS, () => handlers.onFailed("timeout"));
      else timers.after(pauseMs, () => handlers.onEnd());
    };
    go();
    coverage.add("replays_filled", losesEnd ? 0 : 1);
  }

  private draws(
    rate: number,
    kind: "replay_refused" | "replay_hole" | "replay_slow" | "replay_end_lost",
  ): boolean {
    if (this.isHealed || !this.options.dice.chance(rate)) return false;
    this.options.coverage.add(kind);
    return true;
  }
}
