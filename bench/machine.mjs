// What it is: what figures were measured on.
// Owns: nothing.
// Refuses: nothing.
// Does not do: measure.
import { spawnSync } from "node:child_process";
import { availableParallelism, cpus, loadavg } from "node:os";

/** Processor, cores, Node version, commit and load of this moment. Figures without it mean nothing. */
export function machine() {
  const head = spawnSync("git", ["rev-parse", "--short=10", "HEAD"], { encoding: "utf8" });
  return {
    processor: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    node: process.version,
    commit: head.status === 0 ? head.stdout.trim() : "unknown",
    load: loadavg().map((load) => Number(load.toFixed(1))),
  };
}
