// What it is: ranks of a bridge without sockets, for benches.
// Owns: nothing.
// Refuses: a batch that is refused: the bench would not measure what it says.
// Does not do: measure.
import { RankPipeline, UNSTATED_ENGINE } from "../src/bridge/dist/index.js";
import { KeyedHasher, parseDpRank, parseEpoch } from "../src/protocol/dist/index.js";
import { KEY_SEED } from "./workloads/fleet.mjs";

/** A rank whose outputs go to `emit`; nothing is stated of its engine. */
export function rankPipeline(emit) {
  const pipeline = new RankPipeline({
    dpRank: parseDpRank(0),
    engine: UNSTATED_ENGINE,
    hasher: new KeyedHasher(KEY_SEED),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => parseEpoch(1n),
    emit,
  });
  pipeline.setConnected(true);
  return pipeline;
}

/** Throws unless a rank holds so many placed blocks and nothing was refused. */
export function checkHeld(pipeline, blocks) {
  const { placedBlocks } = pipeline.describe(0);
  if (Number(placedBlocks) !== blocks) throw new Error(`${placedBlocks} blocks, not ${blocks}`);
  for (const [name, count] of pipeline.counters()) {
    if (name.startsWith("refused.") && count > 0) throw new Error(`${name}: ${count}`);
  }
}
