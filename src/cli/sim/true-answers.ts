/**
 * What it is: what a simulated engine itself would reuse of each probe prompt, after each of its batches.
 * Owns: the probes and the table of answers. It is written from vLLM's lookup rules and shares no line with
 * the index that it judges.
 * Refuses: nothing.
 * Does not do: know bridges or gateways.
 */
import { invariant } from "@kv-group-bridge/runtime";
import {
  type EngineProcess,
  groupsOf,
  type PublishedBatch,
  type SimGroup,
} from "./engine-process.ts";
import type { FaultPlan } from "./fault-plan.ts";
import {
  TREE_BLOCK_TOKENS,
  TREE_DEPTH,
  TREE_LEAVES,
  treeLeaf,
  treePath,
  treeTokens,
} from "./prompt-tree.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** Reusable tokens by probe. */
export type ProbeAnswers = readonly number[];

/** A moment of history: one batch of one engine process. */
export interface Moment {
  readonly process: number;
  readonly sequence: bigint;
  readonly answers: ProbeAnswers;
}

const PROBES = 6;

/** The table. */
export class TrueAnswers {
  /** Prompts that are asked; each longer than the deepest block, so that all of it may count. */
  readonly prompts: readonly Uint32Array[];
  /** The answers of an empty cache. */
  readonly nothing: ProbeAnswers;
  private readonly leaves: readonly number[];
  private readonly groups: readonly SimGroup[];
  private readonly windowBlocks: number;
  private readonly byStamp = new Map<number, Moment>();
  private readonly held = new Set<number>();

  constructor(plan: FaultPlan, dice: SeededRandomness) {
    this.groups = groupsOf(plan);
    this.windowBlocks = Math.ceil((plan.windowBlocks * TREE_BLOCK_TOKENS - 1) / TREE_BLOCK_TOKENS);
    this.leaves = Array.from({ length: PROBES }, () => treeLeaf(dice.below(TREE_LEAVES)));
    this.prompts = this.leaves.map((leaf) =>
      Uint32Array.from([...treeTokens(leaf, 0, TREE_DEPTH), 7]),
    );
    this.nothing = this.leaves.map(() => 0);
  }

  /** A leaf that a request of the engine asks for: often a probe, so that answers are rarely 0. */
  drawLeaf(dice: SeededRandomness): number {
    const leaf = dice.chance(0.6) ? this.leaves[dice.below(PROBES)] : undefined;
    return leaf ?? treeLeaf(dice.below(TREE_LEAVES));
  }

  /** Notes what the process answers after a batch that it has just published. */
  note(process: EngineProcess, batch: PublishedBatch): Moment {
    process.held(this.held);
    const answers = this.leaves.map((leaf) => this.lookUp(treePath(leaf)));
    const moment = { process: process.id, sequence: batch.sequence, answers };
    invariant(!this.byStamp.has(batch.timestampSeconds), "every batch has its own time stamp");
    this.byStamp.set(batch.timestampSeconds, moment);
    return moment;
  }

  /** The moment of the batch with this time stamp. */
  at(timestampSeconds: number): Moment | undefined {
    return this.byStamp.get(timestampSeconds);
  }

  private lookUp(path: readonly number[]): number {
    for (let depth = TREE_DEPTH; depth > 0; depth--) {
      if (this.groups.every((group) => this.resumes(group, path, depth))) {
        return depth * TREE_BLOCK_TOKENS;
      }
    }
    return 0;
  }

  /** Whether a group can go on after the first `depth` blocks. */
  private resumes(group: SimGroup, path: readonly number[], depth: number): boolean {
    const isHeld = (position: number): boolean =>
      this.held.has(group.groupId * 1000 + (path[position - 1] ?? 0));
    if (group.kind === "mamba") return depth % group.stride === 0 && isHeld(depth);
    const needed = group.kind === "sliding_window" ? Math.min(depth, this.windowBlocks) : depth;
    for (let back = 0; back < needed; back++) if (!isHeld(depth - back)) return false;
    return true;
  }
}
