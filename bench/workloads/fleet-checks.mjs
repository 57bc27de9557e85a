// What it is: numbers of workload W1 that other implementations have too, and the comparison with them.
// Owns: the numbers.
// Refuses: a generator that gives others: `check` throws.
// Does not do: index anything.
import { Draws, SEED, tokenOf } from "./chain.mjs";
import { Fleet } from "./fleet-lists.mjs";
import { EVENT_BLOCKS } from "./variants.mjs";

/** Numbers that two Rust trees, a Go index and a prototype agreed on. */
export const CHECKS = {
  tokens: [
    [1, 0, 71_378],
    [1, 1, 90_307],
    [1, 2, 98_691],
    [1, 3, 15_654],
    [1_000, 2_048, 25_645],
    [1_000, 2_049, 115_225],
    [1_000, 2_050, 45_828],
    [200_000, 0, 22_767],
  ],
  draws: [1_711_585_030, 442_447_561, 3_700_069_629],
  /** By workers: store events of variant a, entries, different blocks. */
  sizes: {
    1: [1_399, 88_489, 88_489],
    16: [14_295, 901_361, 262_265],
    64: [32_865, 2_053_715, 780_627],
    1000: [104_041, 6_550_689, 1_363_133],
  },
  /** By workers: query number, deepest block, workers that have it, workers with any. */
  first: {
    16: [
      [0, 1_024, 2, 7],
      [100_000, 1_024, 2, 8],
      [200_000, 1_024, 1, 10],
    ],
    64: [
      [0, 1_024, 3, 33],
      [100_000, 1_024, 3, 30],
      [200_000, 1_024, 1, 31],
    ],
    1000: [
      [0, 1_024, 1, 466],
      [100_000, 1_024, 1, 480],
      [200_000, 1_024, 3, 511],
    ],
  },
  second: {
    16: [[0, 4_096, 8, 14]],
    64: [[0, 4_096, 8, 31]],
    1000: [[0, 4_096, 8, 489]],
  },
};

/** Throws unless the generator gives the numbers of `CHECKS` for this many workers. */
export function check(workers = 16) {
  const differ = (what, found, wanted) => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`fleet of ${workers}: ${what} are ${a}, not ${b}`);
  };
  for (const [stream, i, token] of CHECKS.tokens) differ("tokens", tokenOf(stream, i), token);
  const draws = new Draws(SEED + 1_000);
  differ(
    "draws",
    CHECKS.draws.map(() => draws.next()),
    CHECKS.draws,
  );
  const fleet = new Fleet(workers);
  const sizes = CHECKS.sizes[workers];
  if (sizes !== undefined) {
    let events = 0;
    for (let worker = 0; worker < workers; worker++) {
      for (const { from, to } of fleet.pieces(worker))
        events += Math.ceil((to - from) / EVENT_BLOCKS);
    }
    differ("sizes", [events, fleet.counts.entries, fleet.counts.distinct], sizes);
  }
  const answers = (list = [], answer) => {
    for (const [q, blocks, holders, any] of list) {
      const found = answer(q);
      differ("answers", [found.blocks, found.workers, found.holders], [blocks, holders, any]);
    }
  };
  answers(CHECKS.first[workers], (q) => fleet.firstAnswer(q));
  answers(CHECKS.second[workers], (q) => fleet.secondAnswer(q));
  return fleet;
}
