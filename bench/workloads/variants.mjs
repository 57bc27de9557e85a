// What it is: the kinds of engine that a fleet may be made of, and the store events of each.
// Owns: the constants of groups; which ends of a chain a group stores.
// Refuses: nothing.
// Does not do: draw who holds what.
import { BLOCK_TOKENS } from "./chain.mjs";

/** Blocks of one store event, at most. */
export const EVENT_BLOCKS = 64;
const STATE_BLOCKS = 64;
const WINDOW_TOKENS = 1_024;
/** Blocks that a window of WINDOW_TOKENS may read, and one more. */
const WINDOW_BLOCKS = 65;

const layoutGroup = (groupId, rule, blockSizeTokens, specClass, windowTokens = 0) => ({
  groupId,
  rule,
  blockSizeTokens,
  windowTokens,
  chunkTokens: 0,
  specClass,
  dropsBlock: false,
});
const STATE_TOKENS = STATE_BLOCKS * BLOCK_TOKENS;
const FULL = { role: "full", layout: layoutGroup(0, "full", BLOCK_TOKENS, 0) };
const stateGroup = (groupId) => ({
  role: "state",
  layout: layoutGroup(groupId, "mamba", STATE_TOKENS, 1),
});
const WINDOW = {
  role: "window",
  layout: layoutGroup(2, "sliding_window", BLOCK_TOKENS, 1, WINDOW_TOKENS),
};

/** What a worker's engine is made of. `role` says which ends of a chain the group stores. */
export const VARIANTS = {
  /** Full attention alone. */
  a: { name: "full", groups: [FULL] },
  /** With one recurrent group: a state at every 64th block. */
  b: { name: "full + mamba", groups: [FULL, stateGroup(1)] },
  /** With a sliding window: the last 65 blocks of each chain. */
  c: { name: "full + window 1,024", groups: [FULL, WINDOW] },
  /** With three recurrent groups. */
  d: { name: "full + 3 mamba", groups: [FULL, stateGroup(1), stateGroup(2), stateGroup(3)] },
};

/** A variant's layout, as `PrefixIndex.addRank` takes it. `isFine`: hits end at any block, where vLLM searches so. */
export function layoutOf(variant, { isFine = false } = {}) {
  const groups = VARIANTS[variant].groups.map(({ layout }) => layout);
  return {
    groups,
    coordinator: groups.length === 1 ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: Math.max(...groups.map((group) => group.blockSizeTokens)),
    hashBlockSizeTokens: BLOCK_TOKENS,
    isFine,
    lookaheadTokens: 0,
    eagleBound: "hash_end",
    replayTokens: 0,
  };
}

/** One batch of each worker in turn, as long as any has one. */
export function* interleaved(workers, batchesOf) {
  let turns = Array.from({ length: workers }, (_, worker) => batchesOf(worker)[Symbol.iterator]());
  while (turns.length > 0) {
    const going = [];
    for (const turn of turns) {
      const { value, done } = turn.next();
      if (done) continue;
      going.push(turn);
      yield value;
    }
    turns = going;
  }
}

/** Ends, in blocks, that a group stores of the blocks from … to - 1 of a chain. */
export function endsOf(role, chainBlocks, from, to) {
  const ends = [];
  const step = role === "state" ? STATE_BLOCKS : 1;
  const first = role === "window" ? Math.max(from, chainBlocks - WINDOW_BLOCKS) : from;
  for (let end = Math.floor(first / step) * step + step; end <= to; end += step) ends.push(end);
  return ends;
}

/** Batches of one worker: a full group's run, and those of the other groups at the same blocks. */
export function* storesOf(pieces, worker, variant) {
  const { groups } = VARIANTS[variant];
  for (const { chain, from: begin, to: stop } of pieces) {
    for (let from = begin; from < stop; from += EVENT_BLOCKS) {
      const to = Math.min(from + EVENT_BLOCKS, stop);
      const batch = [];
      for (const { layout, role } of groups) {
        const run = storeRun(worker, layout, role, chain, { from, to, stop });
        if (run !== undefined) batch.push(run);
      }
      yield batch;
    }
  }
}

function storeRun(worker, layout, role, chain, { from, to, stop }) {
  const step = layout.blockSizeTokens / BLOCK_TOKENS;
  const ends = endsOf(role, stop, from, to);
  if (ends.length === 0) return undefined;
  const parent = ends[0] - step;
  return {
    type: "store",
    worker,
    groupId: layout.groupId,
    // Runs of states have one key: a chain is stored 64 blocks at a time.
    keys: step === 1 ? chain.run(ends[0] - 1, ends.at(-1)) : pick(chain, ends),
    endTokens: ends[0] * BLOCK_TOKENS,
    stepTokens: layout.blockSizeTokens,
    parentKey: parent === 0 ? NO_KEY : chain.run(parent - 1, parent),
  };
}

const NO_KEY = new Uint8Array(0);

/** Removal of the blocks that end at `ends`, in blocks. */
export function removal(worker, groupId, chain, ends) {
  return { type: "remove", worker, groupId, keys: pick(chain, ends) };
}

function pick(chain, ends) {
  if (ends.length === 1) return chain.run(ends[0] - 1, ends[0]);
  const keys = new Uint8Array(ends.length * 8);
  for (const [at, end] of ends.entries()) keys.set(chain.run(end - 1, end), at * 8);
  return keys;
}
