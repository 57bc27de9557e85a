/**
 * What it is: the timers of one simulated process, which can be paused or die with it.
 * Owns: the timers armed through it, and what fell due while it was paused.
 * Refuses: nothing.
 * Does not do: keep time (the virtual clock does).
 */
import type { Cancel, Clock, Timers } from "@kv-group-bridge/runtime";

/** Timers and inbox of one process. */
export class HostTimers implements Timers {
  private readonly world: Timers & Clock;
  private readonly armed = new Set<Cancel>();
  private waiting: (() => void)[] = [];
  private isPaused = false;
  private isDead = false;

  private readonly afterEach: () => void;

  /** `afterEach`: done after everything that the process does. */
  constructor(world: Timers & Clock, afterEach: () => void = () => {}) {
    this.world = world;
    this.afterEach = afterEach;
  }

  after(delayMs: number, action: () => void): Cancel {
    let isCancelled = false;
    const cancel = this.world.after(delayMs, () => {
      this.armed.delete(cancel);
      this.run(() => {
        if (!isCancelled) action();
      });
    });
    this.armed.add(cancel);
    return () => {
      isCancelled = true;
      this.armed.delete(cancel);
      cancel();
    };
  }

  every(periodMs: number, action: () => void): Cancel {
    let isCancelled = false;
    const cancel = this.world.every(periodMs, () =>
      this.run(() => {
        if (!isCancelled) action();
      }),
    );
    this.armed.add(cancel);
    return () => {
      isCancelled = true;
      this.armed.delete(cancel);
      cancel();
    };
  }

  /** Does it now, when the process goes on, or never when it is dead. */
  run(action: () => void): void {
    if (this.isDead) return;
    if (this.isPaused) {
      this.waiting.push(action);
      return;
    }
    action();
    this.afterEach();
  }

  /** The process stops (SIGSTOP). */
  pause(): void {
    this.isPaused = true;
  }

  /** The process goes on: first everything that waits, in order. */
  resume(): void {
    this.isPaused = false;
    const { waiting } = this;
    this.waiting = [];
    for (const action of waiting) this.run(action);
  }

  /** The process dies. */
  kill(): void {
    this.isDead = true;
    this.waiting = [];
    for (const cancel of this.armed) cancel();
    this.armed.clear();
  }
}
