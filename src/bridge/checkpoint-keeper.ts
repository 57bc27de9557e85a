/**
 * What it is: the loop that keeps one rank's checkpoint current while the rank goes on.
 * Owns: when a checkpoint is due, the one write that may run, the last one at the end, and their counters.
 * Refuses: a second write while one runs; a write when nothing changed since the last good one.
 * Does not do: decide what a rank knows (`head` says it), or read a checkpoint.
 */
import { KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import { type Cancel, type Clock, type Timers, yieldToEventLoop } from "@kv-group-bridge/runtime";
import type { CheckpointHead } from "./checkpoint-state.ts";
import { CheckpointWriter } from "./checkpoint-writer.ts";
import type { Mirror } from "./mirror.ts";

/** What takes the bytes: a `CheckpointFile`. */
export interface CheckpointTarget {
  write(pieces: AsyncIterable<Uint8Array>): Promise<number>;
}

/** What a keeper works with. */
export interface CheckpointKeeperOptions {
  readonly target: CheckpointTarget;
  readonly mirror: Mirror;
  /** What the rank knows now; undefined = nothing worth writing. Called between batches, never inside one. */
  head(): CheckpointHead | undefined;
  /** Default `LIMITS.checkpointIntervalMs`. */
  readonly intervalMs?: number;
  /** Default `LIMITS.checkpointFinalMs`. */
  readonly finalMs?: number;
  /** Default `LIMITS.checkpointPieceBlocks`. */
  readonly pieceBlocks?: number;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Told of failures at most once a minute, with how many were left out, and of the last checkpoint's in any case. */
  report(message: string, fields: Readonly<Record<string, unknown>>): void;
  /** Our own bug: the process should end. */
  onFatal(error: unknown): void;
  /** Gives way to everything else; default a turn of the event loop. */
  readonly giveWay?: () => Promise<void>;
}

/** Numbers since the start. */
export interface CheckpointCounters {
  readonly written: number;
  readonly failed: number;
  /** Given up because the rank began anew meanwhile: no failure. */
  readonly voided: number;
  /** Of the last good one; 0 = none yet. */
  readonly lastBytes: number;
  readonly lastDurationMs: number;
}

const REPORT_INTERVAL_MS = 60_000;

/** One a rank that has a directory for checkpoints. */
export class CheckpointKeeper {
  private readonly options: CheckpointKeeperOptions;
  private cancelTimer: Cancel | undefined = undefined;
  private running: Promise<void> | undefined = undefined;
  private closing: Promise<void> | undefined = undefined;
  private isLate = false;
  private lastWritten: CheckpointHead | undefined = undefined;
  private lastReportMs = Number.NEGATIVE_INFINITY;
  private suppressed = 0;
  private readonly counts = {
    written: 0,
    failed: 0,
    voided: 0,
    lastBytes: 0,
    lastDurationMs: 0,
  };

  constructor(options: CheckpointKeeperOptions) {
    this.options = options;
  }

  /** Begins to write, first after one interval. */
  start(): void {
    const intervalMs = this.options.intervalMs ?? LIMITS.checkpointIntervalMs.value;
    this.cancelTimer ??= this.options.timers.every(intervalMs, () => {
      // A write that takes longer than an interval has the next one begin with the interval after it.
      if (this.running === undefined) void this.write();
    });
  }

  /** Counters now. */
  counters(): CheckpointCounters {
    return { ...this.counts };
  }

  /**
   * Stops, and writes a last time what changed since. Resolves within `finalMs`, whatever the disk does; never
   * rejects. Batches should not come any more, or the last ones may be missing. Idempotent.
   */
  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  private async closeOnce(): Promise<void> {
    this.cancelTimer?.();
    const finalMs = this.options.finalMs ?? LIMITS.checkpointFinalMs.value;
    let cancelEnd: Cancel | undefined;
    const end = new Promise<void>((resolve) => {
      cancelEnd = this.options.timers.after(finalMs, () => {
        this.isLate = true;
        resolve();
      });
    });
    await Promise.race([this.lastWrite(), end]);
    cancelEnd?.();
    if (this.isLate) this.failed("the last checkpoint took too long");
  }

  private async lastWrite(): Promise<void> {
    await this.running;
    if (!this.isLate) await this.write();
  }

  /** Never rejects. */
  private async write(): Promise<void> {
    const head = this.options.head();
    if (head === undefined || !this.isNews(head)) return;
    this.running = this.writeOnce(head);
    await this.running;
    this.running = undefined;
  }

  private async writeOnce(head: CheckpointHead): Promise<void> {
    const { clock, target, mirror } = this.options;
    const beginMs = clock.monotonicMs();
    const cut = new CheckpointWriter(mirror);
    try {
      const written = { head };
      const bytes = await target.write(this.pieces(cut, written));
      this.counts.written += 1;
      this.counts.lastBytes = bytes;
      this.counts.lastDurationMs = clock.monotonicMs() - beginMs;
      this.lastWritten = written.head;
    } catch (error) {
      if (cut.isVoid) this.counts.voided += 1;
      else if (!isCheckpointFailure(error)) this.options.onFatal(error);
      else if (!this.isLate) this.failed(error.message);
    } finally {
      cut.abandon();
    }
  }

  /** Puts the head that it ended with into `written`. */
  private async *pieces(
    cut: CheckpointWriter,
    written: { head: CheckpointHead },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const pieceBlocks = this.options.pieceBlocks ?? LIMITS.checkpointPieceBlocks.value;
    const giveWay = this.options.giveWay ?? yieldToEventLoop;
    for (;;) {
      this.checkGoingOn(cut);
      const piece = cut.piece(pieceBlocks);
      if (piece === undefined) break;
      yield piece;
      await giveWay();
    }
    this.checkGoingOn(cut);
    // In the same turn: head and blocks are of one moment.
    const head = this.options.head();
    if (head === undefined) throw givenUp("there is nothing to write any more");
    written.head = head;
    yield cut.finish(head);
  }

  private checkGoingOn(cut: CheckpointWriter): void {
    if (cut.isVoid) throw givenUp("the rank began anew");
    if (this.isLate) throw givenUp("the process ends");
  }

  /** Batches move the gate, everything else that matters begins an epoch or changes completeness. */
  private isNews(head: CheckpointHead): boolean {
    const { lastWritten } = this;
    return (
      lastWritten === undefined ||
      head.epoch !== lastWritten.epoch ||
      head.gate.last !== lastWritten.gate.last ||
      head.isComplete !== lastWritten.isComplete
    );
  }

  private failed(why: string): void {
    this.counts.failed += 1;
    const nowMs = this.options.clock.monotonicMs();
    // The next process begins with what the last one wrote: that it could not is told in any case.
    const isLast = this.closing !== undefined;
    if (!isLast && nowMs - this.lastReportMs < REPORT_INTERVAL_MS) {
      this.suppressed += 1;
      return;
    }
    this.lastReportMs = nowMs;
    const { suppressed } = this;
    const left = suppressed > 0 ? { suppressed } : {};
    this.options.report("checkpoint failed", { reason: why, ...left });
    this.suppressed = 0;
  }
}

function givenUp(why: string): KvEventsError {
  return new KvEventsError("checkpoint_failed", `the checkpoint was given up: ${why}`);
}

function isCheckpointFailure(error: unknown): error is KvEventsError {
  return error instanceof KvEventsError && error.code === "checkpoint_failed";
}
