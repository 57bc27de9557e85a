import { describe, expect, test } from "vitest";
import { compileLayout } from "../../../src/prefix-index/dist/compiled-layout.js";
import type { RankLayout } from "../../../src/prefix-index/dist/index.js";
import { computeOwnPosition, computeReuse } from "../../../src/prefix-index/dist/reuse-rules.js";
import { chunked, full, layoutOf, mamba, range, runsOf, sliding } from "./layouts-and-prompts.ts";

function reuse(layout: RankLayout, promptTokens: number, ...ends: number[][]) {
  const out = { reusableTokens: -1, limitingGroupId: -9 };
  const compiled = compileLayout(layout);
  computeReuse(compiled, promptTokens, runsOf(compiled, ends), out);
  return out;
}

function tokens(layout: RankLayout, promptTokens: number, ...ends: number[][]): number {
  return reuse(layout, promptTokens, ...ends).reusableTokens;
}

describe("full attention", () => {
  const layout = layoutOf([full(4)]);

  test("an unbroken chain from the root counts up to the first gap", () => {
    expect(tokens(layout, 41, range(4, 40, 4))).toBe(40);
    expect(tokens(layout, 41, [4, 8, 16, 20])).toBe(8);
    expect(tokens(layout, 41, [8, 12, 16])).toBe(0);
  });

  test("the last token is always computed again, and with it its whole block", () => {
    expect(tokens(layout, 12, range(4, 12, 4))).toBe(8);
    expect(tokens(layout, 13, range(4, 12, 4))).toBe(12);
  });

  test("prompts of no or one token reuse nothing", () => {
    for (const n of [0, 1]) expect(tokens(layoutOf([full(1)]), n, [1])).toBe(0);
  });

  test("a drop gives up the last matched block, below the bound n - 1", () => {
    const eagle = layoutOf([full(4, { dropsBlock: true })]);
    expect(tokens(eagle, 21, range(4, 20, 4))).toBe(16);
    expect(tokens(eagle, 20, range(4, 20, 4))).toBe(12);
    expect(tokens(eagle, 6, [4])).toBe(0);
  });
});

describe("sliding window", () => {
  test("the window minus the current token is rounded up to whole blocks", () => {
    const need = (windowTokens: number, ...ends: number[]) =>
      tokens(layoutOf([sliding(8, windowTokens)]), 65, ends);
    expect(need(1, 40)).toBe(40);
    expect(need(9, 40)).toBe(40);
    expect(need(10, 40)).toBe(0);
    expect(need(10, 32, 40)).toBe(40);
    expect(need(17, 32, 40)).toBe(40);
    expect(need(18, 32, 40)).toBe(0);
  });

  test("an older whole window beats a newer broken one", () => {
    expect(tokens(layoutOf([sliding(4, 9)]), 60, [8, 12, 24, 32, 40])).toBe(12);
  });

  test("a run that reaches the root needs no whole window", () => {
    expect(tokens(layoutOf([sliding(4, 100)]), 60, [4, 8, 12])).toBe(12);
    expect(tokens(layoutOf([sliding(4, 100)]), 60, [8, 12])).toBe(0);
  });

  test("a window that ends off the scheduler grid does not count", () => {
    const layout = layoutOf([full(8), sliding(4, 5)]);
    expect(tokens(layout, 40, range(8, 32, 8), [12, 28])).toBe(0);
    expect(tokens(layout, 40, range(8, 32, 8), [16, 28])).toBe(16);
  });

  test("a drop needs one block more and gives it up", () => {
    const eagle = layoutOf([sliding(4, 5, { dropsBlock: true })]);
    expect(tokens(eagle, 30, [20, 24])).toBe(20);
    expect(tokens(eagle, 30, [24])).toBe(0);
  });

  test("a short run from the root is rounded before and after its drop: one S is lost", () => {
    // S = 8; blocks 4 ... 12 reach the root but are fewer than the window and the dropped block.
    const eagle = layoutOf([full(8), sliding(4, 41, { dropsBlock: true })]);
    expect(tokens(eagle, 40, range(8, 32, 8), [4, 8, 12])).toBe(0);
    expect(tokens(eagle, 40, range(8, 32, 8), [4, 8, 12, 16, 20])).toBe(8);
  });
});

describe("mamba", () => {
  test("a state counts where it ends, whatever is missing before it", () => {
    const layout = layoutOf([mamba(8)]);
    expect(tokens(layout, 60, [16, 40])).toBe(40);
    expect(tokens(layout, 40, [16, 40])).toBe(16);
    expect(tokens(layout, 16, [16])).toBe(0);
  });

  test("two mamba groups need one common state", () => {
    const layout = layoutOf([mamba(8), mamba(8)]);
    expect(tokens(layout, 90, [8, 24, 64], [16, 24, 72])).toBe(24);
  });
});

