/**
 * What it is: the bounds of checkpoints.
 * Owns: the numbers.
 * Refuses: nothing.
 * Does not do: read configuration; see limits.ts.
 */
import { type Limit, limit } from "./limit.ts";

/** Part of `LIMITS`. */
export const CHECKPOINT_LIMITS = {
  checkpointBytes: limit(
    384 * 1024 * 1024,
    "bytes",
    "mirrorBlocks and historyBlocks at 80 bytes each; a typical rank has 50 MB",
    "no checkpoint is written, an older one stays; a larger file is refused as checkpoint_too_large",
  ),
  checkpointIntervalMs: limit(
    60_000,
    "milliseconds",
    "a process that dies without notice loses so much; the engine's replay buffer brings it back",
    "the next checkpoint may be written",
  ),
  checkpointPieceBlocks: limit(
    4_096,
    "blocks",
    "a few milliseconds",
    "the piece is written and the loop yields to the event loop once",
  ),
  checkpointFinalMs: limit(
    8_000,
    "milliseconds",
    "time of the last checkpoint at the end of a process; below the 30 s that a pod is given",
    "it is given up, and the one before it stays",
  ),
} as const satisfies Record<string, Limit>;
