/**
 * What it is: how the entries of a played trace got their place, and what the bridge found out of the engine's hashes.
 * Owns: the names under which that is told.
 * Refuses: nothing.
 * Does not do: place or count anything: it reads what bridge and gateway counted.
 */
import type { RankPipeline } from "@kv-group-bridge/bridge";
import type { Gateway, RankStatus } from "@kv-group-bridge/gateway";
import { hashSchemeFromWire } from "@kv-group-bridge/protocol";

/** Entries of all groups and media over the whole trace: each time one began to be held it counts once. */
export interface EntryCounts {
  /** By its own dense store. */
  readonly dense: number;
  /** By the equal hash of an entry that had a place. */
  readonly equalHash: number;
  /** By recomputing hashes over the tokens of a store. */
  readonly recomputed: number;
  /** By the gateway, which found a prompt's own hash among those without a place. */
  readonly foundByQuery: number;
  /** Gone without a place, or still without one at the end, and never found by a query. */
  readonly notPlaced: number;
}

/** What both sides counted. `gateway` follows this one rank. */
export function entryCounts(pipeline: RankPipeline, gateway: Gateway): EntryCounts {
  const counters = pipeline.counters();
  const count = (name: string): number => counters.get(name) ?? 0;
  const status: (RankStatus & { readonly unplacedFound?: number }) | undefined =
    gateway.workers()[0];
  const foundByQuery = Number(status?.unplacedFound ?? 0);
  const unplaced = Number(pipeline.describe(0).unplacedBlocks);
  return {
    dense: count("entries_placed.dense"),
    equalHash: count("entries_placed.equal_hash"),
    recomputed: count("entries_placed.recomputed"),
    foundByQuery,
    notPlaced: Math.max(0, count("entries_unplaced_gone") + unplaced - foundByQuery),
  };
}

/** Algorithm, where its seed comes from and H ("sha256/default/16") once that is proven; else how far it came. */
export function hashSchemeText(pipeline: RankPipeline): string {
  const wire = pipeline.describe(0).engine?.hashScheme;
  if (wire === undefined) return "not told";
  const { state, scheme } = hashSchemeFromWire(wire);
  if (scheme === undefined) return state;
  return `${scheme.algorithm}/${scheme.seedOrigin}/${scheme.unitTokens}`;
}
