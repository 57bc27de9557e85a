/**
 * What it is: looks at other processes again and again until they are as claimed.
 * Owns: the bound, which is generous: it ends a hopeless test with what was seen last, it judges no speed. The time
 * limit of the tests that look here, which is longer still.
 * Refuses: nothing.
 * Does not do: wait for a guessed time.
 */
import { setTimeout as pause } from "node:timers/promises";
import { vi } from "vitest";

const LOOK_FOR_MS = 90_000;
const PAUSE_MS = 10;
const TEST_LIMIT_MS = 300_000;

vi.setConfig({ testTimeout: TEST_LIMIT_MS, hookTimeout: TEST_LIMIT_MS });

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
