/**
 * What it is: compiled layouts shared by ranks whose layouts are equal, so that what follows from a
 * layout and a prompt's length alone is computed once a query.
 * Owns: the layouts in use and how many ranks use each.
 * Refuses: releasing a layout that nobody uses (our bug).
 * Does not do: know ranks.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { type CompiledLayout, compileLayout } from "./compiled-layout.ts";
import type { RankLayout } from "./layout.ts";

/** A rank whose answer is known: its slot, and the bits of its groups. */
interface Answered {
  readonly slot: number;
  readonly bits: Int32Array;
}

/** An answer of `computeReuse`. */
interface Answer {
  readonly reusableTokens: number;
  readonly limitingGroupId: number;
}

const NOBODY: Answered = { slot: -1, bits: new Int32Array(0) };

/** A layout in use, with answers of the present query (by its number) for ranks that have it. */
export class PooledLayout {
  readonly compiled: CompiledLayout;
  readonly text: string;
  /** Bits of the groups where they are in layout order; ranks that have them so share the array. */
  readonly plainBits: Int32Array;
  users = 0;
  /** The query of the answer of a rank that holds nothing of the prompt. */
  emptyQuery = 0;
  emptyTokens = 0;
  emptyLimitingGroupId = -1;
  /** The query of the answer of the rank computed last. */
  foundQuery = 0;
  foundFor: Answered = NOBODY;
  foundTokens = 0;
  foundLimitingGroupId = -1;

  constructor(compiled: CompiledLayout, text: string) {
    this.compiled = compiled;
    this.text = text;
    this.plainBits = compiled.classOfGroup.map((_, group) => group);
  }

  /** Keeps the answer of an empty rank. */
  keepEmpty(queryNumber: number, answer: Answer): void {
    this.emptyQuery = queryNumber;
    this.emptyTokens = answer.reusableTokens;
    this.emptyLimitingGroupId = answer.limitingGroupId;
  }

  /** Keeps the answer of a rank that holds something. */
  keepFound(queryNumber: number, rank: Answered, answer: Answer): void {
    this.foundQuery = queryNumber;
    this.foundFor = rank;
    this.foundTokens = answer.reusableTokens;
    this.foundLimitingGroupId = answer.limitingGroupId;
  }
}

/** The layouts of one index. */
export class LayoutPool {
  private readonly byText = new Map<string, PooledLayout>();

  /** The pooled form of a sound layout, with one user more. */
  acquire(layout: RankLayout): PooledLayout {
    const { groups, ...rest } = layout;
    const text = JSON.stringify([Object.entries(rest).sort(), groups.map(sorted)]);
    let pooled = this.byText.get(text);
    if (pooled === undefined) {
      pooled = new PooledLayout(compileLayout(layout), text);
      this.byText.set(text, pooled);
    }
    pooled.users += 1;
    return pooled;
  }

  /** Gives a layout up. */
  release(pooled: PooledLayout): void {
    invariant(pooled.users > 0, "a released layout has a user");
    pooled.users -= 1;
    if (pooled.users === 0) this.byText.delete(pooled.text);
  }

  /** Layouts in use. */
  get size(): number {
    return this.byText.size;
  }
}

function sorted(group: object): [string, unknown][] {
  return Object.entries(group).sort();
}
