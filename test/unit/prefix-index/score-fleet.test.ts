import { expect, test } from "vitest";
import { compileLayout } from "../../../src/prefix-index/dist/compiled-layout.js";
import {
  ALL,
  computeReuse,
  PrefixIndex,
  type RankHandle,
  type RankLayout,
  ScoreBuffer,
} from "../../../src/prefix-index/dist/index.js";
import {
  chunked,
  full,
  keysAt,
  layoutOf,
  mamba,
  PromptReader,
  range,
  runsOf,
  sliding,
  store,
} from "./layouts-and-prompts.ts";

const ROOMY = { maxNodes: 100_000, maxEntriesPerRank: 100_000 };

test("walk and books agree with lists kept by hand over random fleets", () => {
  // Goal: lists, early stop, grids and holders lose nothing. Method: the same operations on sets of
  // ends; the rules then see the full lists, without any walk.
  let state = 99;
  const random = (bound: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) % bound;
  };
  for (let round = 0; round < 200; round++) {
    const index = new PrefixIndex(ROOMY);
    const fleet: { rank: RankHandle; layout: RankLayout; held: Map<string, Set<number>> }[] = [];
    for (let step = 0; step < 120; step++) {
      const choice = random(20);
      const subject = fleet[random(Math.max(1, fleet.length))];
      if (choice === 0 || subject === undefined) {
        const layout = randomLayout(random);
        fleet.push({ rank: index.addRank(layout), layout, held: new Map() });
        continue;
      }
      const { rank, layout, held } = subject;
      const group = layout.groups[random(layout.groups.length)]?.groupId ?? 0;
      const [prompt, medium] = [random(2), random(5) === 0 ? 1 : 0];
      const place = `${group}/${medium}/${prompt}`;
      const ends = held.get(place) ?? new Set<number>();
      held.set(place, ends);
      const unit = layout.hashBlockSizeTokens;
      const run = range(unit * (1 + random(6)), unit * random(24), unit);
      if (choice === 1) {
        index.retireRank(rank);
        fleet.splice(fleet.indexOf(subject), 1);
      } else if (choice === 2) {
        index.clear(rank, group, ALL);
        for (const key of held.keys()) if (key.startsWith(`${group}/`)) held.delete(key);
      } else if (choice < 7) {
        const keys = keysAt(
          prompt,
          run.map((end) => end + layout.lookaheadTokens),
        );
        index.removeKeys(rank, group, medium, keys);
        for (const end of run) ends.delete(end);
      } else {
        store(index, rank, run, { prompt, group, medium, lookahead: layout.lookaheadTokens });
        for (const end of run) ends.add(end);
      }
    }
    index.audit();
    for (const prompt of [0, 1]) {
      const n = random(90);
      const out = new ScoreBuffer();
      index.score(new PromptReader(prompt), n, out);
      expect(out.count).toBe(fleet.length);
      for (let line = 0; line < out.count; line++) {
        const subject = fleet.find(({ rank }) => rank === out.rankAt(line));
        const layout = subject?.layout ?? layoutOf([full(1)]);
        const lists = layout.groups.map(({ groupId }) => {
          const ends = [...(subject?.held.get(`${groupId}/0/${prompt}`) ?? [])];
          return ends.sort((a, b) => a - b);
        });
        const compiled = compileLayout(layout);
        const want = { reusableTokens: -1, limitingGroupId: -1 };
        computeReuse(compiled, n, runsOf(compiled, lists), want);
        const got = {
          reusableTokens: out.reusableTokensAt(line),
          limitingGroupId: out.limitingGroupIdAt(line),
        };
        expect(got, JSON.stringify({ layout, n })).toEqual(want);
      }
    }
  }
});

function randomLayout(random: (bound: number) => number): RankLayout {
  const drops = random(3) === 0;
  const lookaheadTokens = random(3);
  if (random(3) === 0) {
    const specs = [full(8, { dropsBlock: drops }), sliding(2, 1 + random(9)), mamba(8)];
    return layoutOf(random(2) === 0 ? specs : specs.slice(0, 1), {
      coordinator: "hybrid",
      hashBlockSizeTokens: 2,
      isFine: true,
      lookaheadTokens,
    });
  }
  const block = [2, 4][random(2)] ?? 2;
  const all = [
    full(block, { dropsBlock: drops }),
    full(4, { dropsBlock: drops }),
    sliding(2, 1 + random(12), { dropsBlock: drops }),
    mamba(4),
  ];
  const specs = all.filter(() => random(2) === 0);
  if (random(6) === 0) return layoutOf([full(4), chunked(4, 8)]);
  return layoutOf(specs.length === 0 ? [full(4)] : specs, {
    lookaheadTokens,
    eagleBound: random(2) === 0 ? "hash_end" : "last_token",
  });
}
