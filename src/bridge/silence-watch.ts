/**
 * What it is: what the silence of a live socket may mean: an idle engine, a dead one, or a deaf socket.
 * Owns: whether anything came since the last timer, whether probes found what the socket should have brought, and how
 * many probes in a row had no answer.
 * Refuses: nothing.
 * Does not do: probe, or own a timer (the gate does).
 */
import { LIMITS } from "@kv-group-bridge/protocol";

/** One a gate. */
export class SilenceWatch {
  /** A live batch came since the timer was set. */
  hasNews = false;
  /** A probe found batches that the live socket did not bring, and it has brought nothing since. */
  isDeaf = false;
  private failedProbes = 0;

  /** The engine does not answer at its replay socket, where it once did, and publishes nothing. */
  get isUnresponsive(): boolean {
    return this.failedProbes >= LIMITS.replayProbeFailures.value;
  }

  /** A live batch came. */
  heard(): void {
    this.hasNews = true;
    this.isDeaf = false;
  }

  /** A probe, or a live batch in its turn, shows that the engine lives. */
  answered(): void {
    this.failedProbes = 0;
  }

  /** A probe had no answer. A socket that never answered proves nothing about the engine. */
  unanswered(hasEverAnswered: boolean): void {
    if (hasEverAnswered && !this.hasNews) this.failedProbes += 1;
  }

  /** Begins to listen; gives how long. */
  listen(): number {
    this.hasNews = false;
    return this.isDeaf ? LIMITS.deafGraceMs.value : LIMITS.replayProbeMs.value;
  }

  /** The connection is gone: its silence means nothing. */
  reset(): void {
    this.isDeaf = false;
    this.failedProbes = 0;
  }
}
