/**
 * What it is: what a simulated engine itself would reuse of each probe prompt, after each of its batches.
 * Owns: the probes and the table of answers.
 * Refuses: nothing.
 * Does not do: know bridges or gateways, or the rules of the lookup (engine-lookup.ts does).
 */
import { invariant } from "@kv-group-bridge/runtime";
import { EngineLookup } from "./engine-lookup.ts";
import type { EngineProcess, PublishedBatch } from "./engine-process.ts";
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
/** The token of a probe after its last block. */
const LAST_TOKEN = 7;

interface Probe {
  readonly path: readonly number[];
  /** Blocks that may count: vLLM computes at least the last token. */
  readonly bound: number;
}

/** The table. */
export class TrueAnswers {
  /** Prompts that are asked. */
  readonly prompts: readonly Uint32Array[];
  /** The answers of an empty cache. */
  readonly nothing: ProbeAnswers;
  private readonly leaves: readonly number[];
  private readonly probes: readonly Probe[];
  private readonly lookup: EngineLookup;
  private readonly byStamp = new Map<number, Moment>();
  private readonly held = new Set<number>();

  constructor(plan: FaultPlan, dice: SeededRandomness) {
    this.lookup = new EngineLookup(plan);
    this.leaves = Array.from({ length: PROBES }, () => treeLeaf(dice.below(TREE_LEAVES)));
    // Where hits end inside blocks, it matters where a prompt ends.
    const ends = this.leaves.map(() => ({
      depth: plan.fullStride > 1 && dice.chance(0.5) ? dice.between(2, TREE_DEPTH) : TREE_DEPTH,
      isLonger: plan.fullStride === 1 || dice.chance(0.7),
    }));
    this.prompts = this.leaves.map((leaf, probe) => {
      const { depth = TREE_DEPTH, isLonger = true } = ends[probe] ?? {};
      return Uint32Array.from([...treeTokens(leaf, 0, depth), ...(isLonger ? [LAST_TOKEN] : [])]);
    });
    this.probes = this.leaves.map((leaf, probe) => ({
      path: treePath(leaf),
      bound: Math.floor(((this.prompts[probe]?.length ?? 0) - 1) / TREE_BLOCK_TOKENS),
    }));
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
    const answers = this.probes.map((probe) => this.lookUp(probe));
    const moment = { process: process.id, sequence: batch.sequence, answers };
    invariant(!this.byStamp.has(batch.timestampSeconds), "every batch has its own time stamp");
    this.byStamp.set(batch.timestampSeconds, moment);
    return moment;
  }

  /** The moment of the batch with this time stamp. */
  at(timestampSeconds: number): Moment | undefined {
    return this.byStamp.get(timestampSeconds);
  }

  private lookUp({ path, bound }: Probe): number {
    const depth = this.lookup.reusable(
      ({ groupId }, end) => this.held.has(groupId * 1000 + (path[end - 1] ?? 0)),
      bound,
    );
    return depth * TREE_BLOCK_TOKENS;
  }
}
