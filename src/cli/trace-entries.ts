/**
 * What it is: how the entries of a played trace got their place, and what the bridge found out of the engine's hashes.
 * Owns: what was seen of both sides' counters from batch to batch.
 * Refuses: nothing.
 * Does not do: place anything: it reads what bridge and gateway counted.
 */
import type { RankPipeline } from "@kv-group-bridge/bridge";
import type { Gateway, RankStatus } from "@kv-group-bridge/gateway";
import { hashSchemeFromWire } from "@kv-group-bridge/protocol";

/**
 * Entries of all groups and media over the whole trace: each time one began to be held it counts once. The first five
 * add up to all of them.
 */
export interface EntryCounts {
  /** By its own dense store. */
  readonly dense: number;
  /** By the equal hash of an entry that had a place. */
  readonly equalHash: number;
  /** By recomputing hashes over the tokens of a store. */
  readonly recomputed: number;
  /** Never by the bridge, but by the gateway: a prompt's own hash was among those without a place. At least so many. */
  readonly queryAlone: number;
  /** By nobody: gone without a place, or still without one at the end, and no prompt had it. At most so many. */
  readonly notPlaced: number;
  /** Places that queries found; the bridge found some of them later too. */
  readonly found: number;
}

/** What both sides say at one moment. */
interface Reading {
  /** Told as unplaced and found by a query, held now. */
  readonly foundNow: number;
  /** Found since the gateway's view began anew. Total. */
  readonly foundTotal: number;
  /** Gone without a place of the bridge's. Total. */
  readonly gone: number;
  /** Placed otherwise than densely: only such a place can come after a query's. Total. */
  readonly placedLater: number;
}

/**
 * Follows one path. When entries that a query had found go, both sides together do not say whether the engine let them go
 * or the bridge placed them; it counts as little as possible for the query.
 */
export class EntryTally {
  private readonly pipeline: RankPipeline;
  private readonly gateway: Gateway;
  private before: Reading;
  private found = 0;
  private goneFound = 0;

  /** `gateway` follows this rank alone, and follows it to the last message after each batch. */
  constructor(pipeline: RankPipeline, gateway: Gateway) {
    this.pipeline = pipeline;
    this.gateway = gateway;
    this.before = this.read();
  }

  /** To be called before each batch: what was found since the last one is counted. */
  begin(): void {
    const now = this.read();
    this.found += Math.max(0, now.foundTotal - this.before.foundTotal);
    this.before = now;
  }

  /** To be called after each batch. */
  end(): void {
    const { before } = this;
    const now = this.read();
    const left = before.foundNow - now.foundNow - (now.placedLater - before.placedLater);
    this.goneFound += Math.min(Math.max(0, left), Math.max(0, now.gone - before.gone));
    this.before = now;
  }

  /** After the last batch and the last query. */
  counts(): EntryCounts {
    this.begin();
    const { foundNow, gone } = this.before;
    const queryAlone = this.goneFound + foundNow;
    const unplaced = Number(this.pipeline.describe(0).unplacedBlocks);
    return {
      dense: this.count("dense"),
      equalHash: this.count("equal_hash"),
      recomputed: this.count("recomputed"),
      queryAlone,
      notPlaced: Math.max(0, gone + unplaced - queryAlone),
      found: this.found,
    };
  }

  private count(way: string): number {
    return this.pipeline.counters().get(`entries_placed.${way}`) ?? 0;
  }

  private read(): Reading {
    const status: (RankStatus & UnplacedStatus) | undefined = this.gateway.workers()[0];
    const told = Number(this.pipeline.describe(0).toldUnplacedBlocks);
    return {
      foundNow: Math.max(0, told - (status?.unplacedBlocks ?? told)),
      foundTotal: status?.unplacedFound ?? 0,
      gone: this.pipeline.counters().get("entries_unplaced_gone") ?? 0,
      placedLater: this.count("equal_hash") + this.count("recomputed"),
    };
  }
}

/** What a gateway tells that finds places. */
interface UnplacedStatus {
  readonly unplacedBlocks?: number;
  readonly unplacedFound?: number;
}

/** Algorithm, where its seed comes from and H ("sha256/default/16") once that is proven; else how far it came. */
export function hashSchemeText(pipeline: RankPipeline): string {
  const wire = pipeline.describe(0).engine?.hashScheme;
  if (wire === undefined) return "not told";
  const { state, scheme } = hashSchemeFromWire(wire);
  if (scheme === undefined) return state;
  return `${scheme.algorithm}/${scheme.seedOrigin}/${scheme.unitTokens}`;
}
