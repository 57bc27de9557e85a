import { expect, test } from "vitest";
import { rankLayout } from "../../../src/gateway/dist/rank-layout.js";
import {
  type EngineDescription,
  type GroupDescription,
  parseGroupId,
} from "../../../src/protocol/dist/index.js";

type GroupInit = Partial<Omit<GroupDescription, "groupId">>;

/** Groups numbered from 0; kind full_attention and block 4 unless said. */
function engine(
  groups: readonly GroupInit[],
  more: Partial<EngineDescription> = {},
): EngineDescription {
  return {
    vllmVersion: undefined,
    groups: groups.map((group, i) => {
      const groupId = parseGroupId(i);
      if (groupId === undefined) throw new TypeError("a test's group id is an index");
      return {
        groupId,
        kind: "full_attention",
        blockSizeTokens: 4,
        windowTokens: undefined,
        chunkTokens: undefined,
        isPrivate: false,
        dropsBlock: false,
        specClass: undefined,
        certainty: "configured",
        isSeen: true,
        ...group,
      };
    }),
    isRosterComplete: true,
    schedulerBlockSizeTokens: undefined,
    hashBlockSizeTokens: undefined,
    isFine: undefined,
    lookaheadTokens: 0,
    eagleBound: "hash_end",
    replayTokens: 0,
    retentionInterval: undefined,
    unsupportedReason: undefined,
    layoutCertainty: "configured",
    hashScheme: undefined,
    ...more,
  };
}

function layoutOf(...args: Parameters<typeof engine>) {
  const result = rankLayout(engine(...args));
  if (!result.ok) throw new TypeError(`refused: ${result.reasons.join(", ")}`);
  return result.layout;
}

function reasonsOf(...args: Parameters<typeof engine>): readonly string[] {
  const result = rankLayout(engine(...args));
  return result.ok ? [] : result.reasons;
}

for (const [kind, rule, more] of [
  ["full_attention", "full", {}],
  ["mla_attention", "full", {}],
  ["sink_full_attention", "full", {}],
  ["sliding_window", "sliding_window", { windowTokens: 9 }],
  ["sliding_window_mla", "sliding_window", { windowTokens: 9 }],
  ["mamba", "mamba", {}],
  ["chunked_local_attention", "chunked_local", { chunkTokens: 8 }],
] as const) {
  test(`${kind} follows the rule ${rule}`, () => {
    const result = rankLayout(engine([{ kind, ...more }]));
    expect(result.ok && result.layout.groups[0]).toMatchObject({ rule });
    expect(result.ok && result.groupKinds.get(0)).toBe(kind);
  });
}

test("another kind is unsupported, never full attention, and never ignored", () => {
  for (const kind of ["cross_attention", "Full_attention", "encoder_only", "full"]) {
    expect(reasonsOf([{}, { kind }])).toEqual(["kind_unsupported"]);
  }
});

test("every missing fact has its own reason, and all are told at once", () => {
  expect(reasonsOf([])).toEqual(["no_groups"]);
  expect(reasonsOf([{ kind: undefined }])).toEqual(["kind_unknown"]);
  expect(reasonsOf([{ kind: "sliding_window" }])).toEqual(["window_unknown"]);
  expect(reasonsOf([{ kind: "chunked_local_attention" }])).toEqual(["chunk_unknown"]);
  expect(reasonsOf([{ blockSizeTokens: undefined }])).toEqual(["block_size_unknown"]);
  expect(reasonsOf([{}], { unsupportedReason: "kv_cache_report_mode: full" })).toEqual([
    "unsupported_report_mode",
  ]);
  expect(reasonsOf([{ kind: undefined }, { kind: "odd" }, { kind: "sliding_window" }])).toEqual([
    "kind_unknown",
    "kind_unsupported",
    "window_unknown",
  ]);
});

test("an engine of private groups alone has nothing to score", () => {
  expect(reasonsOf([{ isPrivate: true }])).toEqual(["no_groups"]);
});

