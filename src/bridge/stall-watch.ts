/**
 * What it is: tells whether this process has been running of late. A process that stood still (SIGSTOP, a suspended
 * machine, a very long turn) does not know yet what its sockets would have told it meanwhile.
 * Owns: when it was last seen running, and until when it must not claim anything.
 * Refuses: nothing.
 * Does not do: own a timer; `turn` is for one outside.
 */
import { LIMITS } from "@kv-group-bridge/protocol";

/** One a process. Times are monotonic milliseconds. */
export class StallWatch {
  private lastTurnMs: number;
  private awakeFromMs: number;
  /** `isAwake` as of the last turn. */
  isKnownAwake = true;

  constructor(nowMs: number) {
    this.lastTurnMs = nowMs;
    this.awakeFromMs = nowMs;
  }

  /** The process runs; at least every `LIMITS.stallMs` / 2. Returns how long it stood still; 0 = it did not. */
  turn(nowMs: number): number {
    const stalledMs = this.isStalled(nowMs) ? nowMs - this.lastTurnMs : 0;
    if (stalledMs > 0) this.awakeFromMs = nowMs + LIMITS.wakeGraceMs.value;
    this.lastTurnMs = nowMs;
    this.isKnownAwake = this.isAwake(nowMs);
    return stalledMs;
  }

  /** False from the end of a stall until the sockets had their time to speak. */
  isAwake(nowMs: number): boolean {
    return !this.isStalled(nowMs) && nowMs >= this.awakeFromMs;
  }

  private isStalled(nowMs: number): boolean {
    return nowMs - this.lastTurnMs > LIMITS.stallMs.value;
  }
}
