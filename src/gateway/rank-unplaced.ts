/**
 * What it is: the unplaced blocks of one rank: those that its bridge told and holds, found or not.
 * Owns: the blocks by group, medium and hash, and the entries of the index that stand for found ones.
 * Invariants: while there is a scheme every block is found or searched, without one none is; a found block's entry
 * goes with the block. If the bridge places a found block by an event and removes that again, the entry is gone while
 * the block is still told: that under-credits.
 * Refuses: blocks beyond the bounds of limits-unplaced.ts; they are dropped and counted.
 * Does not do: search (place-search.ts does), check messages.
 */
import { ALL, type PrefixIndex, type RankHandle } from "@kv-group-bridge/prefix-index";
import { type EngineDescription, type HashScheme, LIMITS } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { ApplyCounts } from "./apply-counts.ts";
import { KEY_BYTES } from "./check-events.ts";
import { GPU_MEDIUM_ID } from "./media.ts";
import type { PlaceSearch } from "./place-search.ts";
import { blockTokensOf } from "./rank-layout.ts";
import { type SchemeBlocks, schemeName } from "./scheme-blocks.ts";
import { type BlockOwner, keyTextAt, UnplacedBlock } from "./unplaced-block.ts";

/** The view of the rank. */
export interface UnplacedView {
  readonly engine: EngineDescription | undefined;
  /** A block of the GPU was lost at a bound after it had been taken. */
  limit(): void;
}

/** What a rank's unplaced blocks need. */
export interface RankUnplacedOptions {
  readonly search: PlaceSearch;
  readonly index: PrefixIndex;
  readonly rank: RankHandle;
  readonly counts: ApplyCounts;
  readonly view: UnplacedView;
}

/** Blocks of one group in one medium, by hash key. */
interface Scope {
  readonly groupId: number;
  readonly mediumId: number;
  readonly blocks: Map<string, UnplacedBlock>;
}

/** See the file header. */
export class RankUnplaced implements BlockOwner {
  /** Blocks told and held now. */
  toldBlocks = 0;
  /** Those of them that have been found. */
  foundBlocks = 0;
  /** Blocks found since the rank began anew. Total. */
  foundTotal = 0;
  /** The last query with a block of the GPU that may be in its prompt, beyond what can be hashed. */
  obstructedQuery = -1;
  private readonly options: RankUnplacedOptions;
  /** By `scopeNumber`; none is empty. */
  private readonly scopes = new Map<number, Scope>();
  private scheme: SchemeBlocks | undefined = undefined;

  constructor(options: RankUnplacedOptions) {
    this.options = options;
  }

  /** Blocks that queries look for now. */
  get searchedBlocks(): number {
    return this.scheme === undefined ? 0 : this.toldBlocks - this.foundBlocks;
  }

  /** True while blocks of the GPU are told and there is no scheme to search them with. */
  get isUnsearchable(): boolean {
    if (this.scheme !== undefined) return false;
    for (const { mediumId } of this.scopes.values()) if (mediumId === GPU_MEDIUM_ID) return true;
    return false;
  }

  /**
   * The engine's scheme and look-ahead; undefined = none that can be used. Under another one than before all is
   * searched anew: what found blocks stand for may have changed (an adapter's path), and the next query that could
   * use them finds them again.
   */
  setScheme(scheme: HashScheme | undefined, lookaheadTokens: number): void {
    const { search } = this.options;
    const before = this.scheme;
    const name = scheme === undefined ? undefined : schemeName(scheme, lookaheadTokens);
    if (name === before?.name) return;
    for (const { blocks } of this.scopes.values()) {
      for (const block of blocks.values()) this.unplace(block);
    }
    if (before !== undefined) search.leave(before);
    this.scheme = scheme === undefined ? undefined : search.join(scheme, lookaheadTokens);
    for (const scope of this.scopes.values()) {
      for (const block of scope.blocks.values()) {
        if (this.begin(block)) continue;
        this.drop(scope, block);
        this.options.counts.unplacedDropped++;
        if (block.mediumId === GPU_MEDIUM_ID) this.options.view.limit();
      }
    }
  }

  /**
   * Takes blocks that are told: a key of each hash and of each tail, checked. Known ones stay as they are. False =
   * blocks were dropped at a bound.
   */
  store(
    groupId: number,
    mediumId: number,
    blockSizeTokens: number,
    hashKeys: Uint8Array,
    tailKeys: Uint8Array,
  ): boolean {
    const { counts } = this.options;
    const tails = new DataView(tailKeys.buffer, tailKeys.byteOffset, tailKeys.byteLength);
    let isKept = true;
    for (let at = 0; at < hashKeys.length; at += KEY_BYTES) {
      const hashKey = keyTextAt(hashKeys, at);
      if (this.scopeOf(groupId, mediumId)?.blocks.has(hashKey) === true) continue;
      const block = new UnplacedBlock({
        owner: this,
        groupId,
        mediumId,
        blockSizeTokens,
        hashKey,
        tailLow: tails.getUint32(at, true),
        tailHigh: tails.getUint32(at + 4, true),
      });
      if (this.take(block)) counts.unplacedStored++;
      else {
        counts.unplacedDropped++;
        isKept = false;
      }
    }
    return isKept;
  }