describe("chunked local", () => {
  test("the start of a chunk needs no entry", () => {
    const layout = layoutOf([chunked(4, 16)]);
    expect(tokens(layout, 33, [])).toBe(32);
    expect(tokens(layout, 32, [])).toBe(16);
  });

  test("blocks extend it from the chunk's start only, without a gap", () => {
    const layout = layoutOf([chunked(4, 16)]);
    expect(tokens(layout, 31, [20, 24])).toBe(24);
    expect(tokens(layout, 31, [24, 28])).toBe(16);
    expect(tokens(layout, 31, [4, 8, 12, 20])).toBe(20);
  });

  test("a full group bounds it to that group's chunk", () => {
    const layout = layoutOf([full(4), chunked(4, 16)]);
    expect(tokens(layout, 60, range(4, 24, 4), [])).toBe(16);
    expect(tokens(layout, 60, range(4, 24, 4), [20])).toBe(20);
  });
});

describe("the joint search", () => {
  test("the answer can be below every group's own maximum", () => {
    const layout = layoutOf([full(4), sliding(4, 9), mamba(4)]);
    const ends = [range(4, 48, 4), [8, 12, 28, 32, 40, 44], [12, 24, 48]];
    expect(reuse(layout, 60, ...ends)).toEqual({ reusableTokens: 12, limitingGroupId: 1 });
    const compiled = compileLayout(layout);
    const runs = runsOf(compiled, ends);
    const own = ends.map((_, group) => computeOwnPosition(compiled, 60, group, runs));
    expect(own).toEqual([48, 44, 48]);
  });

  test("groups of one spec need their ends in common, groups of two specs a position", () => {
    const shared = { specClass: 0 };
    const one = layoutOf([full(4, shared), full(4, shared)]);
    expect(tokens(one, 40, [4, 8, 12], [4, 8])).toBe(8);
    // Fine mode, where it matters: each spec may have its own partial entry.
    const fine = { isFine: true, hashBlockSizeTokens: 2 };
    const equal = layoutOf([full(8, shared), full(8, shared), mamba(8, { specClass: 1 })], fine);
    const unequal = layoutOf([full(8), full(8), mamba(8)], fine);
    const ends = [[6], [4], [4]];
    expect([tokens(equal, 9, ...ends), tokens(unequal, 9, ...ends)]).toEqual([0, 4]);
  });

  test("a private group's block size enters the alignment through S", () => {
    const layout = layoutOf([full(4)], { coordinator: "hybrid", schedulerBlockSizeTokens: 20 });
    expect(tokens(layout, 39, range(4, 36, 4))).toBe(20);
  });

  test("a replay window swallows short answers and credits longer ones whole", () => {
    const layout = layoutOf([full(4)], { coordinator: "hybrid", replayTokens: 12 });
    expect(tokens(layout, 13, range(4, 40, 4))).toBe(0);
    expect(tokens(layout, 17, range(4, 40, 4))).toBe(16);
  });

  test("nobody limits a prompt that is held as far as it can be", () => {
    const layout = layoutOf([full(4), mamba(8)]);
    expect(reuse(layout, 30, range(4, 28, 4), [24])).toEqual({
      reusableTokens: 24,
      limitingGroupId: -1,
    });
    expect(reuse(layout, 30, [4, 8], [8]).limitingGroupId).toBe(0);
  });

  test("full groups are searched first, wherever they stand", () => {
    const layout = layoutOf([mamba(4), full(4)]);
    expect(reuse(layout, 41, [8, 40], range(4, 16, 4))).toEqual({
      reusableTokens: 8,
      limitingGroupId: 0,
    });
  });
});

describe("fine mode", () => {
  const fine = { isFine: true, hashBlockSizeTokens: 4 };
  const layout = layoutOf([full(16), mamba(16)], fine);

  test("an entry inside the next block extends the chain of full blocks", () => {
    expect(tokens(layout, 40, [16, 24], [24])).toBe(24);
    expect(tokens(layout, 40, [16, 20, 28], [20])).toBe(20);
  });

  test("a full block that ends beyond the bound does not cover a state inside it", () => {
    expect(tokens(layout, 32, [16, 32], [24])).toBe(0);
    expect(tokens(layout, 33, [16, 32], [24])).toBe(24);
  });

  test("a drop gives up one hash unit, with a margin of one hash unit", () => {
    const eagle = layoutOf([full(16, { dropsBlock: true }), mamba(16)], fine);
    expect(tokens(eagle, 40, [16, 32], [28])).toBe(28);
    expect(tokens(eagle, 40, [16, 32], [32])).toBe(0);
  });
});

