/**
 * What it is: the hand that does the faults of a plan to the parties, and takes them back.
 * Owns: the faults that last.
 * Refuses: nothing.
 * Does not do: judge.
 */
import type { Clock, Timers } from "@kv-group-bridge/runtime";
import { unreachable } from "@kv-group-bridge/runtime";
import type { BridgeHost } from "./bridge-host.ts";
import type { Coverage } from "./coverage.ts";
import type { EngineProcess } from "./engine-process.ts";
import type { Engines } from "./engines.ts";
import { type FaultPlan, RATED_FAULTS, type RatedFault, rateOf } from "./fault-plan.ts";
import type { GatewayHost } from "./gateway-host.ts";
import type { LiveLink } from "./live-link.ts";
import type { ReplayLink } from "./replay-link.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** So many times longer lasts a fault that outlasts a calm moment. */
const LASTS_LONGER = 20;

/** All parties. */
export interface ChaosOptions {
  readonly world: Timers & Clock;
  readonly dice: SeededRandomness;
  readonly plan: FaultPlan;
  readonly coverage: Coverage;
  readonly engines: Engines;
  readonly live: LiveLink;
  readonly replay: ReplayLink;
  readonly bridge: BridgeHost;
  readonly gateways: readonly GatewayHost[];
  readonly note: (text: string) => void;
}

/** See the file header. */
export class Chaos {
  private readonly options: ChaosOptions;
  private readonly lasting = new Set<() => void>();
  private endedAtMs = 0;
  private copies = 1;
  private idleMs = 0;

  constructor(options: ChaosOptions) {
    this.options = options;
  }

  /** Draws the faults of one step. */
  step(): void {
    const { dice, plan } = this.options;
    for (const kind of RATED_FAULTS) {
      if (!dice.chance(rateOf(plan, kind))) continue;
      // The engine itself makes these, and counts them.
      if (kind === "removal_unreadable") continue;
      this.strike(kind);
    }
  }

  /** Does one fault now. */
  strike(kind: RatedFault): void {
    const { coverage, note } = this.options;
    if (!this.act(kind)) return;
    note(`chaos: ${kind}`);
    coverage.add(kind);
  }

  /** True while no fault lasts. */
  get isQuiet(): boolean {
    return this.lasting.size === 0;
  }

  /** When the last fault ended by itself. */
  get lastEndMs(): number {
    return this.endedAtMs;
  }

  /** How often the next frames arrive; drawn once. */
  takeCopies(): number {
    const { copies } = this;
    this.copies = 1;
    return copies;
  }

  /** How long the engine has nothing to do now; drawn once. */
  takeIdleMs(): number {
    const { idleMs } = this;
    this.idleMs = 0;
    return idleMs;
  }

  /** Ends every fault that lasts, in the order in which they began. */
  heal(): void {
    // What is ended may begin another wait: a rolling replacement has two.
    while (this.lasting.size > 0) for (const end of this.lasting) end();
    this.options.live.clear();
    this.options.replay.isDead = false;
    this.options.replay.isHealed = true;
  }

  private act(kind: RatedFault): boolean {
    const { dice, live, bridge } = this.options;
    switch (kind) {
      case "frame_dropped":
        live.drop(1);
        return true;
      case "burst_dropped":
        live.drop(dice.between(2, 12));
        return true;
      case "frame_repeated":
        this.copies = 2;
        return true;
      case "live_cut":
        live.cut();
        return true;
      case "live_blackholed":
        live.blackhole();
        this.last(dice.between(1000, 60_000), () => live.clear());
        return true;
      case "engine_killed":
        return this.replaceEngine();
      case "engine_idle":
        this.idleMs = dice.between(20_000, 120_000);
        return true;
      case "replay_dead":
        return this.killReplay();
      case "bridge_killed":
        return this.restartBridge();
      case "bridge_paused":
        bridge.pause();
        this.last(dice.between(500, 60_000), () => bridge.resume());
        return true;
      case "removal_unreadable":
        return false;
      case "stream_cut":
      case "stream_half_open":
      case "reader_stopped":
      case "gateway_restarted":
      case "gateway_paused":
      case "worker_removed":
      case "worker_moved":
        return this.actAtGateway(kind, dice.below(this.options.gateways.length));
      default:
        return unreachable(kind, "every fault is done");
    }
  }

