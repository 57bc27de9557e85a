/**
 * What it is: the only code that adds or takes an entry: nodes, holder records, places and counts
 * in step.
 * Owns: the number of entries; the ceiling on entries of a rank.
 * Refuses: a store at a ceiling or of a key known at another position (counted in the outcome).
 * Does not do: check handles, groups or media; the index did.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { holderTag, MEDIA_COUNT } from "./holder-arena.ts";
import type { NodeStore } from "./node-store.ts";
import type { RankRoster } from "./rank-roster.ts";
import type { RankState } from "./rank-state.ts";

/** What became of each key of a run; the fields add up to the run's length. */
export interface StoreOutcome {
  stored: number;
  /** Held before in that group and medium: nothing changed. */
  alreadyHeld: number;
  /**
   * The key is known at another position: a 64-bit clash or a confused peer. The older one stays.
   */
  refusedClash: number;
  /** The node or entry ceiling is reached. */
  refusedAtCeiling: number;
  /** The group is not one of the layout, or is the 33rd of a rank without a layout. */
  refusedGroup: number;
  /** The run ends beyond MAX_POSITION_TOKENS; the whole run is refused. */
  refusedPosition: number;
}

/** What became of each key of a removal. */
export interface RemoveOutcome {
  readonly removed: number;
  /** Not held in that group and medium: nothing changed. */
  readonly absent: number;
}

/** An outcome of no keys. */
export function emptyOutcome(): StoreOutcome {
  return {
    stored: 0,
    alreadyHeld: 0,
    refusedClash: 0,
    refusedAtCeiling: 0,
    refusedGroup: 0,
    refusedPosition: 0,
  };
}

/** The entries of one index. An entry is one bit of one holder record. */
export class Entries {
  private readonly nodes: NodeStore;
  private readonly roster: RankRoster;
  readonly maxPerRank: number;
  /** Entries of all ranks. */
  count = 0;

  constructor(nodes: NodeStore, roster: RankRoster, maxPerRank: number) {
    this.nodes = nodes;
    this.roster = roster;
    this.maxPerRank = maxPerRank;
  }

  /** Stores one key; adds 1 to one field of `outcome`. */
  store(
    state: RankState,
    bit: number,
    mediumId: number,
    keyLow: number,
    keyHigh: number,
    positionTokens: number,
    outcome: StoreOutcome,
  ): void {
    const { nodes } = this;
    let node = nodes.keys.find(keyLow, keyHigh);
    if (node !== -1 && nodes.positions[node] !== positionTokens) {
      outcome.refusedClash += 1;
      return;
    }
    const index = node === -1 ? -1 : state.places.get(node, mediumId);
    const mask = index === -1 ? 0 : nodes.holders.maskAt(node, index);
    if ((mask & (1 << bit)) !== 0) {
      outcome.alreadyHeld += 1;
      return;
    }
    const isFull = state.entryCount >= this.maxPerRank;
    if (node === -1 && !isFull) node = nodes.create(keyLow, keyHigh, positionTokens);
    if (isFull || node === -1) {
      outcome.refusedAtCeiling += 1;
      return;
    }
    if (index === -1) {
      const tag = holderTag(state.slot, mediumId);
      state.places.set(node, mediumId, nodes.holders.add(node, tag, 1 << bit));
    } else {
      nodes.holders.setMask(node, index, mask | (1 << bit));
    }
    state.count(bit, mediumId, 1);
    this.count += 1;
    outcome.stored += 1;
  }

  /** Removes one key; false when it is not held in that group and medium. */
  remove(
    state: RankState,
    bit: number,
    mediumId: number,
    keyLow: number,
    keyHigh: number,
  ): boolean {
    const node = this.nodes.keys.find(keyLow, keyHigh);
    const index = node === -1 ? -1 : state.places.get(node, mediumId);
    if (index === -1) return false;
    const before = this.count;
    this.drop(state, node, mediumId, index, 1 << bit);
    return this.count < before;
  }

  /**
   * Removes all entries of a rank in the groups of a mask and one medium, or every medium (-1).
   * Returns how many. Time is that of listing the rank's places.
   */
  clear(state: RankState, groups: number, mediumId: number): number {
    const { places } = state;
    const before = this.count;
    for (let slot = 0; slot < places.slotCount; ) {
      const place = places.placeAt(slot);
      const medium = place % MEDIA_COUNT;
      const isInScope = place !== -1 && (mediumId === -1 || mediumId === medium);
      const node = (place - medium) / MEDIA_COUNT;
      const isGone = isInScope && this.drop(state, node, medium, places.get(node, medium), groups);
      // The deletion may have moved a later place into this slot.
      if (!isGone) slot += 1;
    }
    if (places.count === 0) places.reset();
    return before - this.count;
  }

  /** Takes groups out of one holder record; true when nothing was left and the record went too. */
  private drop(
    state: RankState,
    node: number,
    mediumId: number,
    index: number,
    groups: number,
  ): boolean {
    const mask = this.nodes.holders.maskAt(node, index);
    const dropped = mask & groups;
    for (let rest = dropped; rest !== 0; rest &= rest - 1) {
      state.count(31 - Math.clz32(rest & -rest), mediumId, -1);
      this.count -= 1;
    }
    invariant(this.count >= 0, "the index does not lose more than it held");
    if (mask !== dropped) {
      if (dropped !== 0) this.nodes.holders.setMask(node, index, mask & ~dropped);
      return false;
    }
    state.places.delete(node, mediumId);
    const moved = this.nodes.removeHolder(node, index);
    if (moved !== -1) this.roster.holderMoved(node, moved, index);
    return true;
  }
}
