/**
 * What it is: how an engine names its blocks, as a typed value, and its translation to and from kvgroup.v1.HashScheme.
 * Owns: the names of algorithms, states, seed origins and extra key forms.
 * Refuses: a message that claims to be proven and lacks what is needed to compute: it reads as "off".
 * Does not do: hash (the engine-hash package does) or find schemes (the bridge does).
 */
import { create } from "@bufbuild/protobuf";
import {
  HashSchemeSchema,
  HashScheme_ExtraKeyForm as WireForm,
  type HashScheme as WireScheme,
  HashScheme_State as WireState,
} from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { LIMITS } from "./limits.ts";

declare const brand: unique symbol;

/** A whole block digest as a latin1 string, one char a byte: 32 of SHA-256, 16 of xxh3-128. */
export type Digest = string & { readonly [brand]: "Digest" };

/** vLLM's --prefix-caching-hash-algo since 0.13.0. */
export const HASH_ALGORITHMS = ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] as const;

/** One of `HASH_ALGORITHMS`. */
export type HashAlgorithm = (typeof HASH_ALGORITHMS)[number];

/** Bytes of one digest. */
export function digestBytesOf(algorithm: HashAlgorithm): number {
  return algorithm.startsWith("sha256") ? 32 : 16;
}

/** True for a text of as many chars as a digest of the algorithm has bytes: a byte hash is the whole digest. */
export function isDigestOf(text: string, algorithm: HashAlgorithm): text is Digest {
  return text.length === digestBytesOf(algorithm);
}

/** How extra keys are hashed: "tagged" from vLLM 0.31 on, "untagged" before (docs/engine-hashes.md). */
export type ExtraKeyForm = "tagged" | "untagged";

/** How far the search for an engine's scheme has come. */
export const HASH_STATES = ["searching", "proven", "not_found", "refuted", "off"] as const;

/** One of `HASH_STATES`. */
export type HashState = (typeof HASH_STATES)[number];

/** Where a seed comes from. */
export const SEED_ORIGINS = ["default", "configured", "common", "unknown"] as const;

/** One of `SEED_ORIGINS`. */
export type SeedOrigin = (typeof SEED_ORIGINS)[number];

/** What is needed to compute an engine's block hashes. */
export interface HashScheme {
  readonly algorithm: HashAlgorithm;
  readonly seedOrigin: SeedOrigin;
  /** The digest before the first block (vLLM's NONE_HASH); undefined = not known. */
  readonly rootDigest: Digest | undefined;
  /** H: tokens of one hash. */
  readonly unitTokens: number;
  /** Undefined = no hash with extra keys was reproduced yet. */
  readonly extraKeyForm: ExtraKeyForm | undefined;
  /** Paths of LoRA adapters by name, where known. */
  readonly loraPaths: ReadonlyMap<string, string>;
}

/** What a bridge says of it; `scheme` is there exactly in state "proven". */
export interface HashSchemeStatus {
  readonly state: HashState;
  readonly scheme: HashScheme | undefined;
}

/** Most adapters' paths in one message. */
export const MAX_LORA_PATHS = 4_096;

const TO_WIRE: Readonly<Record<HashState, WireState>> = {
  searching: WireState.SEARCHING,
  proven: WireState.PROVEN,
  not_found: WireState.NOT_FOUND,
  refuted: WireState.REFUTED,
  off: WireState.OFF,
};

const FORM_TO_WIRE: Readonly<Record<ExtraKeyForm, WireForm>> = {
  tagged: WireForm.TAGGED,
  untagged: WireForm.UNTAGGED,
};

/** Both, the newer one first. */
export const EXTRA_KEY_FORMS: readonly ExtraKeyForm[] = ["tagged", "untagged"];

/** The message of a status. */
export function hashSchemeToWire(status: HashSchemeStatus): WireScheme {
  const { scheme } = status;
  if (scheme === undefined) return create(HashSchemeSchema, { state: TO_WIRE[status.state] });
  return create(HashSchemeSchema, {
    state: TO_WIRE[status.state],
    algorithm: scheme.algorithm,
    seedOrigin: scheme.seedOrigin,
    rootDigest:
      scheme.rootDigest === undefined
        ? new Uint8Array(0)
        : Buffer.from(scheme.rootDigest, "latin1"),
    unitTokens: scheme.unitTokens,
    extraKeyForm:
      scheme.extraKeyForm === undefined ? WireForm.UNSPECIFIED : FORM_TO_WIRE[scheme.extraKeyForm],
    loraPaths: Object.fromEntries([...scheme.loraPaths].slice(0, MAX_LORA_PATHS)),
  });
}

/** The status of a message. */
export function hashSchemeFromWire(wire: WireScheme): HashSchemeStatus {
  const state = HASH_STATES.find((name) => TO_WIRE[name] === wire.state) ?? "off";
  if (state !== "proven") return { state, scheme: undefined };
  const algorithm = HASH_ALGORITHMS.find((name) => name === wire.algorithm);
  const seedOrigin = SEED_ORIGINS.find((name) => name === wire.seedOrigin);
  const isSound =
    algorithm !== undefined &&
    seedOrigin !== undefined &&
    wire.unitTokens > 0 &&
    (wire.rootDigest.length === 0 || wire.rootDigest.length === digestBytesOf(algorithm)) &&
    arePathsSound(wire.loraPaths);
  if (!isSound) return { state: "off", scheme: undefined };
  return {
    state,
    scheme: {
      algorithm,
      seedOrigin,
      rootDigest: wire.rootDigest.length === 0 ? undefined : digestOf(wire.rootDigest),
      unitTokens: wire.unitTokens,
      extraKeyForm: EXTRA_KEY_FORMS.find((form) => FORM_TO_WIRE[form] === wire.extraKeyForm),
      loraPaths: new Map(Object.entries(wire.loraPaths)),
    },
  };
}

function arePathsSound(paths: Readonly<Record<string, string>>): boolean {
  const most = LIMITS.textBytes.value;
  const entries = Object.entries(paths);
  return (
    entries.length <= MAX_LORA_PATHS &&
    entries.every(([name, path]) => name.length <= most && path.length <= most)
  );
}

/** The digest of bytes; their number is not checked. */
export function digestOf(bytes: Uint8Array): Digest {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString("latin1") as Digest;
}
