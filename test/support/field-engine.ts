/**
 * What it is: one engine process for field cases: numbered batches, a replay buffer with a bound, and a replay socket in
 * any of vLLM's forms.
 * Owns: what it has published and still keeps, and the request in flight.
 * Refuses: nothing.
 * Does not do: keep blocks, or answer by itself (`answer` does).
 */
import { parseReplayReply } from "../../src/bridge/dist/replay-frames.js";
import type { ReplayHandlers, ReplayPort } from "../../src/bridge/dist/replay-port.js";
import { batchOf } from "./field-notation.ts";
import { encodeWire, sequenceFrame } from "./wire-builder.ts";

const EMPTY = new Uint8Array();
const END = new Uint8Array(8).fill(0xff);
const TOPIC = new TextEncoder().encode("kv-events");

/** A batch under its number. */
export interface FieldBatch {
  readonly sequence: bigint;
  readonly payload: Uint8Array;
}

/** A reply of up to vLLM 0.25.1, one from 0.26.0 on, or one whose topic has eight bytes. */
export type ReplyForm = "old" | "new" | "eight";

interface Pending {
  readonly from: bigint;
  readonly handlers: ReplayHandlers;
}

/** The engine, and its replay socket as the bridge sees it. */
export class FieldEngine implements ReplayPort {
  readonly asked: bigint[] = [];
  readonly form: ReplyForm;
  private readonly bufferBatches: number;
  private readonly kept: FieldBatch[] = [];
  private published = 0n;
  private pending: Pending | undefined;

  constructor(options: { bufferBatches?: number; form?: ReplyForm } = {}) {
    this.bufferBatches = options.bufferBatches ?? 10_000;
    this.form = options.form ?? "new";
  }

  /** Numbers a batch, and keeps it; who sends it on is the case's business. */
  publish(...events: readonly unknown[]): FieldBatch {
    const batch = { sequence: this.published, payload: encodeWire(batchOf(events)) };
    this.published += 1n;
    this.kept.push(batch);
    if (this.kept.length > this.bufferBatches) this.kept.shift();
    return batch;
  }

  /** Another process takes its place, and its addresses. */
  become(other: FieldEngine): void {
    this.kept.splice(0, this.kept.length, ...other.kept);
    this.published = other.published;
  }

  request(from: bigint, handlers: ReplayHandlers): () => void {
    const pending = { from, handlers };
    this.asked.push(from);
    this.pending = pending;
    return () => {
      if (this.pending === pending) this.pending = undefined;
    };
  }

  /** Answers what is asked, and what is asked then. */
  answer(): void {
    for (let { pending } = this; pending !== undefined; { pending } = this) {
      const frames = this.kept
        .filter((batch) => batch.sequence >= (pending?.from ?? 0n))
        .map((batch) => this.framesOf(sequenceFrame(batch.sequence), batch.payload, TOPIC));
      for (const one of frames) {
        if (this.pending === pending) this.tell(pending.handlers, one);
      }
      if (this.pending === pending) this.tell(pending.handlers, this.framesOf(END, EMPTY, EMPTY));
    }
  }

  private framesOf(
    number: Uint8Array,
    payload: Uint8Array,
    topic: Uint8Array,
  ): readonly Uint8Array[] {
    if (this.form === "old") return [EMPTY, number, payload];
    const isBatch = topic.length > 0;
    const sent = this.form === "eight" && isBatch ? sequenceFrame(7n) : topic;
    return [EMPTY, sent, number, payload];
  }

  private tell(handlers: ReplayHandlers, frames: readonly Uint8Array[]): void {
    const reply = parseReplayReply(frames, { topic: undefined });
    if (reply.ok && reply.value.type === "batch") {
      handlers.onBatch(reply.value.sequence, reply.value.payload);
      return;
    }
    this.pending = undefined;
    if (reply.ok) handlers.onEnd();
    else handlers.onFailed("malformed");
  }
}
