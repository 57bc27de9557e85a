/**
 * What it is: everything the index knows of one rank apart from the holder records themselves.
 * Owns: the layout, the group registry (group id <-> bit of a holder), counts by group and medium,
 * the chains it has a part of.
 * Refuses: a layout under which the entries held would mean something else (`accepts`).
 * Does not do: touch nodes; the index keeps both in step.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { MAX_GROUPS } from "./check-rank-layout.ts";
import type { RankLayout } from "./layout.ts";
import type { PooledLayout } from "./layout-pool.ts";
import { RankChains } from "./rank-chains.ts";
import { MEDIA_COUNT } from "./record.ts";

declare const brand: unique symbol;

/** A rank of this index: slot and generation. A number, so that typed arrays can hold it. */
export type RankHandle = number & { readonly [brand]: "RankHandle" };

/** One rank. Fields are written by the index and the walk of the same package only. */
export class RankState {
  readonly handle: RankHandle;
  readonly slot: number;
  readonly chains = new RankChains();
  /** Group ids by bit. */
  readonly groupIds: number[] = [];
  /** Entries by bit * MEDIA_COUNT + medium. */
  entryCounts = new Uint32Array(0);
  /** Bits of groups that ever held an entry, as a signed 32-bit pattern. */
  everStoredMask = 0;
  /** Entries of all groups and media. */
  entryCount = 0;
  /** Shared with ranks of an equal layout. Kept by the roster. */
  layout: PooledLayout | undefined = undefined;
  /** L: added to each end. 0 without a layout. */
  lookaheadTokens = 0;
  /** Grid id while there is a layout, else -1. Kept by the index. */
  gridId = -1;

  constructor(handle: RankHandle, slot: number) {
    this.handle = handle;
    this.slot = slot;
  }

  /** Bytes of the rank's own arrays. */
  get sizeBytes(): number {
    return this.chains.sizeBytes + this.entryCounts.byteLength;
  }

  /** The bit of a group, or -1 when it is not registered. */
  bitOf(groupId: number): number {
    return this.groupIds.indexOf(groupId);
  }

  /**
   * The bit under which a store is kept, or -1: not a group of the layout, or the 33rd without one.
   */
  bitForStore(groupId: number): number {
    const bit = this.bitOf(groupId);
    if (bit !== -1 || this.layout !== undefined || this.groupIds.length === MAX_GROUPS) return bit;
    return this.register(groupId);
  }

  /**
   * Whether `layout` may replace the present one. An empty rank takes any. Otherwise L must stay,
   * and the groups must: the same set as before, or, when there was no layout, at least all that
   * were named.
   */
  accepts(layout: RankLayout | undefined): boolean {
    if (this.entryCount === 0) return true;
    if ((layout?.lookaheadTokens ?? 0) !== this.lookaheadTokens) return false;
    return layout === undefined || this.hasGroupsOf(layout);
  }

  /**
   * Takes a layout that `accepts` admits; returns the bit of each of its groups. `layout` is the
   * caller's to set.
   */
  adopt(layout: RankLayout | undefined): Int32Array {
    invariant(this.accepts(layout), "a layout is adopted only when the entries keep their meaning");
    this.lookaheadTokens = layout?.lookaheadTokens ?? 0;
    if (layout === undefined) return new Int32Array(0);
    this.layout = undefined;
    if (this.entryCount === 0 && !this.isSubsetOf(layout)) {
      this.groupIds.length = 0;
      this.entryCounts = new Uint32Array(0);
      this.everStoredMask = 0;
    }
    const bits: number[] = [];
    for (const group of layout.groups) {
      const bit = this.bitOf(group.groupId);
      bits.push(bit === -1 ? this.register(group.groupId) : bit);
    }
    invariant(this.groupIds.length === bits.length, "with a layout every bit is one of its groups");
    return Int32Array.from(bits);
  }

  /** Counts entries more (> 0) or less (< 0). */
  count(bit: number, mediumId: number, change: number): void {
    const index = bit * MEDIA_COUNT + mediumId;
    const next = (this.entryCounts[index] ?? 0) + change;
    invariant(next >= 0, "a group does not lose more than it held");
    this.entryCounts[index] = next;
    this.entryCount += change;
    if (change > 0) this.everStoredMask |= 1 << bit;
  }

  private register(groupId: number): number {
    const bit = this.groupIds.length;
    invariant(bit < MAX_GROUPS, "a group has a bit");
    this.groupIds.push(groupId);
    const counts = new Uint32Array(this.groupIds.length * MEDIA_COUNT);
    counts.set(this.entryCounts);
    this.entryCounts = counts;
    return bit;
  }

  /** Every registered group is in the layout; without an old layout it may name more. */
  private hasGroupsOf(layout: RankLayout): boolean {
    if (this.layout === undefined) return this.isSubsetOf(layout);
    return this.isSubsetOf(layout) && this.groupIds.length === layout.groups.length;
  }

  private isSubsetOf(layout: RankLayout): boolean {
    return this.groupIds.every((id) => layout.groups.some((group) => group.groupId === id));
  }
}
