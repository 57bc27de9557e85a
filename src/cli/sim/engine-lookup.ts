/**
 * What it is: how much of a prompt a simulated engine would reuse of what it holds: vLLM's lookup rules, in blocks of the tree.
 * Owns: nothing. It shares no line with the index that it judges.
 * Refuses: nothing.
 * Does not do: know bridges or gateways.
 */
import { groupsOf, type SimGroup, type SimLayout, schedulerStride } from "./engine-layout.ts";

/** Whether a group holds the entry that ends after so many blocks of the prompt. */
export type HoldsEnd = (group: SimGroup, depth: number) => boolean;

/** The lookup of one layout. */
export class EngineLookup {
  private readonly groups: readonly SimGroup[];
  private readonly windowBlocks: number;
  private readonly stride: number;
  private readonly isFine: boolean;

  constructor(layout: SimLayout) {
    this.groups = groupsOf(layout);
    this.windowBlocks = layout.windowBlocks;
    this.stride = schedulerStride(this.groups);
    this.isFine = layout.isFine;
  }

  /** Blocks of the prompt, at most `bound`. */
  reusable(holds: HoldsEnd, bound: number): number {
    return this.isFine ? this.fine(holds, bound) : this.coarse(holds, bound);
  }

  /** The largest multiple of S that every group accepts. */
  private coarse(holds: HoldsEnd, bound: number): number {
    for (let depth = bound - (bound % this.stride); depth > 0; depth -= this.stride) {
      if (this.groups.every((group) => this.resumes(group, holds, depth))) return depth;
    }
    return 0;
  }

  /** Full attention is searched once, with the largest entry inside its next block; the others lower that until all agree. */
  private fine(holds: HoldsEnd, bound: number): number {
    const [full, ...others] = this.groups;
    if (full === undefined) return 0;
    let depth = 0;
    while (depth + full.stride <= bound && holds(full, depth + full.stride)) depth += full.stride;
    for (let inside = Math.min(depth + full.stride - 1, bound); inside > depth; inside--) {
      if (holds(full, inside)) depth = inside;
    }
    for (let before = -1; before !== depth; ) {
      before = depth;
      for (const group of others) {
        while (depth > 0 && !this.resumes(group, holds, depth)) depth--;
      }
    }
    return depth;
  }

  /** Whether a group can go on after the first `depth` blocks. */
  private resumes(group: SimGroup, holds: HoldsEnd, depth: number): boolean {
    if (group.kind === "mamba") return holds(group, depth);
    const first = group.kind === "sliding_window" ? Math.max(0, depth - this.windowBlocks) : 0;
    for (let end = depth; end > first; end -= group.stride) if (!holds(group, end)) return false;
    return true;
  }
}
