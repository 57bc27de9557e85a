/**
 * What it is: a clock and timers that move only when a test says so.
 * Owns: the time and the pending timers.
 * Refuses: to go back; more than a million timer runs in one `advance` (a timer that re-arms itself
 * at 0).
 * Does not do: run promises: a test that has some must await them itself.
 */
import {
  type Cancel,
  type Clock,
  checkDelay,
  invariant,
  type Timers,
} from "@kv-group-bridge/runtime";

interface Pending {
  dueMs: number;
  /** Order of arming; equal due times fire in this order, as Node's do. */
  order: number;
  readonly periodMs: number | undefined;
  readonly action: () => void;
}

const MAX_RUNS = 1_000_000;

/** `Clock` and `Timers` in one; both start at `startMs`. */
export class VirtualClock implements Clock, Timers {
  private elapsedMs = 0;
  private readonly startMs: number;
  private wallShiftMs = 0;
  private armed = 0;
  private readonly pending = new Set<Pending>();

  constructor(startMs = 1_700_000_000_000) {
    this.startMs = startMs;
  }

  /** Wall time: start + what was advanced + what `jumpWall` added. */
  nowMs(): number {
    return this.startMs + this.elapsedMs + this.wallShiftMs;
  }

  /** What was advanced since the construction. */
  monotonicMs(): number {
    return this.elapsedMs;
  }

  /** Moves wall time alone, also back. */
  jumpWall(byMs: number): void {
    this.wallShiftMs += byMs;
  }

  /** Timers that would still fire. */
  get pendingTimers(): number {
    return this.pending.size;
  }

  after(delayMs: number, action: () => void): Cancel {
    checkDelay(delayMs, 0);
    return this.arm({ dueMs: this.elapsedMs + delayMs, order: 0, periodMs: undefined, action });
  }

  every(periodMs: number, action: () => void): Cancel {
    checkDelay(periodMs, 1);
    return this.arm({ dueMs: this.elapsedMs + periodMs, order: 0, periodMs, action });
  }

  /**
   * Moves time by `byMs`, running each timer that falls due, in order, with the clock at its due
   * time. Timers armed meanwhile run too when they fall due within the span.
   */
  advance(byMs: number): void {
    invariant(byMs >= 0, "time goes forward");
    const targetMs = this.elapsedMs + byMs;
    for (let runs = 0; ; runs++) {
      const next = this.nextDue(targetMs);
      if (next === undefined) break;
      invariant(runs < MAX_RUNS, "timers come to rest");
      this.elapsedMs = next.dueMs;
      this.pending.delete(next);
      if (next.periodMs !== undefined) this.rearm(next, next.periodMs);
      next.action();
    }
    this.elapsedMs = targetMs;
  }

  private arm(timer: Pending): Cancel {
    timer.order = this.armed++;
    this.pending.add(timer);
    return () => {
      this.pending.delete(timer);
    };
  }

  private rearm(timer: Pending, periodMs: number): void {
    timer.dueMs += periodMs;
    timer.order = this.armed++;
    this.pending.add(timer);
  }

  private nextDue(targetMs: number): Pending | undefined {
    let best: Pending | undefined;
    for (const timer of this.pending) {
      if (timer.dueMs > targetMs) continue;
      const isEarlier =
        best === undefined ||
        timer.dueMs < best.dueMs ||
        (timer.dueMs === best.dueMs && timer.order < best.order);
      if (isEarlier) best = timer;
    }
    return best;
  }
}
