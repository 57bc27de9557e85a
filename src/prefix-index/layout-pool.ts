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

/** A layout in use. */
export class PooledLayout {
  readonly compiled: CompiledLayout;
  readonly text: string;
  users = 0;
  /** The query that the empty answer below belongs to. */
  queryNumber = 0;
  /** Answer of a rank that holds nothing of the prompt. */
  emptyTokens = 0;
  /** Its limiting group. */
  emptyLimitingGroupId = -1;

  constructor(compiled: CompiledLayout, text: string) {
    this.compiled = compiled;
    this.text = text;
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
