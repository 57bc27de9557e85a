/**
 * What it is: a log for what may happen thousands of times: once per key and interval, with the
 * number left out.
 * Owns: one entry per key, at most `maxKeys`; keys beyond that share one entry, so that the number
 * of lines an interval is bounded whatever the keys are.
 * Refuses: nothing.
 * Does not do: keep time (it is passed in), or start timers: a count left out is told with the
 * key's next line.
 */
import { invariant } from "./invariant.ts";
import type { Log, LogFields } from "./log.ts";

/** Bounds and target. */
export interface RateLimitOptions {
  readonly log: Log;
  /** Least time between two lines of one key. */
  readonly intervalMs: number;
  readonly maxKeys: number;
}

interface Entry {
  lastMs: number;
  suppressed: number;
}

/** At most one line per key and interval. */
export class RateLimitedLog {
  private readonly log: Log;
  private readonly intervalMs: number;
  private readonly maxKeys: number;
  /** Least recently written first. */
  private readonly entries = new Map<string, Entry>();
  private readonly others: Entry = { lastMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
  private total = 0;

  constructor(options: RateLimitOptions) {
    invariant(options.intervalMs > 0, "an interval is positive");
    invariant(Number.isSafeInteger(options.maxKeys) && options.maxKeys > 0, "maxKeys is positive");
    this.log = options.log;
    this.intervalMs = options.intervalMs;
    this.maxKeys = options.maxKeys;
  }

  /** Keys remembered now; never above `maxKeys`. */
  get keyCount(): number {
    return this.entries.size;
  }

  /** Lines left out since the start, of all keys. */
  get suppressedTotal(): number {
    return this.total;
  }

  /**
   * Warns, or counts the line as left out; true = written. `monotonicMs` is the caller's clock. A
   * line after others were left out carries `suppressed`, their number.
   */
  warn(key: string, monotonicMs: number, fields: LogFields, message: string): boolean {
    const entry = this.entryFor(key, monotonicMs);
    if (monotonicMs - entry.lastMs < this.intervalMs) {
      entry.suppressed += 1;
      this.total += 1;
      return false;
    }
    const { suppressed } = entry;
    entry.lastMs = monotonicMs;
    entry.suppressed = 0;
    if (entry !== this.others) {
      this.entries.delete(key);
      this.entries.set(key, entry);
    }
    this.log.warn(suppressed > 0 ? { ...fields, suppressed } : fields, message);
    return true;
  }

  private entryFor(key: string, monotonicMs: number): Entry {
    const known = this.entries.get(key);
    if (known !== undefined) return known;
    if (this.entries.size >= this.maxKeys && !this.forgetOldest(monotonicMs)) return this.others;
    const entry = { lastMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
    this.entries.set(key, entry);
    return entry;
  }

  /** True when the oldest entry's interval is over: forgetting it cannot add a line. */
  private forgetOldest(monotonicMs: number): boolean {
    for (const [key, entry] of this.entries) {
      if (monotonicMs - entry.lastMs < this.intervalMs) return false;
      this.entries.delete(key);
      this.others.suppressed += entry.suppressed;
      return true;
    }
    return false;
  }
}
