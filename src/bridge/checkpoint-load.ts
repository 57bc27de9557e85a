/**
 * What it is: the first step of a rank that has a directory for checkpoints: the file of an earlier process, or why it
 * is not taken.
 * Owns: nothing.
 * Refuses: nothing by throwing: a rank without a checkpoint begins anew.
 * Does not do: prove that the engine is the same one (the sequence gate does).
 */
import { KvEventsError } from "@kv-group-bridge/protocol";
import type { Log } from "@kv-group-bridge/runtime";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { type Checkpoint, type ExpectedCheckpoint, readCheckpoint } from "./checkpoint-reader.ts";

/** A sound checkpoint; undefined = none, or refused, with one line in the log that says why. */
export async function loadCheckpoint(
  file: Pick<CheckpointFile, "read">,
  expected: ExpectedCheckpoint,
  log: Log,
): Promise<Checkpoint | undefined> {
  let bytes: Uint8Array | undefined;
  try {
    bytes = await file.read();
  } catch (error) {
    if (!(error instanceof KvEventsError) || error.code !== "checkpoint_failed") throw error;
    log.warn({ reason: error.message }, "checkpoint not read: the rank begins anew");
    return undefined;
  }
  if (bytes === undefined) {
    log.info({}, "no checkpoint: the rank begins anew");
    return undefined;
  }
  const read = readCheckpoint(bytes, expected);
  if (!read.ok) {
    log.warn({ ...read.error }, "checkpoint refused: the rank begins anew");
    return undefined;
  }
  const { head, blockCount } = read.value;
  const { writtenAtMs } = head;
  log.info({ blocks: blockCount, writtenAtMs }, "checkpoint read: the engine must prove itself");
  return read.value;
}
