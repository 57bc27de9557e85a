/**
 * What it is: the time limit of tests with real processes; importing it sets it.
 * Owns: one number, longer than several of the bounds in eventually.ts, so that those speak first.
 * Refuses: nothing.
 * Does not do: judge speed.
 */
import { vi } from "vitest";

const TEST_LIMIT_MS = 300_000;

vi.setConfig({ testTimeout: TEST_LIMIT_MS, hookTimeout: TEST_LIMIT_MS });
