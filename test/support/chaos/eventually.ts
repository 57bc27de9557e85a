/**
 * What it is: looks at other processes again and again until they are as claimed.
 * Owns: the bound, which is generous: it ends a hopeless test with what was seen last, and judges no speed.
 * Refuses: nothing.
 * Does not do: wait for a guessed time.
 */
import { setTimeout as pause } from "node:timers/promises";

const LOOK_FOR_MS = 90_000;
const PAUSE_MS = 10;

/** Resolves when `look` gives undefined; what else it gives is what is still missing. */
export async function eventually(
  goal: string,
  look: () => Promise<string | undefined> | string | undefined,
): Promise<void> {
  const deadline = performance.now() + LOOK_FOR_MS;
  for (;;) {
    const missing = await look();
    if (missing === undefined) return;
    if (performance.now() > deadline) throw new Error(`${goal}: ${missing}`);
    await pause(PAUSE_MS);
  }
}
