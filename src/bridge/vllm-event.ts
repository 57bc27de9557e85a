/**
 * What it is: the typed form of everything vLLM can say, after validation. The mirror sees nothing else.
 * Owns: types only.
 * Refuses: nothing; what could not be read is itself a value here, because what it costs depends on it.
 * Does not do: keep wire forms apart (array or map, integer or byte hashes look alike from here on).
 */
import type { BlockHash, GroupId, Refusal } from "@kv-group-bridge/protocol";

/** One extra key of one block, as published (untagged). */
export type ExtraKey =
  /** A bare string: LoRA name or cache salt; which one, its place tells. */
  | { readonly type: "text"; readonly value: string }
  /** An image: identifier, and start of its placeholder relative to the block's first token (may be negative);
   * undefined up to 0.18, which published no offset. */
  | { readonly type: "item"; readonly identifier: string; readonly offset: number | undefined }
  /** Anything else (prompt embedding digests, unknown structures): present, not understood. */
  | { readonly type: "opaque" };

/** Where residency is said to be. Empty strings = not said. */
export interface Residency {
  /** "GPU" for absent, null and any case of gpu; else as published, upper case. */
  readonly medium: string;
  readonly locality: string;
  readonly ownership: string;
}

/** The group of an event. */
export interface GroupLabel {
  /** Undefined = the event has no group (old schema, some connectors). */
  readonly groupId: GroupId | undefined;
  /** Never without a valid group. */
  readonly kind: string | undefined;
  /** Never without a valid group; > 0. */
  readonly windowTokens: number | undefined;
}

/** BlockStored. */
export interface StoreEvent extends Residency, GroupLabel {
  readonly type: "stored";
  /** May be empty (sparse) and shorter than the tokens say. */
  readonly hashes: readonly BlockHash[];
  /** Undefined = the span begins a prompt. */
  readonly parent: BlockHash | undefined;
  /** The whole logical span; may be empty. */
  readonly tokens: Uint32Array;
  /** 0 = placeholder of an offload tier. */
  readonly blockSizeTokens: number;
  /** Deprecated number; undefined = null. */
  readonly loraId: bigint | undefined;
  readonly loraName: string | undefined;
  /** One entry a hash, undefined entry = nothing extra in that block. Undefined = the event has none. */
  readonly extraKeys: readonly (readonly ExtraKey[] | undefined)[] | undefined;
  /** One list a hash. Undefined = no look-ahead hashing said. */
  readonly lookaheadTokens: readonly Uint32Array[] | undefined;
  /** Fields that were ignored, to be counted; the event itself is good. */
  readonly notes: readonly Refusal[];
}

/** BlockRemoved. */
export interface RemoveEvent extends Residency {
  readonly type: "removed";
  readonly groupId: GroupId | undefined;
  readonly hashes: readonly BlockHash[];
  /** Copies that remain per hash, where an engine says so; undefined = not said. */
  readonly remainingCopies: readonly number[] | undefined;
  readonly notes: readonly Refusal[];
}

/** AllBlocksCleared; a scope only if the engine named one. */
export interface ClearEvent {
  readonly type: "cleared";
  readonly groupId: GroupId | undefined;
  readonly medium: string | undefined;
}

/** A removal or clear that could not be read whole: negative evidence is lost, so its scope is withdrawn. */
export interface UnreadableRemoval {
  readonly type: "removal_unreadable";
  readonly refusal: Refusal;
  /** Undefined = which group cannot be told. */
  readonly groupId: GroupId | undefined;
  /** Undefined = which medium cannot be told. */
  readonly medium: string | undefined;
  /** The hashes, when all of them could be read: then only they are withdrawn. */
  readonly hashes: readonly BlockHash[] | undefined;
}

/** A store, or something unknown, that is dropped: positive evidence is lost, which only under-credits. */
export interface RefusedEvent {
  readonly type: "refused";
  readonly refusal: Refusal;
  /** For event_unknown: the tag as published, cut to 64 characters. */
  readonly tag: string | undefined;
}

/** One event after validation. */
export type VllmEvent = StoreEvent | RemoveEvent | ClearEvent | UnreadableRemoval | RefusedEvent;

/** One batch after validation. */
export interface VllmBatch {
  /** Undefined = none or unusable. */
  readonly timestampSeconds: number | undefined;
  /** Undefined = the batch names no rank. */
  readonly dpRank: number | undefined;
  readonly events: readonly VllmEvent[];
}
