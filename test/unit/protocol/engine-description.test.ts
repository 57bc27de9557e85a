/**
 * What it is: tests of the engine description on the wire: there and back, what absence means, what
 * is refused.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: derive facts.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  Certainty,
  EngineDescription_EagleBound as EagleBound,
  EngineDescriptionSchema,
  KvCacheGroupSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { describe, expect, test } from "vitest";
import {
  type EngineDescription,
  engineDescriptionFromWire,
  engineDescriptionToWire,
  type GroupDescription,
  LIMITS,
  parseGroupId,
} from "../../../src/protocol/dist/index.js";

function group(id: number, more: Partial<GroupDescription> = {}): GroupDescription {
  return {
    groupId: parseGroupId(id) ?? expect.fail("no group id"),
    kind: undefined,
    blockSizeTokens: undefined,
    windowTokens: undefined,
    chunkTokens: undefined,
    isPrivate: false,
    dropsBlock: false,
    specClass: undefined,
    certainty: "assumed",
    isSeen: false,
    ...more,
  };
}

const UNKNOWN: EngineDescription = {
  vllmVersion: undefined,
  groups: [],
  isRosterComplete: false,
  schedulerBlockSizeTokens: undefined,
  hashBlockSizeTokens: undefined,
  isFine: undefined,
  lookaheadTokens: 0,
  eagleBound: "hash_end",
  replayTokens: 0,
  retentionInterval: undefined,
  unsupportedReason: undefined,
  layoutCertainty: "assumed",
  hashScheme: undefined,
};

const KNOWN: EngineDescription = {
  vllmVersion: "0.33.0",
  groups: [
    group(0, { kind: "full_attention", blockSizeTokens: 16, certainty: "learnt", isSeen: true }),
    group(1, {
      kind: "sliding_window",
      blockSizeTokens: 16,
      windowTokens: 128,
      dropsBlock: true,
      specClass: 0,
      certainty: "configured",
    }),
    group(4_294_967_295, { kind: "chunked_local_attention", chunkTokens: 8_192, isPrivate: true }),
  ],
  isRosterComplete: true,
  schedulerBlockSizeTokens: 528,
  hashBlockSizeTokens: 16,
  isFine: true,
  lookaheadTokens: 2,
  eagleBound: "last_token",
  replayTokens: 64,
  retentionInterval: 0,
  unsupportedReason: "kv_cache_report_mode: full",
  layoutCertainty: "learnt",
  hashScheme: undefined,
};

function throughBytes(engine: EngineDescription): EngineDescription | undefined {
  const bytes = toBinary(EngineDescriptionSchema, engineDescriptionToWire(engine));
  return engineDescriptionFromWire(fromBinary(EngineDescriptionSchema, bytes));
}

describe("there and back", () => {
  test.each([
    ["an engine of which nothing is known", UNKNOWN],
    ["one of which everything is", KNOWN],
    ["fine mode known to be off", { ...UNKNOWN, isFine: false }],
    ["every certainty", { ...KNOWN, layoutCertainty: "configured" as const }],
  ])("%s", (_name, engine) => {
    expect(throughBytes(engine)).toEqual(engine);
  });

  test("an engine of which nothing is known costs a few bytes", () => {
    expect(toBinary(EngineDescriptionSchema, engineDescriptionToWire(UNKNOWN)).length).toBeLessThan(
      8,
    );
  });
});

describe("from the wire", () => {
  test("groups come in ascending order, whatever the order of the message", () => {
    const wire = create(EngineDescriptionSchema, {
      groups: [3, 0, 2].map((groupId) => create(KvCacheGroupSchema, { groupId })),
    });
    const groups = engineDescriptionFromWire(wire)?.groups;
    expect(groups?.map(({ groupId }) => groupId)).toEqual([0, 2, 3]);
  });

  test("an empty message is an engine of which nothing is known; nothing is defaulted", () => {
    expect(engineDescriptionFromWire(create(EngineDescriptionSchema))).toEqual(UNKNOWN);
    const wire = create(EngineDescriptionSchema, { groups: [create(KvCacheGroupSchema)] });
    expect(engineDescriptionFromWire(wire)?.groups).toEqual([group(0)]);
  });

  test("an unsaid or unknown certainty is the weakest, an unsaid bound the later one", () => {
    const wire = create(EngineDescriptionSchema, {
      layoutCertainty: Certainty.UNSPECIFIED,
      eagleBound: EagleBound.UNSPECIFIED,
    });
    expect(engineDescriptionFromWire(wire)).toMatchObject({
      layoutCertainty: "assumed",
      eagleBound: "hash_end",
    });
    // A sender newer than this code: field 12 with a value that this schema has no name for.
    const newer = fromBinary(EngineDescriptionSchema, Uint8Array.from([(12 << 3) | 0, 99]));
    expect(engineDescriptionFromWire(newer)?.layoutCertainty).toBe("assumed");
  });

  test("a group that stands twice makes the description invalid", () => {
    const groups = [1, 1].map((groupId) => create(KvCacheGroupSchema, { groupId }));
    expect(engineDescriptionFromWire(create(EngineDescriptionSchema, { groups }))).toBeUndefined();
  });

  test("groups are bounded: the limit is taken, one more is not", () => {
    const described = (count: number) => {
      const groups = Array.from({ length: count }, (_, groupId) =>
        create(KvCacheGroupSchema, { groupId }),
      );
      return engineDescriptionFromWire(create(EngineDescriptionSchema, { groups }));
    };
    expect(described(LIMITS.groupsPerRank.value)?.groups).toHaveLength(LIMITS.groupsPerRank.value);
    expect(described(LIMITS.groupsPerRank.value + 1)).toBeUndefined();
  });
});