describe("EAGLE drop in a hybrid", () => {
  const both = layoutOf([full(4, { dropsBlock: true }), sliding(4, 5, { dropsBlock: true })]);

  test("the last hash end bounds the margin; up to vLLM 0.23 it was n - 1", () => {
    const old: RankLayout = { ...both, eagleBound: "last_token" };
    const ends = [range(4, 32, 4), range(4, 32, 4)];
    expect(tokens(both, 32, ...ends)).toBe(28);
    expect(tokens(old, 32, ...ends)).toBe(24);
  });

  test("the second class drops back onto the first one's candidate", () => {
    expect(tokens(both, 40, range(4, 32, 4), [28, 32])).toBe(28);
    expect(tokens(both, 40, range(4, 32, 4), [24, 28])).toBe(24);
  });

  test("a class that does not drop and lowers the candidate lets the others drop again", () => {
    const layout = layoutOf([
      full(4, { dropsBlock: true }),
      sliding(4, 5, { dropsBlock: true }),
      mamba(4),
    ]);
    // At 16 the window needs 16 and the block after it.
    expect(tokens(layout, 40, range(4, 32, 4), [12, 16, 28, 32], [16])).toBe(0);
    expect(tokens(layout, 40, range(4, 32, 4), [16, 20, 28, 32], [16])).toBe(16);
  });

  test("a marked mamba class does not let the others drop again at its first search", () => {
    const layout = layoutOf([
      full(4, { dropsBlock: true }),
      sliding(4, 5, { dropsBlock: true }),
      mamba(4, { dropsBlock: true }),
    ]);
    expect(tokens(layout, 40, range(4, 32, 4), [16, 28, 32], [16])).toBe(16);
  });

  test("one full class and one other make exactly one pass", () => {
    // With W = 1 the drop needs only block 8, but a search without a drop needs block 4.
    const layout = layoutOf([full(4), sliding(4, 1, { dropsBlock: true })]);
    const three = layoutOf([full(4), sliding(4, 1, { dropsBlock: true }), mamba(4)]);
    expect(tokens(layout, 40, [4, 8], [8])).toBe(4);
    expect(tokens(three, 40, [4, 8], [8], [4])).toBe(0);
  });

  test("look-ahead hashes end at n - L and nothing drops", () => {
    const ahead: RankLayout = { ...both, lookaheadTokens: 3 };
    const ends = [range(4, 40, 4), range(4, 40, 4)];
    expect(tokens(ahead, 31, ...ends)).toBe(28);
    expect(tokens(ahead, 30, ...ends)).toBe(24);
    expect(reuse(ahead, 30, ...ends).limitingGroupId).toBe(-1);
    expect(tokens(ahead, 2, ...ends)).toBe(0);
  });
});

test("without drops and partial entries it is the largest position that all accept", () => {
  // Method: random caches of one to four groups against the closed form, which has no passes.
  let state = 12345;
  const random = (bound: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % bound;
  };
  for (let round = 0; round < 4000; round++) {
    const specs = Array.from({ length: 1 + random(4) }, () => {
      const block = [2, 4, 6][random(3)] ?? 2;
      return [full(block), sliding(block, 1 + random(14)), mamba(block)][random(3)] ?? full(2);
    });
    const layout = layoutOf(specs);
    const n = random(80);
    const ends = specs.map((spec) =>
      range(spec.blockSizeTokens, 84, spec.blockSizeTokens).filter(() => random(4) > 0),
    );
    let want = 0;
    for (let p = layout.schedulerBlockSizeTokens; p < n; p += layout.schedulerBlockSizeTokens) {
      if (specs.every((spec, group) => accepts(spec, ends[group] ?? [], p))) want = p;
    }
    expect(tokens(layout, n, ...ends), JSON.stringify({ layout, n, ends })).toBe(want);
  }
});

function accepts(
  spec: { rule: string; blockSizeTokens: number; windowTokens?: number },
  ends: readonly number[],
  p: number,
): boolean {
  const b = spec.blockSizeTokens;
  if (spec.rule === "mamba") return ends.includes(p);
  const need =
    spec.rule === "full" ? p / b : Math.max(1, Math.ceil(((spec.windowTokens ?? 0) - 1) / b));
  return range(Math.max(b, p - (need - 1) * b), p, b).every((end) => ends.includes(end));
}
