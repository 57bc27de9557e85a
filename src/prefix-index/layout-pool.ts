/**
 * What it is: compiled layouts shared by ranks whose layouts and bits are equal, so that what follows from a
 * layout and a prompt's length alone is computed once a query.
 * Owns: the layouts in use and how many ranks use each.
 * Refuses: releasing a layout that nobody uses (our bug).
 * Does not do: know ranks.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { type CompiledLayout, compileLayout } from "./compiled-layout.ts";
import type { RankLayout } from "./layout.ts";

/** An answer of `computeReuse`. */
interface Answer {
  readonly reusableTokens: number;
  readonly limitingGroupId: number;
}

/** A layout in use, with answers of the present query (by its number) for ranks that have it. */
export class PooledLayout {
  readonly id: number;
  readonly compiled: CompiledLayout;
  readonly text: string;
  /** The bit of each group, in layout order. */
  readonly bits: Int32Array;
  users = 0;
  /** The query of the answer of a rank that holds nothing of the prompt. */
  emptyQuery = 0;
  emptyTokens = 0;
  emptyLimitingGroupId = -1;
  /** The query of the answer of the rank computed last. */
  foundQuery = 0;
  foundSlot = -1;
  foundTokens = 0;
  foundLimitingGroupId = -1;

  constructor(id: number, compiled: CompiledLayout, text: string, bits: Int32Array) {
    this.id = id;
    this.compiled = compiled;
    this.text = text;
    this.bits = bits;
  }

  /** Keeps the answer of an empty rank. */
  keepEmpty(queryNumber: number, answer: Answer): void {
    this.emptyQuery = queryNumber;
    this.emptyTokens = answer.reusableTokens;
    this.emptyLimitingGroupId = answer.limitingGroupId;
  }

  /** Keeps the answer of a rank that holds something. */
  keepFound(queryNumber: number, slot: number, answer: Answer): void {
    this.foundQuery = queryNumber;
    this.foundSlot = slot;
    this.foundTokens = answer.reusableTokens;
    this.foundLimitingGroupId = answer.limitingGroupId;
  }
}

/** The layouts of one index. */
export class LayoutPool {
  /** Undefined for free ids. */
  readonly byId: (PooledLayout | undefined)[] = [];
  private readonly byText = new Map<string, PooledLayout>();

  /** The pooled form of a sound layout whose groups have these bits, with one user more. */
  acquire(layout: RankLayout, bits: Int32Array): PooledLayout {
    const text = textOf(layout, bits);
    let pooled = this.byText.get(text);
    if (pooled === undefined) {
      const free = this.byId.indexOf(undefined);
      const id = free === -1 ? this.byId.length : free;
      pooled = new PooledLayout(id, compileLayout(layout), text, bits);
      this.byId[id] = pooled;
      this.byText.set(text, pooled);
    }
    pooled.users += 1;
    return pooled;
  }

  /** Gives a layout up. */
  release(pooled: PooledLayout): void {
    invariant(pooled.users > 0, "a released layout has a user");
    pooled.users -= 1;
    if (pooled.users > 0) return;
    this.byText.delete(pooled.text);
    this.byId[pooled.id] = undefined;
  }

  /** Layouts in use. */
  get size(): number {
    return this.byText.size;
  }
}

/** The same text for the same layout and bits, and for no other. */
function textOf(layout: RankLayout, bits: Int32Array): string {
  const { coordinator, eagleBound, isFine, lookaheadTokens, replayTokens } = layout;
  const { schedulerBlockSizeTokens, hashBlockSizeTokens } = layout;
  const groups = layout.groups.map((group) => [
    group.groupId,
    group.rule,
    group.blockSizeTokens,
    group.windowTokens,
    group.chunkTokens,
    group.specClass,
    group.dropsBlock,
  ]);
  const numbers = [schedulerBlockSizeTokens, hashBlockSizeTokens, lookaheadTokens, replayTokens];
  return JSON.stringify([coordinator, eagleBound, isFine, numbers, groups, [...bits]]);
}
