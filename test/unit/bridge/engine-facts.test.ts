import { describe, expect, test } from "vitest";
import { deriveLayout } from "../../../src/bridge/dist/derive-layout.js";
import { type EngineConfig, UNSTATED_ENGINE } from "../../../src/bridge/dist/engine-config.js";
import { EngineFacts } from "../../../src/bridge/dist/engine-facts.js";
import { group, span, stored } from "../../support/typed-events.ts";

const full = stored([1], span(1, 4));

function stated(more: Partial<EngineConfig["groups"][number]> = {}): EngineConfig {
  return {
    ...UNSTATED_ENGINE,
    isRosterComplete: true,
    groups: [
      {
        groupId: group(0),
        kind: "full_attention",
        blockSizeTokens: 4,
        windowTokens: undefined,
        chunkTokens: undefined,
        isPrivate: false,
        dropsBlock: false,
        specClass: undefined,
        ...more,
      },
    ],
  };
}

function reasonOf(facts: EngineFacts, event: typeof full, id = 0): string {
  const result = facts.learn(event, group(id), true);
  return result.ok ? "learnt" : result.error.reason;
}

describe("facts are learnt from stores", () => {
  test("kind, window and block size come from a group's first store", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    const window = stored([1], span(1, 4), { kind: "sliding_window", windowTokens: 9 });
    expect(reasonOf(facts, window)).toBe("learnt");
    expect(facts.describe().groups[0]).toMatchObject({
      kind: "sliding_window",
      windowTokens: 9,
      blockSizeTokens: 4,
      certainty: "learnt",
      isSeen: true,
    });
  });

  test("the largest block size is the group's: a partial entry never defines it", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    expect(reasonOf(facts, stored([1], span(1, 2)))).toBe("learnt");
    expect(reasonOf(facts, stored([2], span(1, 8)))).toBe("learnt");
    expect(reasonOf(facts, stored([3], span(9, 10)))).toBe("learnt");
    expect(facts.blockSizeTokens(group(0))).toBe(8);
  });

  test("a proven hash unit counts as if it were stated", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    facts.learn(stored([1], span(1, 8), { kind: "mamba", blockSizeTokens: 8 }), group(0), true);
    facts.learn(stored([1], span(1, 4), { kind: "sliding_window" }), group(1), true);
    expect(facts.describe()).toMatchObject({ hashBlockSizeTokens: 4, isFine: true });
    expect(facts.describe(2)).toMatchObject({ hashBlockSizeTokens: 2, isFine: false });
  });

  test("another kind or window contradicts, and the first one stays", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    const window = stored([1], span(1, 4), { kind: "sliding_window", windowTokens: 9 });
    reasonOf(facts, window);
    expect(reasonOf(facts, { ...window, kind: "mamba" })).toBe("kind_contradicts");
    expect(reasonOf(facts, { ...window, windowTokens: 5 })).toBe("window_contradicts");
    expect(facts.describe().groups[0]).toMatchObject({ kind: "sliding_window", windowTokens: 9 });
  });

  test("look-ahead is learnt from the first store that tells, and another length contradicts", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    expect(facts.lookaheadTokens).toBeUndefined();
    const ahead = stored([1], span(1, 4), { lookaheadTokens: [span(5, 6)] });
    expect(reasonOf(facts, ahead)).toBe("learnt");
    expect(facts.lookaheadTokens).toBe(2);
    expect(reasonOf(facts, full)).toBe("lookahead_contradicts");
  });

  test("the revision grows with each new fact and not with old ones", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    const before = facts.revision;
    reasonOf(facts, full);
    const after = facts.revision;
    expect(after).toBeGreaterThan(before);
    reasonOf(facts, full);
    expect(facts.revision).toBe(after);
  });

  test("at the bound of groups a further one is refused and the others go on", () => {
    const facts = new EngineFacts(UNSTATED_ENGINE);
    for (let id = 0; id < 32; id++) expect(reasonOf(facts, full, id)).toBe("learnt");
    expect(reasonOf(facts, full, 32)).toBe("too_many_groups");
    expect(reasonOf(facts, full, 31)).toBe("learnt");
  });
});