test("facts that contradict each other are no layout", () => {
  expect(reasonsOf([{}], { schedulerBlockSizeTokens: 6 })).toEqual(["layout_invalid"]);
  expect(reasonsOf([{}, {}], { hashBlockSizeTokens: 3 })).toEqual(["layout_invalid"]);
  const primes = [65_537, 65_539, 65_543, 65_551].map((blockSizeTokens) => ({ blockSizeTokens }));
  expect(reasonsOf(primes)).toEqual(["layout_invalid"]);
});

test("a private group enters S and makes the coordinator hybrid, but is not looked up", () => {
  // A full group of 4 and a private one of 6 give S = 12.
  const layout = layoutOf([{}, { kind: undefined, blockSizeTokens: 6, isPrivate: true }]);
  expect(layout).toMatchObject({
    coordinator: "hybrid",
    schedulerBlockSizeTokens: 12,
    hashBlockSizeTokens: 4,
  });
  expect(layout.groups.map((group) => group.groupId)).toEqual([0]);
  expect(layoutOf([{}]).coordinator).toBe("unitary");
});

test("a private group of unknown size matters only while S is not told", () => {
  const groups = [{}, { blockSizeTokens: undefined, isPrivate: true }];
  expect(reasonsOf(groups)).toEqual(["block_size_unknown"]);
  expect(reasonsOf(groups, { schedulerBlockSizeTokens: 12 })).toEqual([]);
});

test("S is the least common multiple and H the greatest common divisor unless told", () => {
  const groups = [{ blockSizeTokens: 16 }, { blockSizeTokens: 24 }];
  expect(layoutOf(groups)).toMatchObject({ schedulerBlockSizeTokens: 48, hashBlockSizeTokens: 8 });
  expect(layoutOf(groups, { schedulerBlockSizeTokens: 96, hashBlockSizeTokens: 4 })).toMatchObject({
    schedulerBlockSizeTokens: 96,
    hashBlockSizeTokens: 4,
  });
});

test("fine mode follows vLLM's rule unless told", () => {
  const mamba = { kind: "mamba", blockSizeTokens: 8 };
  const window = { kind: "sliding_window", windowTokens: 5 };
  expect(layoutOf([{}, mamba]).isFine).toBe(true);
  expect(layoutOf([{}, mamba], { isFine: false }).isFine).toBe(false);
  expect(layoutOf([{ blockSizeTokens: 8 }, mamba]).isFine).toBe(false);
  expect(layoutOf([{}, { ...window, blockSizeTokens: 8 }, mamba]).isFine).toBe(false);
  expect(layoutOf([{}, { ...window, blockSizeTokens: 4 }, mamba]).isFine).toBe(true);
});

test("one group has no fine mode, whatever the description says", () => {
  const mamba = { kind: "mamba", blockSizeTokens: 8 };
  expect(layoutOf([mamba], { hashBlockSizeTokens: 2, isFine: true }).isFine).toBe(false);
});

test("marks of dropping are kept, recurrent groups among them; with look-ahead hashing nothing drops", () => {
  const groups = [{ dropsBlock: true }, { kind: "mamba", dropsBlock: true }];
  expect(layoutOf(groups).groups.map((group) => group.dropsBlock)).toEqual([true, true]);
  const ahead = layoutOf(groups, { lookaheadTokens: 1 });
  expect(ahead.groups.map((group) => group.dropsBlock)).toEqual([false, false]);
  expect(ahead.lookaheadTokens).toBe(1);
});

test("groups of equal facts share a spec class, told classes are kept apart", () => {
  const window = { kind: "sliding_window", windowTokens: 9 };
  const classesOf = (groups: readonly GroupInit[]): readonly number[] =>
    layoutOf(groups).groups.map((group) => group.specClass);
  expect(classesOf([{}, window, {}, window, { ...window, windowTokens: 5 }])).toEqual([
    0, 1, 0, 1, 2,
  ]);
  expect(classesOf([{}, { kind: "mla_attention" }])).toEqual([0, 1]);
  expect(classesOf([{}, { dropsBlock: true }])).toEqual([0, 1]);
  expect(classesOf([{ specClass: 7 }, { specClass: 3 }, { specClass: 7 }])).toEqual([0, 1, 0]);
});

test("a window on full attention means nothing", () => {
  expect(layoutOf([{ windowTokens: 128 }]).groups[0]?.windowTokens).toBe(0);
});
