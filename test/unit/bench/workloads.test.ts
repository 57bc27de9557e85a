// Goal: the workloads are those that other implementations were measured with. Small fleets go through the index too, so
// that the events say what the lists say.
import { describe, expect, test } from "vitest";
import {
  Chain,
  check as checkFleet,
  type Fleet,
  type FleetEvent,
  KEY_SEED,
  layoutOf,
  OnePrompt,
  type Variant,
} from "../../../bench/workloads/fleet.mjs";
import { check as checkPayloads } from "../../../bench/workloads/payloads.mjs";
import { check as checkPinned, GivenKeys } from "../../../bench/workloads/pinned.mjs";
import { PromptKeys } from "../../../src/gateway/dist/prompt-keys.js";
import { PrefixIndex, type RankHandle, ScoreBuffer } from "../../../src/prefix-index/dist/index.js";
import { KeyedHasher } from "../../../src/protocol/dist/index.js";

const LIMITS = { maxNodes: 2_000_000, maxEntriesPerRank: 1_000_000 };

class Filled {
  readonly index = new PrefixIndex(LIMITS);
  readonly ranks: readonly RankHandle[];
  private readonly scores = new ScoreBuffer();
  private readonly keys = new PromptKeys(new KeyedHasher(KEY_SEED));

  constructor(source: Pick<Fleet, "workers" | "batches">, variant: Variant) {
    this.ranks = Array.from({ length: source.workers }, () =>
      this.index.addRank(layoutOf(variant)),
    );
    this.apply(source.batches(variant));
  }

  apply(batches: Iterable<readonly FleetEvent[]>): number {
    let changed = 0;
    for (const event of [...batches].flat()) {
      const rank = this.ranks[event.worker];
      if (rank === undefined) throw new TypeError("a worker is of the fleet");
      const { groupId, keys } = event;
      changed +=
        event.type === "store"
          ? this.index.storeRun(rank, groupId, 0, keys, event.endTokens, event.stepTokens).stored
          : this.index.removeKeys(rank, groupId, 0, keys).removed;
    }
    return changed;
  }

  /** The deepest answer in tokens, how many workers have it, how many have any. */
  ask(tokens: Uint32Array): readonly number[] {
    this.keys.begin({ tokens });
    this.index.score(this.keys, tokens.length, this.scores);
    const answers = this.ranks.map((_, line) => this.scores.reusableTokensAt(line));
    const deepest = Math.max(...answers);
    const any = answers.filter((answer) => answer > 0).length;
    return [deepest, answers.filter((answer) => answer === deepest).length, any];
  }
}

describe("fleet", () => {
  test.each([1, 16, 64, 1_000])("%i workers hold what other implementations count", (workers) => {
    expect(checkFleet(workers).workers).toBe(workers);
  });

  test.each([1, 16])("the events of %i workers are what the lists say", (workers) => {
    const fleet = checkFleet(workers);
    const filled = new Filled(fleet, "a");
    const { entries, nodes } = filled.index.gauges();
    expect({ entries, distinct: nodes }).toEqual(fleet.counts);
    const first = fleet.firstAnswer(0);
    const second = fleet.secondAnswer(0);
    expect(filled.ask(fleet.firstQuery(0))).toEqual([16_384, first.workers, first.holders]);
    // The engine recomputes the last token, so that a whole hit is a block less.
    expect(filled.ask(fleet.secondQuery(0))).toEqual([65_520, second.workers, second.holders]);
    expect(filled.ask(fleet.mixedQuery(9))).toEqual([0, workers, 0]);
  });

  test.each<[Variant, number]>([
    ["b", 64_512],
    ["c", 65_520],
    ["d", 64_512],
  ])(
    "variant %s answers as its groups allow, and its removals meet what is held",
    (variant, whole) => {
      const fleet = checkFleet(1);
      const filled = new Filled(fleet, variant);
      expect(filled.ask(fleet.firstQuery(0))).toEqual([16_384, 1, 1]);
      expect(filled.ask(fleet.secondQuery(0))).toEqual([whole, 1, 1]);
      const removals = [...fleet.removals(variant)];
      const named = removals.flat().reduce((sum, { keys }) => sum + keys.length / 8, 0);
      expect(filled.apply(removals)).toBe(named);
      const holes = [...fleet.holes()];
      expect(holes.length).toBeGreaterThan(0);
      const before = filled.index.gauges().entries;
      expect(filled.apply(holes) / before).toBeCloseTo(0.02, 1);
      filled.index.audit();
    },
  );

  test("one prompt to different depths, or by all, of any length", () => {
    const depths = new OnePrompt(16, "depths", 256);
    expect(new Filled(depths, "a").ask(depths.tokens)).toEqual([4_080, 1, 16]);
    const all = new OnePrompt(3, "all", 256);
    expect(new Filled(all, "b").ask(all.tokens)).toEqual([3_072, 3, 3]);
    expect(new Chain(65_536, 400_000, undefined).tokens.length).toBe(2 ** 20);
  });
});

test.each(["pinned", "fragmented"])("a hundredth of the %s stream has its sizes", (profile) => {
  const stream = checkPinned(profile, 100_000);
  const index = new PrefixIndex(LIMITS);
  const layout = layoutOf("a");
  const ranks = Array.from({ length: stream.holders }, () => index.addRank(layout));
  for (const event of stream.events()) {
    const rank = ranks[event.worker];
    if (rank === undefined) throw new TypeError("a holder is one of the stream");
    if (event.type === "remove") index.removeKeys(rank, 0, 0, event.keys);
    else index.storeRun(rank, 0, 0, event.keys, event.endTokens, event.stepTokens);
  }
  expect(index.gauges().entries).toBe(stream.sizes.resident);
  const [prompt] = stream.queries(10).gate;
  const keys = new GivenKeys();
  if (prompt === undefined) throw new TypeError("one family is large enough");
  keys.begin(prompt);
  const scores = new ScoreBuffer();
  index.score(keys, (prompt.length / 8) * 16, scores);
  const holding = ranks.filter((_, line) => scores.reusableTokensAt(line) > 0);
  expect(holding.length).toBe(64);
});

test("payloads are as large as those that decoders were measured with", () => {
  checkPayloads(100);
});
