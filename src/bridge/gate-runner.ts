/**
 * What it is: what carries out a sequence gate's decisions: requests, timers, deliveries, ends of epochs.
 * Owns: the gate, at most one replay request and one timer.
 * Refuses: nothing.
 * Does not do: judge order (the gate does), decode, or open sockets (the port does).
 */
import { hash } from "node:crypto";
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import {
  type Cancel,
  type Clock,
  invariant,
  type Timers,
  unreachable,
} from "@kv-group-bridge/runtime";
import type { Counters } from "./counters.ts";
import type { EpochEnd, GateBatch, GateInput, GateMemory, GateOutput } from "./gate-step.ts";
import type { ReplayFailure, ReplayPort } from "./replay-port.ts";
import { SequenceGate } from "./sequence-gate.ts";

/** What a rank needs to have lost batches again. */
export interface RankRepair {
  /** Undefined: the engine has no replay socket; what is lost is lost. */
  readonly replay: ReplayPort | undefined;
  readonly timers: Timers;
  readonly clock: Clock;
  /**
   * The live socket must be opened anew; its loss and its return are told as any other. Where that cannot be done the
   * connection is told again all the same.
   */
  reopenLive(): void;
  /** The replay socket is not believed any more, or is again. An operator should know. */
  replayRefuted?(isRefuted: boolean): void;
  /** A request brought no end. An operator should know. */
  replayFailed?(reason: ReplayFailure): void;
}

/** What the gate's decisions act on. */
export interface GateRunnerParts {
  /** Undefined as in `RankRepair.replay`, and nothing waits. */
  readonly repair: RankRepair | undefined;
  /** What an earlier process knew. */
  readonly memory: GateMemory | undefined;
  readonly counters: Counters;
  deliver(batch: GateBatch): void;
  endEpoch(end: EpochEnd): void;
  /** `isCatchingUp` or `isUnresponsive` has changed. */
  statusChanged(): void;
}

/** One a rank. */
export class GateRunner {
  private readonly parts: GateRunnerParts;
  private readonly gate: SequenceGate;
  private cancelTimer: Cancel | undefined = undefined;
  private cancelReplay: (() => void) | undefined = undefined;
  private saidStatus = 0;
  private isReplayRefuted = false;

  constructor(parts: GateRunnerParts) {
    this.parts = parts;
    this.gate = new SequenceGate({ canReplay: parts.repair?.replay !== undefined }, parts.memory);
    this.saidStatus = this.status();
  }

  /** True while the view is of the past: batches are known that are not delivered, or a range is asked. */
  get isCatchingUp(): boolean {
    return this.gate.isCatchingUp;
  }

  /** True while the engine does not answer where it used to. */
  get isUnresponsive(): boolean {
    return this.gate.silence.isUnresponsive;
  }

  /** What a later process needs; undefined = nothing was delivered in this epoch. */
  memory(): GateMemory | undefined {
    return this.gate.order.memory();
  }

  /** A live batch. `payload` may be a view. */
  live(sequence: SequenceNumber, payload: Uint8Array): void {
    this.step({ type: "live", batch: batchOf(sequence, payload) });
  }

  /** The connection to the publisher came or went. */
  setConnected(isConnected: boolean): void {
    this.step({ type: isConnected ? "connected" : "disconnected" });
  }

  /** The publisher is known to be another process. */
  replaced(): void {
    this.step({ type: "replaced" });
  }

  /** Ends request and timer; nothing may follow. */
  close(): void {
    this.cancelTimer?.();
    this.cancelReplay?.();
    this.cancelTimer = undefined;
    this.cancelReplay = undefined;
  }

  /** Writes the gate's gauges into the counters. */
  gauge(): void {
    const { held } = this.gate.order;
    this.parts.counters.set("held_batches", held.count);
    this.parts.counters.set("held_bytes", held.sizeBytes);
    this.parts.counters.set("held_dropped", held.dropped);
    this.parts.counters.set("replay_refuted", this.gate.trust.isRefuted ? 1 : 0);
  }

  /** Checks the gate. */
  audit(): void {
    this.gate.audit();
  }

  private step(input: GateInput): void {
    for (const output of this.gate.step(input)) this.carryOut(output);
    if (this.gate.trust.isRefuted !== this.isReplayRefuted) {
      this.isReplayRefuted = this.gate.trust.isRefuted;
      this.parts.repair?.replayRefuted?.(this.isReplayRefuted);
    }
    const status = this.status();
    if (status === this.saidStatus) return;
    this.saidStatus = status;
    this.parts.statusChanged();
  }

  private carryOut(output: GateOutput): void {
    const { counters, repair } = this.parts;
    switch (output.type) {
      case "deliver":
        this.parts.deliver(output.batch);
        return;
      case "duplicate":
        counters.add("duplicates");
        return;
      case "epoch":
        if (output.end === "lost") counters.add("batches_lost", Number(output.missing));
        this.parts.endEpoch(output.end);
        return;
      case "request_replay":
        this.request(output.from);
        return;
      case "cancel_replay":
        this.cancelReplay?.();
        this.cancelReplay = undefined;
        return;
      case "set_timer":
        this.setTimer(output.delayMs);
        return;
      case "clear_timer":
        this.cancelTimer?.();
        this.cancelTimer = undefined;
        return;
      case "reopen_live":
        counters.add("live_reopened");
        repair?.reopenLive();
        return;
      case "foreign":
        counters.add("batches_foreign", output.batches);
        return;
      default:
        unreachable(output, "every output is carried out");
    }
  }

  private setTimer(delayMs: number): void {
    this.cancelTimer?.();
    this.cancelTimer = this.parts.repair?.timers.after(delayMs, () => {
      this.cancelTimer = undefined;
      this.step({ type: "timer" });
    });
  }

  private request(from: SequenceNumber): void {
    const { counters, repair } = this.parts;
    invariant(repair?.replay !== undefined, "only a gate with a replay socket asks");
    invariant(this.cancelReplay === undefined, "one request at a time");
    counters.add("replay_requests");
    this.cancelReplay = repair.replay.request(from, {
      onBatch: (sequence, payload) => {
        counters.add("replay_batches");
        this.step({ type: "replayed", batch: batchOf(sequence, payload) });
      },
      onEnd: () => {
        this.cancelReplay = undefined;
        this.step({ type: "replay_ended" });
      },
      onFailed: (reason) => {
        this.cancelReplay = undefined;
        counters.add(`replay_failed.${reason}`);
        repair.replayFailed?.(reason);
        this.step({ type: "replay_failed" });
      },
    });
  }

  /** A bit for each thing that subscribers are told at once. */
  private status(): number {
    return (this.gate.isCatchingUp ? 1 : 0) | (this.gate.silence.isUnresponsive ? 2 : 0);
  }
}

function batchOf(sequence: SequenceNumber, payload: Uint8Array): GateBatch {
  return { sequence, payload, digest: hash("sha256", payload, "base64") };
}
