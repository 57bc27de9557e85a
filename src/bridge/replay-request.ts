/**
 * What it is: one question to an engine's replay socket, from opening a socket to its close.
 * Owns: one DEALER socket, its reader loop and its two timers.
 * Refuses: replies of another form or topic: the request fails.
 * Does not do: judge numbers, or ask again. libzmq says nothing of a peer that is absent, dead or
 * gone, nor of a frame over the limit: all of these are silence.
 */
import { LIMITS, type SequenceNumber } from "@kv-group-bridge/protocol";
import { type Cancel, type Clock, type Timers, yieldToEventLoop } from "@kv-group-bridge/runtime";
import { Dealer } from "zeromq";
import { parseReplayReply } from "./replay-frames.ts";
import type { ReplayFailure, ReplayHandlers } from "./replay-port.ts";
import { isSocketError } from "./socket-error.ts";

/** What a request needs. */
export interface ReplayRequestOptions {
  /** As `engineAddress` gives it. */
  readonly address: string;
  /** Exact topic; undefined or "" takes every topic. */
  readonly topic: string | undefined;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Bound of one frame; default `LIMITS.frameBytes`. */
  readonly maxFrameBytes?: number;
  /** A handler threw: our bug. The request is over then. */
  onBug(error: unknown): void;
}

const DELIMITER = Buffer.alloc(0);

/** One request. `run` is called once; `end` ends it at any time. */
export class ReplayRequest {
  private readonly options: ReplayRequestOptions;
  private readonly from: SequenceNumber;
  private readonly handlers: ReplayHandlers;
  private readonly onOver: () => void;
  private socket: Dealer | undefined;
  private isOver = false;
  private lastHeardMs: number;
  private cancelSilence: Cancel;
  private readonly cancelDeadline: Cancel;

  /** `onOver` is called once, before the handler that tells how the request ended. */
  constructor(
    options: ReplayRequestOptions,
    from: SequenceNumber,
    handlers: ReplayHandlers,
    onOver: () => void,
  ) {
    const { clock, timers } = options;
    this.options = options;
    this.from = from;
    this.handlers = handlers;
    this.onOver = onOver;
    this.lastHeardMs = clock.monotonicMs();
    this.cancelSilence = timers.after(LIMITS.replaySilenceMs.value, () => this.checkSilence());
    this.cancelDeadline = timers.after(LIMITS.replayRequestMs.value, () => this.fail("timeout"));
  }

  /**
   * Asks and reads until the request is over; then its socket is closed. Calls no handler before
   * the next turn of the event loop. Always inside `receive`, so that an engine whose ROUTER drops
   * at its high-water mark drops as little as can be; gives way to the event loop by time.
   */
  async run(): Promise<void> {
    const { clock } = this.options;
    await yieldToEventLoop();
    try {
      const socket = this.open();
      await socket?.send([DELIMITER, sequenceFrame(this.from)]);
      let sliceBeginMs = clock.monotonicMs();
      while (socket?.closed === false) {
        this.take(await socket.receive());
        if (clock.monotonicMs() - sliceBeginMs < LIMITS.receiveSliceMs.value) continue;
        await yieldToEventLoop();
        sliceBeginMs = clock.monotonicMs();
      }
    } catch (error) {
      if (isSocketError(error)) this.fail("socket_failed");
      else this.reportBug(error);
    }
  }

  /** Closes the socket; no handler is called any more. May be called twice. */
  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.cancelSilence();
    this.cancelDeadline();
    this.socket?.close();
    this.onOver();
  }

  /** Undefined when the request was ended meanwhile. */
  private open(): Dealer | undefined {
    if (this.isOver) return undefined;
    this.socket = new Dealer({
      // At the bound libzmq stops reading: a newer engine waits, an older one drops and the hole is asked again.
      receiveHighWaterMark: LIMITS.replayReceiveHighWaterMark.value,
      maxMessageSize: this.options.maxFrameBytes ?? LIMITS.frameBytes.value,
      reconnectInterval: LIMITS.reconnectMinMs.value,
      ipv6: true,
      linger: 0,
    });
    this.socket.connect(this.options.address);
    return this.socket;
  }

  private take(frames: readonly Uint8Array[]): void {
    if (this.isOver) return;
    this.lastHeardMs = this.options.clock.monotonicMs();
    const reply = parseReplayReply(frames, { topic: this.options.topic });
    if (!reply.ok) {
      this.fail("malformed");
    } else if (reply.value.type === "batch") {
      const { sequence, payload } = reply.value;
      this.tell(() => this.handlers.onBatch(sequence, payload));
    } else {
      this.end();
      this.tell(() => this.handlers.onEnd());
    }
  }

  private checkSilence(): void {
    const { clock, timers } = this.options;
    const remainingMs = this.lastHeardMs + LIMITS.replaySilenceMs.value - clock.monotonicMs();
    if (remainingMs <= 0) this.fail("timeout");
    else this.cancelSilence = timers.after(remainingMs, () => this.checkSilence());
  }

  private fail(reason: ReplayFailure): void {
    if (this.isOver) return;
    this.end();
    this.tell(() => this.handlers.onFailed(reason));
  }

  private tell(handler: () => void): void {
    try {
      handler();
    } catch (error) {
      this.reportBug(error);
    }
  }

  private reportBug(error: unknown): void {
    this.end();
    this.options.onBug(error);
  }
}

function sequenceFrame(sequence: SequenceNumber): Buffer {
  const frame = Buffer.alloc(8);
  frame.writeBigUInt64BE(sequence);
  return frame;
}
