/**
 * What it is: the ends that one walk finds for one rank with a layout, by group.
 * Owns: the lists, and the present run: consecutive ends with one group mask. A rank that holds a
 * prompt holds long runs of it, so meeting an end mostly moves one number; lists are written by
 * run.
 * Refuses: nothing; the walk meets ascending ends of the rank's grid.
 * Does not do: know keys; apply the rules.
 */
import type { CompiledLayout } from "./compiled-layout.ts";
import { GroupEnds } from "./end-list.ts";

/** Lists of one rank, reused from walk to walk. */
export class RankEnds {
  readonly layout: CompiledLayout;
  /** In layout order; whole after `finish`. */
  readonly lists: readonly GroupEnds[];
  /** The bit of each list. */
  readonly bits: readonly number[];
  /** Bit mask of the lead group, 0 without one. */
  private readonly leadMask: number;
  private readonly leadList: GroupEnds | undefined;
  private readonly unitTokens: number;
  /** Number of the walk that the lists belong to. */
  walkNumber = 0;
  private runMask = 0;
  private runFirstTokens = 0;
  private runLastTokens = 0;
  private isLeadRun = false;

  /** `bits`: the mask bit of each group of the layout. */
  constructor(layout: CompiledLayout, bits: readonly number[]) {
    this.layout = layout;
    this.bits = bits;
    this.lists = bits.map((_, group) => {
      const { rule, blockSizeTokens } = layout.classes[layout.classOfGroup[group] ?? 0] ?? {};
      return new GroupEnds(rule === "full" ? (blockSizeTokens ?? 0) : 0);
    });
    this.leadList = this.lists[layout.leadGroup];
    this.leadMask = layout.leadGroup === -1 ? 0 : 1 << (bits[layout.leadGroup] ?? 0);
    this.unitTokens = layout.hashBlockSizeTokens;
  }

  /** Empties the lists for a walk. */
  start(walkNumber: number): void {
    const { lists } = this;
    for (let i = 0; i < lists.length; i++) (lists[i] as GroupEnds).restart();
    this.walkNumber = walkNumber;
    this.runMask = 0;
    this.isLeadRun = false;
  }

  /**
   * Takes the next larger end and its group mask (a signed 32-bit pattern, not 0). True while the
   * lead group's chain may be unbroken up to here, so that the walk has to go on for this rank.
   */
  meet(endTokens: number, mask: number): boolean {
    if (mask === this.runMask && endTokens === this.runLastTokens + this.unitTokens) {
      this.runLastTokens = endTokens;
      return this.isLeadRun;
    }
    this.finish();
    this.runMask = mask;
    this.runFirstTokens = endTokens;
    this.runLastTokens = endTokens;
    // A run has every end of the grid, so a chain that it continues stays unbroken to its last end.
    this.isLeadRun = (mask & this.leadMask) !== 0 && this.leadList?.isInReach(endTokens) === true;
    return this.isLeadRun;
  }

  /** Writes the present run to the lists. */
  finish(): void {
    if (this.runMask === 0) return;
    const { bits, lists, runMask } = this;
    for (let i = 0; i < bits.length; i++) {
      if ((runMask & (1 << (bits[i] as number))) === 0) continue;
      const list = lists[i] as GroupEnds;
      list.recordRun(this.runFirstTokens, this.runLastTokens, this.unitTokens);
    }
    this.runMask = 0;
  }

  /** Bytes of all lists. */
  get sizeBytes(): number {
    return this.lists.reduce((bytes, list) => bytes + list.tokens.byteLength, 0);
  }
}
