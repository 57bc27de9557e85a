/**
 * What it is: what a consumer must know of an engine, as a typed value: the same for configuration, the
 * stream's `start`, a trace's header and an answer.
 * Owns: the type and its two translations to and from kvgroup.v1.EngineDescription.
 * Refuses: a message with a duplicate group, or more groups than the limit.
 * Does not do: derive or learn facts (the bridge does), or turn them into reuse rules (the gateway does).
 */
import { create } from "@bufbuild/protobuf";
import {
  EngineDescriptionSchema,
  KvCacheGroupSchema,
  Certainty as WireCertainty,
  EngineDescription_EagleBound as WireEagleBound,
  type EngineDescription as WireEngineDescription,
} from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { type HashSchemeStatus, hashSchemeFromWire, hashSchemeToWire } from "./hash-scheme.ts";
import { type GroupId, parseGroupId } from "./ids.ts";
import { LIMITS } from "./limits.ts";

/** How sure a fact is; see kvgroup.v1.Certainty. */
export type Certainty = "configured" | "learnt" | "assumed";

/** One KV cache group. Undefined = not known (yet); nothing is defaulted. */
export interface GroupDescription {
  readonly groupId: GroupId;
  /** vLLM's kv_cache_spec_kind. */
  readonly kind: string | undefined;
  readonly blockSizeTokens: number | undefined;
  /** Current token included. */
  readonly windowTokens: number | undefined;
  readonly chunkTokens: number | undefined;
  /** Request-private: no events, no lookup, but part of the scheduler block size. */
  readonly isPrivate: boolean;
  /** Gives up a block under EAGLE-like speculation (drop mode). */
  readonly dropsBlock: boolean;
  /** Equal number = identical spec. Undefined = derived from the other fields. */
  readonly specClass: number | undefined;
  readonly certainty: Certainty;
  /** The engine's events named this group in this epoch. */
  readonly isSeen: boolean;
}

/** How far a dropping class of a hybrid looks: floor(n/H)*H (0.33), or n − 1 (up to 0.23). */
export type EagleBound = "hash_end" | "last_token";

/** Facts of one rank's engine. */
export interface EngineDescription {
  readonly vllmVersion: string | undefined;
  /** Ascending by group id. */
  readonly groups: readonly GroupDescription[];
  readonly isRosterComplete: boolean;
  /** S. */
  readonly schedulerBlockSizeTokens: number | undefined;
  /** H. */
  readonly hashBlockSizeTokens: number | undefined;
  readonly isFine: boolean | undefined;
  /** L; 0 = no look-ahead hashing. */
  readonly lookaheadTokens: number;
  readonly eagleBound: EagleBound;
  /** Answers up to this many tokens count as 0; 0 = none. */
  readonly replayTokens: number;
  readonly retentionInterval: number | undefined;
  /** Why no answer from events can be right; undefined = supported. */
  readonly unsupportedReason: string | undefined;
  /** The weakest of S, H, fine mode, look-ahead and dropping. */
  readonly layoutCertainty: Certainty;
  /** How the engine names its blocks; undefined = the bridge does not say. */
  readonly hashScheme: HashSchemeStatus | undefined;
}

const TO_WIRE: Readonly<Record<Certainty, WireCertainty>> = {
  configured: WireCertainty.CONFIGURED,
  learnt: WireCertainty.LEARNT,
  assumed: WireCertainty.ASSUMED,
};

function fromWireCertainty(value: WireCertainty): Certainty {
  if (value === WireCertainty.CONFIGURED) return "configured";
  return value === WireCertainty.LEARNT ? "learnt" : "assumed";
}

/** The message of a description. */
export function engineDescriptionToWire(engine: EngineDescription): WireEngineDescription {
  return create(EngineDescriptionSchema, {
    vllmVersion: engine.vllmVersion ?? "",
    groups: engine.groups.map((group) =>
      create(KvCacheGroupSchema, {
        groupId: group.groupId,
        kind: group.kind ?? "",
        blockSize: group.blockSizeTokens ?? 0,
        slidingWindow: group.windowTokens ?? 0,
        chunkTokens: group.chunkTokens ?? 0,
        isPrivate: group.isPrivate,
        dropsBlock: group.dropsBlock,
        ...(group.specClass === undefined ? {} : { specClass: group.specClass }),
        certainty: TO_WIRE[group.certainty],
        isSeen: group.isSeen,
      }),
    ),
    isRosterComplete: engine.isRosterComplete,
    schedulerBlockSize: engine.schedulerBlockSizeTokens ?? 0,
    hashBlockSize: engine.hashBlockSizeTokens ?? 0,
    ...(engine.isFine === undefined ? {} : { isFine: engine.isFine }),
    lookaheadTokens: engine.lookaheadTokens,
    eagleBound:
      engine.eagleBound === "last_token" ? WireEagleBound.LAST_TOKEN : WireEagleBound.HASH_END,
    replayTokens: engine.replayTokens,
    ...(engine.retentionInterval === undefined
      ? {}
      : { retentionInterval: engine.retentionInterval }),
    unsupportedReason: engine.unsupportedReason ?? "",
    layoutCertainty: TO_WIRE[engine.layoutCertainty],
    ...(engine.hashScheme === undefined ? {} : { hashScheme: hashSchemeToWire(engine.hashScheme) }),
  });
}

const positive = (value: number): number | undefined => (value > 0 ? value : undefined);
const nonEmpty = (value: string): string | undefined => (value === "" ? undefined : value);

/** The description of a message; undefined when it has a duplicate group or too many groups. */
export function engineDescriptionFromWire(
  wire: WireEngineDescription,
): EngineDescription | undefined {
  const groups: GroupDescription[] = [];
  const seen = new Set<number>();
  for (const group of wire.groups) {
    const groupId = parseGroupId(group.groupId);
    if (groupId === undefined || seen.has(groupId)) return undefined;
    seen.add(groupId);
    groups.push({
      groupId,
      kind: nonEmpty(group.kind),
      blockSizeTokens: positive(group.blockSize),
      windowTokens: positive(group.slidingWindow),
      chunkTokens: positive(group.chunkTokens),
      isPrivate: group.isPrivate,
      dropsBlock: group.dropsBlock,
      specClass: group.specClass,
      certainty: fromWireCertainty(group.certainty),
      isSeen: group.isSeen,
    });
  }
  if (groups.length > LIMITS.groupsPerRank.value) return undefined;
  groups.sort((a, b) => a.groupId - b.groupId);
  return {
    vllmVersion: nonEmpty(wire.vllmVersion),
    groups,
    isRosterComplete: wire.isRosterComplete,
    schedulerBlockSizeTokens: positive(wire.schedulerBlockSize),
    hashBlockSizeTokens: positive(wire.hashBlockSize),
    isFine: wire.isFine,
    lookaheadTokens: wire.lookaheadTokens,
    eagleBound: wire.eagleBound === WireEagleBound.LAST_TOKEN ? "last_token" : "hash_end",
    replayTokens: wire.replayTokens,
    retentionInterval: wire.retentionInterval,
    unsupportedReason: nonEmpty(wire.unsupportedReason),
    layoutCertainty: fromWireCertainty(wire.layoutCertainty),
    hashScheme: wire.hashScheme === undefined ? undefined : hashSchemeFromWire(wire.hashScheme),
  };
}
