/**
 * What it is: what those agree on who learn places, keep them and recompute hashes for them.
 * Owns: types only.
 * Refuses: nothing.
 * Does not do: anything.
 */
import type { BlockHash, Digest, PrefixState, RefusalReason } from "@kv-group-bridge/protocol";
import type { Block } from "./block.ts";
import type { Recomputer } from "./recomputer.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** How a place was learnt. */
export type PlacedBy = "dense" | "recomputed";

/** A place to give. */
export interface NewPlace {
  readonly state: PrefixState;
  readonly keyLow: number;
  readonly keyHigh: number;
  /** The block before it. */
  readonly before: Block | undefined;
  readonly loraName: string | undefined;
  readonly isPlain: boolean;
  readonly blockSizeTokens: number;
  readonly by: PlacedBy;
}

/** The mirror, as far as places concern it. */
export interface PlaceHost {
  /** A known block. */
  find(hash: BlockHash): Block | undefined;
  /** A block, known or new. */
  obtain(hash: BlockHash): Block;
  /** The block under a prefix key. */
  under(keyLow: number, keyHigh: number): Block | undefined;
  /** A block gets its place; it had none. */
  givePlace(block: Block, place: NewPlace): void;
  /** A block's digest is known now. */
  giveDigest(block: Block, digest: Digest): void;
  refused(reason: RefusalReason): void;
}

/** What recomputing costs, in total and now. */
export interface RecomputingCost {
  /** Digests computed for places. */
  readonly hashes: number;
  /** Digests that the span before had in common. */
  readonly savedHashes: number;
  /** Spans that were not recomputed because too much waited. */
  readonly droppedSpans: number;
  /** Tokens of spans that wait. */
  readonly backlogTokens: number;
}

/** When an engine's hashes are recomputed. */
export interface RecomputeRules {
  readonly recomputer: Recomputer;
  /** Whether sparse stores of this engine may hold what no dense store places, given H. */
  readonly needsRecomputing: (unitTokens: number) => boolean;
  /** Whether ends inside blocks may be named as parents: partial entries and spans of groups without a dense one. */
  readonly keepsFineEnds: (event: StoreEvent, unitTokens: number) => boolean;
}

/** What one store's event told by itself. */
export interface LearntPlaces {
  /** Hashes, from the first on, that contradict no place. */
  readonly soundCount: number;
  /** Hashes, from the first on, that the event itself placed, now or before. */
  readonly denseCount: number;
}
