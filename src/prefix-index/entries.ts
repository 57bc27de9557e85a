/**
 * What it is: the only code that adds or takes an entry: nodes, records and counts in step.
 * Owns: the number of entries; the ceiling on entries of a rank.
 * Refuses: a store at a ceiling or of a key known at another position (counted in the outcome).
 * Does not do: check handles, groups or media; the index did.
 */
import { invariant } from "@kv-group-bridge/runtime";
import type { Chains } from "./chains.ts";
import type { StoreOutcome } from "./outcomes.ts";
import { packPages } from "./pack-pages.ts";
import { NONE } from "./page-store.ts";
import type { RankRoster } from "./rank-roster.ts";
import type { RankState } from "./rank-state.ts";
import { holderOf, MEDIA_COUNT } from "./record.ts";
import { RunStore } from "./run-store.ts";
import { word } from "./words.ts";

/** A run of keys as it is stored: key i (8 bytes little-endian at 8 * i) at first + i * step. */
export interface KeyRun {
  readonly keys: Uint8Array;
  readonly firstPositionTokens: number;
  readonly stepTokens: number;
  /** The key a step before the first one, 8 bytes, or none. Only a hint where to put the run. */
  readonly parentKey: Uint8Array | undefined;
}

/** The entries of one index. An entry is one offset of one holder's record. */
export class Entries {
  private readonly chains: Chains;
  private readonly roster: RankRoster;
  private readonly runs: RunStore;
  readonly maxPerRank: number;
  /** Entries of all ranks. */
  count = 0;

  constructor(chains: Chains, roster: RankRoster, maxPerRank: number) {
    this.chains = chains;
    this.roster = roster;
    this.maxPerRank = maxPerRank;
    this.runs = new RunStore(chains);
  }

  /** Stores a run that is not empty; the fields of `outcome` grow by its length. */
  store(state: RankState, bit: number, mediumId: number, run: KeyRun, outcome: StoreOutcome): void {
    const { runs } = this;
    const { keys, firstPositionTokens, stepTokens } = run;
    const before = outcome.stored;
    const previous = this.findParent(run);
    const holder = holderOf(mediumId, state.slot, bit);
    runs.begin(holder, stepTokens, previous, this.maxPerRank - state.entryCount);
    let position = firstPositionTokens;
    for (let at = 0; at < keys.length; at += 8) {
      runs.store(keyWord(keys, at), keyWord(keys, at + 4), position, outcome);
      position += stepTokens;
    }
    runs.flush();
    this.change(state, bit, mediumId, outcome.stored - before);
    // Moved nodes may have left pages empty.
    packPages(this.chains, 1);
  }

  /** Removes keys; returns how many were held in that group and medium. */
  remove(state: RankState, bit: number, mediumId: number, keys: Uint8Array): number {
    const { chains } = this;
    const holder = holderOf(mediumId, state.slot, bit);
    let removed = 0;
    for (let at = 0; at < keys.length; at += 8) {
      const node = chains.keys.find(keyWord(keys, at), keyWord(keys, at + 4));
      if (node === NONE) continue;
      if (!chains.lists.removeOne(chains.chainOf(node), holder, chains.offsetOf(node))) continue;
      chains.release(node);
      removed += 1;
    }
    this.change(state, bit, mediumId, -removed);
    packPages(chains, 1);
    return removed;
  }

  /**
   * Removes all entries of a rank in the groups of a mask and one medium, or every medium (-1).
   * Returns how many. Time is that of the rank's chains.
   */
  clear(state: RankState, groups: number, mediumId: number): number {
    const before = this.count;
    for (const chain of state.chains.list()) {
      const first = mediumId === -1 ? 0 : mediumId;
      const last = mediumId === -1 ? MEDIA_COUNT - 1 : mediumId;
      for (let medium = first; medium <= last; medium++) {
        // A chain whose last record went may be another one by now.
        if (state.chains.recordsOf(chain) === 0) break;
        this.clearChain(state, chain, groups, medium);
      }
    }
    packPages(this.chains, Number.POSITIVE_INFINITY);
    return before - this.count;
  }

  private clearChain(state: RankState, chain: number, groups: number, mediumId: number): void {
    const { lists } = this.chains;
    const holder = holderOf(mediumId, state.slot, 0);
    let index = lists.firstOf(chain, holder);
    while (state.chains.recordsOf(chain) > 0 && index < lists.countOf(chain)) {
      const at = lists.baseOf(chain) + index * 2;
      const head = word(lists.wordsOf(chain), at);
      if (head >>> 8 !== holder >>> 5) return;
      const bit = (head >>> 3) & 31;
      if ((groups & (1 << bit)) === 0) {
        index += 1;
        continue;
      }
      const range = word(lists.wordsOf(chain), at + 1);
      const [first, last, shift] = [range >>> 16, range & 0xffff, head & 7];
      lists.deleteAt(chain, index);
      this.chains.releaseRange(chain, first, last, shift);
      this.change(state, bit, mediumId, -(((last - first) >> shift) + 1));
    }
  }

  private findParent(run: KeyRun): number {
    const { parentKey } = run;
    if (parentKey === undefined) return NONE;
    const node = this.chains.keys.find(keyWord(parentKey, 0), keyWord(parentKey, 4));
    if (node === NONE) return NONE;
    const isBefore = this.chains.positionOf(node) === run.firstPositionTokens - run.stepTokens;
    return isBefore ? node : NONE;
  }

  private change(state: RankState, bit: number, mediumId: number, change: number): void {
    if (change === 0) return;
    const wasEmpty = state.entryCount === 0;
    state.count(bit, mediumId, change);
    this.count += change;
    invariant(this.count >= 0, "the index does not lose more than it held");
    if (wasEmpty !== (state.entryCount === 0)) this.roster.emptinessChanged();
  }
}

/** Four bytes little-endian, as a signed 32-bit pattern. */
function keyWord(keys: Uint8Array, at: number): number {
  const low = byte(keys, at) | (byte(keys, at + 1) << 8);
  return low | (byte(keys, at + 2) << 16) | (byte(keys, at + 3) << 24);
}

function byte(keys: Uint8Array, at: number): number {
  return keys[at] as number;
}
