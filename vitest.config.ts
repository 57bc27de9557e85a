import { defineConfig } from "vitest/config";

// Child processes, never threads: a thread that ends while a ZeroMQ receive is pending aborts the process.
export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 2,
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
    allowOnly: false,
    sequence: { shuffle: false },
  },
});