describe("stated facts win", () => {
  test("a group outside a complete roster, and a private one, are refused", () => {
    expect(reasonOf(new EngineFacts(stated()), full, 1)).toBe("roster_contradicts");
    expect(reasonOf(new EngineFacts(stated({ isPrivate: true })), full)).toBe("group_private");
  });

  test("a stated kind is contradicted by another one, but not by vLLM's word for 'cannot tell'", () => {
    const facts = new EngineFacts(stated());
    expect(reasonOf(facts, { ...full, kind: "mamba" })).toBe("kind_contradicts");
    expect(reasonOf(facts, { ...full, kind: "unknown" })).toBe("learnt");
    expect(reasonOf(facts, { ...full, kind: undefined })).toBe("learnt");
  });

  test("a larger block than stated, or one off the hash unit, contradicts", () => {
    expect(reasonOf(new EngineFacts(stated()), stored([1], span(1, 8)))).toBe(
      "block_size_contradicts",
    );
    const facts = new EngineFacts({ ...stated(), hashBlockSizeTokens: 4 });
    expect(reasonOf(facts, stored([1], span(1, 2)))).toBe("block_size_contradicts");
  });
});

describe("vLLM's own derivation", () => {
  const none = {
    schedulerBlockSizeTokens: undefined,
    hashBlockSizeTokens: undefined,
    isFine: undefined,
    smallestUnitTokens: 0,
  };
  const of = (kind: string, blockSizeTokens: number | undefined, hasPartial = false) => ({
    kind,
    blockSizeTokens,
    isPrivate: false,
    hasPartial,
  });

  test("S is the least common multiple, private groups included; H the greatest common divisor without them", () => {
    const scratch = { ...of("unknown", 24), isPrivate: true };
    expect(deriveLayout([of("full_attention", 16), of("mamba", 16), scratch], none)).toMatchObject({
      schedulerBlockSizeTokens: 48,
      hashBlockSizeTokens: 16,
      isFine: false,
    });
  });

  test("a recurrent group coarser than the unit turns fine mode on, a coarser window turns it off", () => {
    expect(deriveLayout([of("full_attention", 4), of("mamba", 8)], none).isFine).toBe(true);
    const withWindow = [of("full_attention", 4), of("mamba", 8), of("sliding_window", 8)];
    expect(deriveLayout(withWindow, none).isFine).toBe(false);
  });

  test("a recurrent partial entry proves a finer unit, an attention group's does not", () => {
    const hints = { ...none, smallestUnitTokens: 16 };
    const mamba = [of("mamba", 64, true), of("full_attention", 64, true)];
    expect(deriveLayout(mamba, hints)).toMatchObject({ hashBlockSizeTokens: 16, isFine: true });
    const attention = [of("mamba", 64), of("full_attention", 64, true)];
    expect(deriveLayout(attention, hints)).toMatchObject({
      hashBlockSizeTokens: 64,
      isFine: false,
    });
  });

  test("one group alone has H = S whatever its partial entries say", () => {
    expect(
      deriveLayout([of("full_attention", 64, true)], { ...none, smallestUnitTokens: 16 }),
    ).toMatchObject({ schedulerBlockSizeTokens: 64, hashBlockSizeTokens: 64, isFine: false });
  });

  test("nothing is guessed while a block size is unknown", () => {
    expect(deriveLayout([of("full_attention", 16), of("mamba", undefined)], none)).toMatchObject({
      schedulerBlockSizeTokens: undefined,
      hashBlockSizeTokens: undefined,
    });
    expect(deriveLayout([], none).schedulerBlockSizeTokens).toBeUndefined();
  });
});
