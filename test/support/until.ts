/**
 * What it is: waits for what has no event to await.
 * Owns: nothing.
 * Refuses: nothing; the test's own time limit is the bound.
 * Does not do: sleep.
 */
import { setImmediate as turn } from "node:timers/promises";

/** Turns of the event loop until the claim holds. */
export async function until(claim: () => boolean): Promise<void> {
  while (!claim()) await turn();
}
