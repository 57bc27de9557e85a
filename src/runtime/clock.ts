/**
 * What it is: the seam to time: two clocks and timers, as interfaces, with the real ones.
 * Owns: nothing; a timer belongs to who holds its `Cancel`.
 * Refuses: delays that Node's timers would silently turn into 1 ms (negative, over 2^31 - 1, not
 * finite).
 * Does not do: start anything by being imported, or decide what is late.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { invariant } from "./invariant.ts";

/** Time. Both answers are milliseconds, maybe with a fraction. */
export interface Clock {
  /** Wall time since 1970. It may jump, also back: for people and logs, never for intervals. */
  nowMs(): number;
  /** Never goes back; its origin means nothing: for intervals. */
  monotonicMs(): number;
}

/** Ends a timer; a second call, or one after the timer has fired, does nothing. */
export type Cancel = () => void;

/** How a timer is kept. */
export interface TimerOptions {
  /** True = this timer does not keep the process alive. Default false. */
  readonly unref?: boolean;
}

/** Timers. An action that throws is our bug and ends the process. */
export interface Timers {
  /** Runs `action` once, not before `delayMs` have passed and never inside the call. */
  after(delayMs: number, action: () => void, options?: TimerOptions): Cancel;
  /** Runs `action` every `periodMs` (at least 1), first after one period, until cancelled. */
  every(periodMs: number, action: () => void, options?: TimerOptions): Cancel;
}

/** Node's own bound: a longer delay would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** The machine's clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** Node's timers. */
export const systemTimers: Timers = {
  after(delayMs, action, options) {
    checkDelay(delayMs, 0);
    const timer = setTimeout(action, delayMs);
    if (options?.unref === true) timer.unref();
    return () => clearTimeout(timer);
  },
  every(periodMs, action, options) {
    checkDelay(periodMs, 1);
    const timer = setInterval(action, periodMs);
    if (options?.unref === true) timer.unref();
    return () => clearInterval(timer);
  },
};

/**
 * Throws `InvariantViolation` unless a timer can wait that long. For every implementation of
 * `Timers`.
 */
export function checkDelay(delayMs: number, leastMs: number): void {
  invariant(delayMs >= leastMs && delayMs <= MAX_DELAY_MS, "a delay is within a timer's range");
}

/** Resolves in the next turn of the event loop, after timers and sockets had their chance. */
export async function yieldToEventLoop(): Promise<void> {
  await nextTurn();
}
