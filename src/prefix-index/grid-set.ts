/**
 * What it is: the distinct (hash unit, look-ahead) pairs of all ranks with a layout. Each pair is a
 * grid of prompt positions, e + L for every multiple e of H; one walk visits the union of all
 * grids.
 * Owns: the pairs, how many ranks use each, and the walk's next position on each.
 * Refuses: releasing a grid that nobody uses (our bug).
 * Does not do: look anything up.
 */
import { invariant } from "@kv-group-bridge/runtime";

/** Beyond every position that a walk visits. */
const NEVER = 0x7fff_ffff;

/** Grids by id. An id whose last user left is free and is used again. */
export class GridSet {
  private readonly hashBlocks: number[] = [];
  private readonly lookaheads: number[] = [];
  private readonly users: number[] = [];
  private readonly next: number[] = [];
  /** 1 for each grid that has the position of the last `advance`. */
  readonly isDue: number[] = [];

  /** The id of a grid, with one user more. */
  acquire(hashBlockSizeTokens: number, lookaheadTokens: number): number {
    let free = -1;
    for (let id = 0; id < this.users.length; id++) {
      if (this.users[id] === 0) {
        free = id;
      } else if (
        this.hashBlocks[id] === hashBlockSizeTokens &&
        this.lookaheads[id] === lookaheadTokens
      ) {
        this.users[id] = this.usersOf(id) + 1;
        return id;
      }
    }
    const id = free === -1 ? this.users.length : free;
    this.hashBlocks[id] = hashBlockSizeTokens;
    this.lookaheads[id] = lookaheadTokens;
    this.users[id] = 1;
    this.next[id] = 0;
    this.isDue[id] = 0;
    return id;
  }

  /** Gives a grid up. */
  release(id: number): void {
    invariant(this.usersOf(id) > 0, "a released grid has a user");
    this.users[id] = this.usersOf(id) - 1;
    this.isDue[id] = 0;
  }

  /** How many ranks use a grid; 0 for an unknown id. */
  usersOf(id: number): number {
    return this.users[id] ?? 0;
  }

  /** Starts a walk over all grids, or over one when `only` is not -1. */
  restart(only: number): void {
    for (let id = 0; id < this.users.length; id++) {
      const isWalked = this.users[id] !== 0 && (only === -1 || only === id);
      const first = (this.hashBlocks[id] as number) + (this.lookaheads[id] as number);
      this.next[id] = isWalked ? first : NEVER;
    }
  }

  /**
   * Moves to the next position of the union and marks the grids that have it; beyond every prompt
   * without grids.
   */
  advance(): number {
    const { next, isDue, hashBlocks } = this;
    let position = NEVER;
    for (let id = 0; id < next.length; id++) {
      const candidate = next[id] as number;
      if (candidate < position) position = candidate;
    }
    for (let id = 0; id < next.length; id++) {
      isDue[id] = 0;
      if (next[id] !== position || position === NEVER) continue;
      isDue[id] = 1;
      next[id] = position + (hashBlocks[id] as number);
    }
    return position;
  }
}
