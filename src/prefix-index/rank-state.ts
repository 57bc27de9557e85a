/**
 * What it is: everything the index knows of one rank apart from the holder records themselves.
 * Owns: the layout, the group registry (group id <-> bit of the masks), counts by group and medium,
 * the place table, and the lists of ends that a walk fills.
 * Refuses: a layout under which the entries held would mean something else (`accepts`).
 * Does not do: touch nodes; the index keeps both in step.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { MAX_GROUPS } from "./check-rank-layout.ts";
import { type CompiledLayout, compileLayout } from "./compiled-layout.ts";
import { GroupEnds } from "./end-list.ts";
import { MEDIA_COUNT } from "./holder-arena.ts";
import type { RankLayout } from "./layout.ts";
import { PlaceTable } from "./place-table.ts";

declare const brand: unique symbol;

/** A rank of this index: slot and generation. A number, so that typed arrays can hold it. */
export type RankHandle = number & { readonly [brand]: "RankHandle" };

/** One rank. Fields are written by the index and the walk of the same package only. */
export class RankState {
  readonly handle: RankHandle;
  readonly slot: number;
  readonly places = new PlaceTable();
  /** Group ids by bit. */
  readonly groupIds: number[] = [];
  /** Entries by bit * MEDIA_COUNT + medium. */
  entryCounts = new Uint32Array(0);
  /** Bits of groups that ever held an entry, as a signed 32-bit pattern. */
  everStoredMask = 0;
  /** Entries of all groups and media. */
  entryCount = 0;
  layout: CompiledLayout | undefined = undefined;
  /** L: added to each end. 0 without a layout. */
  lookaheadTokens = 0;
  /** Grid id while there is a layout, else -1. Kept by the index. */
  gridId = -1;
  /** Number of the walk that last filled `ends`. */
  walkNumber = 0;
  /** Ends in layout order; empty without a layout. */
  ends: readonly GroupEnds[] = [];
  /** The same lists by bit. */
  endsByBit: readonly GroupEnds[] = [];
  /** Bit of the layout's lead group, or -1. */
  leadBit = -1;

  constructor(handle: RankHandle, slot: number) {
    this.handle = handle;
    this.slot = slot;
  }

  /** Bytes of the rank's own arrays. */
  get sizeBytes(): number {
    let bytes = this.places.sizeBytes + this.entryCounts.byteLength;
    for (const list of this.ends) bytes += list.tokens.byteLength;
    return bytes;
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

  /** Takes a layout that `accepts` admits and `checkRankLayout` finds sound. */
  adopt(layout: RankLayout | undefined): void {
    invariant(this.accepts(layout), "a layout is adopted only when the entries keep their meaning");
    this.layout = undefined;
    this.ends = [];
    this.endsByBit = [];
    this.leadBit = -1;
    this.walkNumber = 0;
    this.lookaheadTokens = layout?.lookaheadTokens ?? 0;
    if (layout === undefined) return;
    if (this.entryCount === 0 && !this.isSubsetOf(layout)) {
      this.groupIds.length = 0;
      this.entryCounts = new Uint32Array(0);
      this.everStoredMask = 0;
    }
    const compiled = compileLayout(layout);
    const ends: GroupEnds[] = [];
    const endsByBit: GroupEnds[] = [];
    for (const [index, group] of layout.groups.entries()) {
      const known = this.bitOf(group.groupId);
      const bit = known === -1 ? this.register(group.groupId) : known;
      const list = new GroupEnds(group.rule === "full" ? group.blockSizeTokens : 0);
      ends.push(list);
      endsByBit[bit] = list;
      if (index === compiled.leadGroup) this.leadBit = bit;
    }
    this.layout = compiled;
    this.ends = ends;
    this.endsByBit = endsByBit;
    invariant(this.groupIds.length === ends.length, "with a layout every bit is one of its groups");
  }

  /** Empties the lists of ends for a walk. */
  startWalk(walkNumber: number): void {
    const { ends } = this;
    for (let i = 0; i < ends.length; i++) (ends[i] as GroupEnds).restart();
    this.walkNumber = walkNumber;
  }

  /** Counts one entry more (+1) or less (-1). */
  count(bit: number, mediumId: number, change: 1 | -1): void {
    const index = bit * MEDIA_COUNT + mediumId;
    const next = (this.entryCounts[index] as number) + change;
    invariant(next >= 0, "a group does not lose more than it held");
    this.entryCounts[index] = next;
    this.entryCount += change;
    if (change === 1) this.everStoredMask |= 1 << bit;
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
