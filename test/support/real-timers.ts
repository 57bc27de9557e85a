/**
 * What it is: a real clock and real timers for end-to-end tests.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: simulate (unit tests pass their own).
 */

/** Monotonic and wall time of this machine. */
export const realClock = {
  nowMs: (): number => Date.now(),
  monotonicMs: (): number => performance.now(),
};

/** Timers of this machine. */
export const realTimers = {
  after(delayMs: number, action: () => void): () => void {
    const timer = setTimeout(action, delayMs);
    return () => clearTimeout(timer);
  },
  every(periodMs: number, action: () => void): () => void {
    const timer = setInterval(action, periodMs);
    return () => clearInterval(timer);
  },
};
