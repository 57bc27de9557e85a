/**
 * What it is: a dull model of an engine behind a sequence gate: processes, a live queue with loss, connection events
 * with a queue of their own, a replay socket that drops, cuts, or belongs to another process.
 * Owns: what every process published, the gate, and everything that the gate was told and said.
 * Invariants: checked at each output; a broken one throws.
 * Refuses: nothing.
 * Does not do: choose what happens (the property does).
 */
import type { GateBatch, GateInput, GateOutput } from "../../src/bridge/dist/gate-step.js";
import { SequenceGate } from "../../src/bridge/dist/sequence-gate.js";
import { parseSequenceNumber, type SequenceNumber } from "../../src/protocol/dist/index.js";

/** More than any gate may ask without anything new from the engine. */
const MAX_REQUESTS_AT_ONCE = 50;

/** One engine process: its name, and how many batches it has published. */
interface Process {
  readonly name: string;
  published: number;
}

interface Request {
  readonly from: number;
  /** Undefined until the engine has answered. */
  reply: GateInput[] | undefined;
}

/** How a reply goes wrong. */
export const REPLY_FAULTS = [
  "none",
  /** Every third batch is missing. */
  "holes",
  /** Half of it, and no end. */
  "cut",
  /** All of it, and no end. */
  "unended",
  "silent",
  /** Of the process before this one. */
  "foreign",
  /** An end and nothing else: the engine keeps nothing. */
  "empty",
  /** From the oldest kept, whatever was asked. */
  "unasked",
] as const;

/** One of them. */
export type ReplyFault = (typeof REPLY_FAULTS)[number];

export interface GateWorldOptions {
  readonly canReplay: boolean;
  /** Batches that the engine's replay buffer keeps. */
  readonly bufferBatches: number;
  readonly heldBatches: number;
  /** Frames of a new connection may arrive before it is told. */
  readonly areEventsLate: boolean;
}

/** The `number`-th batch of a process. */
export function batchOf(process: string, number: number | bigint): GateBatch {
  const digest = `${process}:${number}`;
  return { sequence: sequenceOf(number), digest, payload: new TextEncoder().encode(digest) };
}

export function sequenceOf(number: number | bigint): SequenceNumber {
  const parsed = parseSequenceNumber(BigInt(number));
  if (parsed === undefined) throw new RangeError("not a sequence number");
  return parsed;
}

/** One engine and one gate. */
export class GateWorld {
  readonly gate: SequenceGate;
  /** Digests of the present epoch, in the order of delivery. */
  delivered: string[] = [];
  /** An epoch had batches of two processes at some time. */
  wasMixed = false;
  requests = 0;
  reopened = 0;
  private readonly options: GateWorldOptions;
  private readonly processes: Process[] = [{ name: "p0", published: 0 }];
  private live: { readonly batch: GateBatch; readonly link: number }[] = [];
  private links = 0;
  private toldLinks = 0;
  private events: GateInput[] = [];
  private request: Request | undefined;
  private hasTimer = false;
  private isLinked = false;

  constructor(options: GateWorldOptions) {
    this.options = options;
    this.gate = new SequenceGate({
      canReplay: options.canReplay,
      heldBatches: options.heldBatches,
    });
  }

  get engine(): Process {
    const engine = this.processes.at(-1);
    if (engine === undefined) throw new RangeError("there is an engine");
    return engine;
  }

  publish(isLost: boolean): void {
    const batch = batchOf(this.engine.name, this.engine.published);
    this.engine.published += 1;
    if (this.isLinked && !isLost) this.live.push({ batch, link: this.links });
  }

  link(): void {
    if (this.isLinked) return;
    this.isLinked = true;
    this.links += 1;
    this.events.push({ type: "connected" });
  }

  unlink(): void {
    if (!this.isLinked) return;
    this.isLinked = false;
    this.events.push({ type: "disconnected" });
  }

  /** Another process; the connection breaks with the old one. */
  restart(): void {
    this.unlink();
    this.processes.push({ name: `p${this.processes.length}`, published: 0 });
  }

  /**
   * May come late, after frames of the new connection. What is left of an old one is read before a new one is told:
   * the reader never waits, and libzmq pauses before it connects again.
   */
  tellEvent(): boolean {
    const event = this.events.shift();
    if (event === undefined) return false;
    if (event.type === "connected") {
      this.toldLinks += 1;
      while ((this.live[0]?.link ?? this.toldLinks) < this.toldLinks) this.tellLive();
    }
    this.step(event);
    return true;
  }

  /** Frames of a connection that is gone arrive too: its queue is read to the end. */
  tellLive(): boolean {
    const frame = this.live.shift();
    if (frame === undefined) return false;
    if (!this.options.areEventsLate) while (frame.link > this.toldLinks) this.tellEvent();
    this.step({ type: "live", batch: frame.batch });
    return true;
  }

  fireTimer(): boolean {
    if (!this.hasTimer) return false;
    this.hasTimer = false;
    this.step({ type: "timer" });
    return true;
  }

