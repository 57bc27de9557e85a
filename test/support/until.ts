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

/** So many turns of the event loop: room for what must not happen to happen. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}
