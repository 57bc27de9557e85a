/**
 * What it is: lets the first of equal log lines through, then one each minute with the number left out.
 * Owns: when each key was said last. Bounded: a key beyond the bound shares one slot with all further ones.
 * Refuses: nothing.
 * Does not do: log or format.
 */

/** Repeats within this time are counted, not said. */
export const REPEAT_PERIOD_MS = 60_000;
const MAX_KEYS = 256;
const OTHER = "other";

/** One filter for one source of lines. */
export class RepeatFilter {
  private readonly slots = new Map<string, { saidMs: number; leftOut: number }>();

  /** How many equal lines were left out since the last one, when this one is to be said; else undefined. */
  step(key: string, nowMs: number): number | undefined {
    const isKnown = this.slots.has(key) || this.slots.size < MAX_KEYS;
    const slotKey = isKnown ? key : OTHER;
    const slot = this.slots.get(slotKey);
    if (slot === undefined) {
      this.slots.set(slotKey, { saidMs: nowMs, leftOut: 0 });
      return 0;
    }
    if (nowMs - slot.saidMs < REPEAT_PERIOD_MS) {
      slot.leftOut++;
      return undefined;
    }
    const { leftOut } = slot;
    slot.saidMs = nowMs;
    slot.leftOut = 0;
    return leftOut;
  }
}
