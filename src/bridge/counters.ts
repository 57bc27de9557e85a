/**
 * What it is: named counters of one rank.
 * Owns: the numbers. Names come from closed lists of the callers.
 * Refuses: nothing.
 * Does not do: expose metrics (the process collects these at scrape time).
 */

/** Monotonic counters and a few gauges; they stay at 2^53 − 1. */
export class Counters {
  private readonly values = new Map<string, number>();

  /** Adds to a counter. */
  add(name: string, amount = 1): void {
    const sum = (this.values.get(name) ?? 0) + amount;
    this.values.set(name, Math.min(sum, Number.MAX_SAFE_INTEGER));
  }

  /** Sets a gauge. */
  set(name: string, value: number): void {
    this.values.set(name, value);
  }

  /** A value; 0 when never touched. */
  get(name: string): number {
    return this.values.get(name) ?? 0;
  }

  /** All values by name. */
  all(): ReadonlyMap<string, number> {
    return this.values;
  }
}
