/**
 * What it is: what a gate makes of an engine's silence: when to probe, whether probes are answered, and whether the live
 * socket is deaf.
 * Owns: those facts, from one probe to the next.
 * Refuses: nothing.
 * Does not do: ask, or keep time (the gate's timer does).
 */
import { LIMITS } from "@kv-group-bridge/protocol";

/** One a gate. */
export class SilenceWatch {
  /** The live socket has brought something since the timer was set. */
  hasNews = false;
  /** A probe found batches that the live socket did not bring. */
  isDeaf = false;
  private failedProbes = 0;

  /** The live socket has brought something. */
  heard(): void {
    this.hasNews = true;
    this.isDeaf = false;
  }

  /** The engine lives. */
  engineAnswered(): void {
    this.failedProbes = 0;
  }

  /** A probe had no end. A replay socket that never answered proves nothing about the engine. */
  probeFailed(hasAnswered: boolean): void {
    if (hasAnswered && !this.hasNews) this.failedProbes += 1;
  }

  /** Out of sight: what was known of the connection is void. */
  forget(): void {
    this.isDeaf = false;
    this.failedProbes = 0;
  }

  /** Another period begins; gives its length. */
  beginPeriod(): number {
    this.hasNews = false;
    return this.isDeaf ? LIMITS.deafGraceMs.value : LIMITS.replayProbeMs.value;
  }

  /** The engine does not answer at its replay socket, where it once did, and publishes nothing. */
  get isUnresponsive(): boolean {
    return this.failedProbes >= LIMITS.replayProbeFailures.value;
  }
}
