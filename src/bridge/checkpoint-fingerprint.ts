/**
 * What it is: one text that stands for everything of the configuration that changes what events mean.
 * Owns: the list of what belongs to it.
 * Refuses: nothing.
 * Does not do: show what went into it: it is a hash.
 */
import { createHash } from "node:crypto";
import { type DpRank, KEY_SCHEME_ID, type KeyedHasher, LIMITS } from "@kv-group-bridge/protocol";
import type { EngineConfig, HashingConfig } from "./engine-config.ts";
import { type MirrorOptions, mirrorOptions } from "./mirror-options.ts";

/** What a checkpoint depends on beside the events themselves. */
export interface FingerprintParts {
  readonly hasher: KeyedHasher;
  readonly dpRank: DpRank;
  /** Exact topic; undefined = every topic. */
  readonly topic: string | undefined;
  readonly mirror: MirrorOptions;
}

/** SHA-256 in hexadecimal digits. Equal for equal parts, whatever the order of groups or fields. */
export function checkpointFingerprint(engine: EngineConfig, parts: FingerprintParts): string {
  const { hasher, dpRank, topic, mirror } = parts;
  const groups = [...engine.groups].sort((a, b) => a.groupId - b.groupId);
  const whole = {
    engine: { ...engine, groups, hashing: hashingText(engine.hashing) },
    keys: [KEY_SCHEME_ID, Buffer.from(hasher.checkValue()).toString("hex")],
    dpRank,
    topic,
    mirror,
    groupsPerRank: LIMITS.groupsPerRank.value,
  };
  return createHash("sha256").update(JSON.stringify(whole, sorted)).digest("hex");
}

/** Paths are read from the engine too and may change at any time: they are not part of what a checkpoint depends on. */
function hashingText(hashing: HashingConfig): unknown {
  const { isRecognised, algorithm, seedText } = hashing;
  return { isRecognised, algorithm, seedText };
}

/** Equal for ranks that may take up each other's checkpoints. */
export function rankFingerprint(
  rank: Omit<FingerprintParts, "mirror"> & {
    readonly engine: EngineConfig;
    readonly mirror?: Partial<MirrorOptions>;
  },
): string {
  const { engine, hasher, dpRank, topic } = rank;
  return checkpointFingerprint(engine, { hasher, dpRank, topic, mirror: mirrorOptions(rank) });
}

/** Fields in alphabetical order, and what is undefined as null: a text that depends on the values alone. */
function sorted(_key: string, value: unknown): unknown {
  if (value === undefined) return null;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