  /** Takes back blocks by the keys of their hashes; where one was found, its entry goes too. */
  remove(groupId: number, mediumId: number, hashKeys: Uint8Array): void {
    const scope = this.scopeOf(groupId, mediumId);
    if (scope === undefined) return;
    for (let at = 0; at < hashKeys.length; at += KEY_BYTES) {
      const block = scope.blocks.get(keyTextAt(hashKeys, at));
      if (block === undefined) continue;
      this.unplace(block);
      this.drop(scope, block);
      this.options.counts.unplacedRemoved++;
    }
  }

  /** Forgets a scope (ALL = every group, every medium) whose entries the caller clears in the index. */
  clear(groupId: number, mediumId: number): void {
    for (const scope of this.scopes.values()) {
      if (groupId !== ALL && groupId !== scope.groupId) continue;
      if (mediumId !== ALL && mediumId !== scope.mediumId) continue;
      for (const block of scope.blocks.values()) {
        block.ownsEntry = false;
        this.unplace(block);
        this.drop(scope, block);
      }
    }
  }

  /** As `clear` of everything, and gives the scheme back. Nothing may follow. */
  retire(): void {
    this.clear(ALL, ALL);
    this.setScheme(undefined, 0);
  }

  /** See `BlockOwner`. */
  found(block: UnplacedBlock, prefixKey: Uint8Array, endTokens: number): void {
    const { index, rank, counts, view } = this.options;
    const { groupId, mediumId, blockSizeTokens } = block;
    block.prefixKey = prefixKey;
    this.foundBlocks++;
    this.foundTotal++;
    counts.unplacedFound++;
    // Where a whole block of the group ends there is no partial entry, and off its own grid there is no block: this
    // is one of another cache, and no lookup of the engine reads it (the bridge drops such entries too).
    const whole = blockTokensOf(this.options.view.engine, groupId) ?? blockSizeTokens;
    const isPartial = blockSizeTokens < whole;
    if (endTokens % blockSizeTokens !== 0 || (isPartial && endTokens % whole === 0)) {
      counts.refusedBlocks++;
      return;
    }
    const outcome = index.storeRun(rank, groupId, mediumId, prefixKey, endTokens, blockSizeTokens);
    block.ownsEntry = outcome.stored === 1;
    if (outcome.stored + outcome.alreadyHeld === 1) return;
    counts.refusedBlocks++;
    if (mediumId === GPU_MEDIUM_ID) view.limit();
  }

  /** See `BlockOwner`. */
  obstructed(block: UnplacedBlock, queryNumber: number): void {
    if (block.mediumId === GPU_MEDIUM_ID) this.obstructedQuery = queryNumber;
  }

  /** Recounts; throws InvariantViolation. For tests. */
  audit(): void {
    let told = 0;
    let found = 0;
    for (const { blocks } of this.scopes.values()) {
      invariant(blocks.size > 0, "no scope is empty");
      for (const [hashKey, block] of blocks) {
        const isFound = block.prefixKey !== undefined;
        const isSearched = block.tailLink !== undefined;
        told++;
        if (isFound) found++;
        invariant(block.hashKey === hashKey, "a block stands under its hash");
        invariant(isSearched === (block.hashLink !== undefined), "a block has both links or none");
        invariant(isFound || !block.ownsEntry, "only a found block has an entry");
        const isDue = this.scheme !== undefined && !isFound;
        invariant(isSearched === isDue, "with a scheme what is not found is searched");
      }
    }
    invariant(told === this.toldBlocks && found === this.foundBlocks, "blocks are counted once");
  }

  private scopeOf(groupId: number, mediumId: number): Scope | undefined {
    return this.scopes.get(scopeNumber(groupId, mediumId));
  }

  /** Keeps a block and begins to search it; false = there is no room for it. */
  private take(block: UnplacedBlock): boolean {
    const { search } = this.options;
    if (this.toldBlocks >= LIMITS.unplacedBlocksPerRank.value || !search.admit()) return false;
    if (!this.begin(block)) {
      search.release();
      return false;
    }
    const { groupId, mediumId } = block;
    let scope = this.scopeOf(groupId, mediumId);
    if (scope === undefined) {
      scope = { groupId, mediumId, blocks: new Map() };
      this.scopes.set(scopeNumber(groupId, mediumId), scope);
    }
    scope.blocks.set(block.hashKey, block);
    this.toldBlocks++;
    return true;
  }

  /** Begins to search a block; false = refused. Without a scheme it waits for one. */
  private begin(block: UnplacedBlock): boolean {
    return this.scheme === undefined || this.options.search.add(block, this.scheme);
  }

  /** Ends the search for a block, or takes its entry back. */
  private unplace(block: UnplacedBlock): void {
    const { search, index, rank } = this.options;
    const { prefixKey, groupId, mediumId } = block;
    if (block.tailLink !== undefined && this.scheme !== undefined)
      search.remove(block, this.scheme);
    if (prefixKey === undefined) return;
    if (block.ownsEntry) index.removeKeys(rank, groupId, mediumId, prefixKey);
    block.ownsEntry = false;
    block.prefixKey = undefined;
    this.foundBlocks--;
  }

  /** Keeps a block no more that is neither searched nor found. */
  private drop(scope: Scope, block: UnplacedBlock): void {
    scope.blocks.delete(block.hashKey);
    if (scope.blocks.size === 0) this.scopes.delete(scopeNumber(scope.groupId, scope.mediumId));
    this.toldBlocks--;
    this.options.search.release();
  }
}

/** One number for each group (uint32) and medium. */
function scopeNumber(groupId: number, mediumId: number): number {
  return groupId * LIMITS.mediaPerRank.value + mediumId;
}