  private actAtGateway(kind: RatedFault, index: number): boolean {
    const { dice, gateways } = this.options;
    const gateway = gateways[index];
    const stream = gateway?.stream;
    if (gateway?.isAlive !== true) return false;
    if (kind === "gateway_restarted") {
      gateway.kill();
      this.last(dice.between(1, 5000), () => gateway.start());
    } else if (kind === "gateway_paused") {
      gateway.pause();
      this.last(dice.between(500, 60_000), () => gateway.resume());
    } else if (kind === "worker_removed") {
      gateway.removeWorker();
      this.last(dice.between(0, 5000), () => gateway.addWorker());
    } else if (kind === "worker_moved") {
      gateway.moveWorker();
    } else if (stream === undefined) {
      return false;
    } else if (kind === "stream_cut") {
      stream.cut();
    } else if (kind === "stream_half_open") {
      stream.halfOpen();
    } else {
      stream.setReading(false);
      this.last(dice.between(100, 30_000), () => stream.setReading(true));
    }
    return true;
  }

  private killReplay(): boolean {
    const { dice, replay } = this.options;
    replay.isDead = true;
    this.last(dice.between(2000, 90_000), () => {
      replay.isDead = false;
    });
    return true;
  }

  private restartBridge(): boolean {
    const { bridge, dice } = this.options;
    if (!bridge.isAlive) return false;
    bridge.kill();
    this.last(dice.between(10, 20_000), () => bridge.start());
    return true;
  }

  private replaceEngine(): boolean {
    const { engines, dice, plan, live, replay, coverage } = this.options;
    const old = engines.current;
    if (old === undefined) return false;
    const ahead = this.batchesAhead(old);
    if (dice.chance(plan.splitRate)) {
      const isLiveFirst = dice.chance(0.5);
      coverage.add(isLiveFirst ? "live_leads_replay" : "replay_leads_live");
      const next = engines.create(ahead);
      if (isLiveFirst) {
        engines.use(next);
        live.leadTo(next);
        live.cut();
      } else {
        replay.leadTo(next);
      }
      // Two addresses that lead to two live processes for ever cannot be told from one process.
      this.lastExactly(dice.between(1000, 60_000), () => {
        // Another replacement may have come meanwhile.
        if (engines.current !== (isLiveFirst ? next : old)) return;
        this.switchTo(next);
        old.isAlive = false;
        live.died(old, true);
      });
      return true;
    }
    old.isAlive = false;
    engines.use(undefined);
    live.leadTo(undefined);
    replay.leadTo(undefined);
    live.died(old, dice.chance(0.7));
    this.last(dice.between(0, 30_000), () => this.switchTo(engines.create(ahead)));
    return true;
  }

  private switchTo(process: EngineProcess): void {
    const { engines, live, replay } = this.options;
    engines.use(process);
    live.leadTo(process);
    replay.leadTo(process);
  }

  /** How many batches the next process publishes before anybody looks. */
  private batchesAhead(old: EngineProcess): number {
    const { dice, plan, coverage } = this.options;
    if (!dice.chance(plan.aheadRate)) return 0;
    const count = old.published.length;
    if (dice.chance(0.5)) {
      coverage.add("engine_continued_exactly");
      return count;
    }
    coverage.add("engine_ran_ahead");
    return Math.max(0, count + dice.between(-5, 10));
  }

  /** A fault that ends by itself, unless it is healed before. */
  private last(usualMs: number, undo: () => void): void {
    // Some outlast a calm moment.
    this.lastExactly(this.options.dice.chance(0.25) ? usualMs * LASTS_LONGER : usualMs, undo);
  }

  /** A fault that ends before the next calm moment is judged. */
  private lastExactly(durationMs: number, undo: () => void): void {
    const end = (): void => {
      if (!this.lasting.delete(end)) return;
      this.endedAtMs = this.options.world.monotonicMs();
      undo();
    };
    this.lasting.add(end);
    this.options.world.after(durationMs, end);
  }
}
