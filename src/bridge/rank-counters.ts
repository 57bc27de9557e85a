/**
 * What it is: the counters and gauges that a rank reads from its parts when somebody asks.
 * Owns: their names.
 * Refuses: nothing.
 * Does not do: count.
 */
import type { Counters } from "./counters.ts";
import type { EngineWords } from "./engine-words.ts";
import type { Mirror } from "./mirror.ts";
import type { Recomputer } from "./recomputer.ts";

/** Sets them. `words` undefined = none are kept. */
export function setRankCounters(
  counts: Counters,
  mirror: Mirror,
  words: EngineWords | undefined,
  recomputer: Recomputer,
): void {
  counts.set("removals_unknown", mirror.unknownRemovals);
  counts.set("places_forgotten", mirror.forgottenPlaces);
  if (words !== undefined) {
    counts.set("engine_words_blocks", words.blocks);
    counts.set("engine_words_bytes", words.bytes);
    counts.set("engine_words_missing", mirror.inLocalGpu - words.blocks);
  }
  const { dense, equalHash, recomputed, gone } = mirror.placedCounts;
  counts.set("entries_placed.dense", dense);
  counts.set("entries_placed.equal_hash", equalHash);
  counts.set("entries_placed.recomputed", recomputed);
  counts.set("entries_unplaced_gone", gone);
  const cost = mirror.recomputing;
  counts.set("hashes_recomputed", cost.hashes);
  counts.set("hashes_shared", cost.savedHashes);
  counts.set("hash_spans_dropped", cost.droppedSpans);
  counts.set("hash_backlog_tokens", cost.backlogTokens);
  counts.set("hash_proven", recomputer.unitTokens === undefined ? 0 : 1);
}