  /** The engine takes the request and answers all of it. */
  answer(fault: ReplyFault): boolean {
    const { request } = this;
    if (request === undefined || request.reply !== undefined) return false;
    if (!this.options.areEventsLate) {
      while (this.tellEvent());
      if (this.request !== request) return true;
    }
    request.reply = this.replyTo(request.from, fault);
    return true;
  }

  /** The replay socket says this. */
  answerWith(batches: readonly GateBatch[], hasMarker: boolean): void {
    const { request } = this;
    if (request === undefined || request.reply !== undefined) return;
    request.reply = [
      ...batches.map((batch): GateInput => ({ type: "replayed", batch })),
      { type: hasMarker ? "replay_ended" : "replay_failed" },
    ];
  }

  tellReply(): boolean {
    const { request } = this;
    const input = request?.reply?.shift();
    if (request === undefined || input === undefined) return false;
    if (request.reply?.length === 0) this.request = undefined;
    this.step(input);
    return true;
  }

  /** Nothing goes wrong any more: the engine publishes, then is silent long enough for a probe, some rounds of it. */
  heal(): void {
    this.link();
    for (let round = 0; round < 30; round += 1) {
      this.round("none");
      if (this.isWell) return;
    }
    throw new RangeError(`not healed: ${this.gate.state} ${this.delivered.slice(-3).join(" ")}`);
  }

  /** The engine publishes, then is silent long enough for a probe. */
  round(fault: ReplyFault): void {
    this.publish(false);
    this.settle(fault);
    for (let silence = 0; silence < 2; silence += 1) {
      this.fireTimer();
      this.settle(fault);
    }
  }

  /** All that is on its way arrives, and pauses end. */
  settle(fault: ReplyFault): void {
    const limit = this.requests + MAX_REQUESTS_AT_ONCE;
    for (let isBusy = true; isBusy; ) {
      if (this.requests > limit) throw new RangeError("asks without end");
      isBusy = this.tellEvent() || this.tellLive() || this.answer(fault) || this.tellReply();
      // A timer counts only where the gate waits: probes come for ever.
      if (!isBusy && this.gate.state === "pausing") isBusy = this.fireTimer();
    }
  }

  /** The gate follows this engine, with all it has published. */
  get isWell(): boolean {
    const last = `${this.engine.name}:${this.engine.published - 1}`;
    return this.gate.state === "following" && this.delivered.at(-1) === last;
  }

  /** Processes in the present epoch. */
  get deliveredProcesses(): number {
    return new Set(this.delivered.map((digest) => digest.split(":")[0])).size;
  }

  private replyTo(from: number, fault: ReplyFault): GateInput[] {
    if (fault === "silent") return [{ type: "replay_failed" }];
    if (fault === "empty") return [{ type: "replay_ended" }];
    const other = this.processes.at(-2);
    const { name, published } = fault === "foreign" && other !== undefined ? other : this.engine;
    const oldest = Math.max(0, published - this.options.bufferBatches);
    const first = fault === "unasked" ? oldest : Math.max(from, oldest);
    const inputs: GateInput[] = [];
    for (let number = first; number < published; number += 1) {
      if (fault === "holes" && number % 3 === 1) continue;
      inputs.push({ type: "replayed", batch: batchOf(name, number) });
    }
    if (fault === "cut") {
      return [...inputs.slice(0, Math.ceil(inputs.length / 2)), { type: "replay_failed" }];
    }
    return [...inputs, { type: fault === "unended" ? "replay_failed" : "replay_ended" }];
  }

  private step(input: GateInput): void {
    const outputs = this.gate.step(input);
    this.gate.audit();
    for (const output of outputs) this.take(output);
    if (this.gate.state === "asking" && this.request === undefined) {
      throw new RangeError("asks, and no request is in flight");
    }
    const waits = this.gate.state === "pausing" || this.gate.state === "following";
    if (this.options.canReplay && waits && !this.hasTimer && this.request === undefined) {
      throw new RangeError(`${this.gate.state}, and nothing will wake it`);
    }
  }

  private take(output: GateOutput): void {
    switch (output.type) {
      case "deliver":
        this.deliver(output.batch);
        break;
      case "epoch":
        this.delivered = [];
        break;
      case "request_replay":
        if (this.request !== undefined) throw new RangeError("two requests in flight");
        this.requests += 1;
        this.request = { from: Number(output.from), reply: undefined };
        break;
      case "cancel_replay":
        this.request = undefined;
        break;
      case "set_timer":
        this.hasTimer = true;
        break;
      case "clear_timer":
        this.hasTimer = false;
        break;
      case "reopen_live":
        this.reopen();
        break;
      case "duplicate":
      case "foreign":
        break;
    }
  }

  private deliver(batch: GateBatch): void {
    const last = this.delivered.at(-1);
    if (last !== undefined && BigInt(last.split(":")[1] ?? "") + 1n !== batch.sequence) {
      throw new RangeError(`${batch.digest} after ${last}`);
    }
    this.delivered.push(batch.digest);
    if (this.deliveredProcesses > 1) this.wasMixed = true;
  }

  private reopen(): void {
    this.reopened += 1;
    this.live = [];
    this.isLinked = false;
    this.toldLinks = this.links;
    this.events = [{ type: "disconnected" }];
    this.link();
  }
}
