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
  /** Every grid's positions are among this one's: the step of the union, or 0 when there is none. */
  unionStepTokens = 0;

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
    this.findUnion();
    return id;
  }

  /** Gives a grid up. */
  release(id: number): void {
    invariant(this.usersOf(id) > 0, "a released grid has a user");
    this.users[id] = this.usersOf(id) - 1;
    this.findUnion();
  }

  /** How many ranks use a grid; 0 for an unknown id. */
  usersOf(id: number): number {
    return this.users[id] ?? 0;
  }

  /**
   * Starts a walk over all grids, or over one when `only` is not -1. Returns the distance from each
   * position to the next, or 0 when it varies.
   */
  restart(only: number): number {
    for (let id = 0; id < this.users.length; id++) {
      const isWalked = this.users[id] !== 0 && (only === -1 || only === id);
      const first = (this.hashBlocks[id] as number) + (this.lookaheads[id] as number);
      this.next[id] = isWalked ? first : NEVER;
    }
    return only === -1 ? this.unionStepTokens : this.unitOf(only);
  }

  /** Moves to the next position of the union; beyond every prompt without grids. */
  advance(): number {
    const { next, hashBlocks } = this;
    let position = NEVER;
    for (let id = 0; id < next.length; id++) {
      const candidate = next[id] ?? NEVER;
      if (candidate < position) position = candidate;
    }
    if (position === NEVER) return NEVER;
    for (let id = 0; id < next.length; id++) {
      if (next[id] === position) next[id] = position + (hashBlocks[id] ?? NEVER);
    }
    return position;
  }

  /** Moves all grids beyond a position; for a walk that went on by itself. */
  skipTo(positionTokens: number): void {
    const { next, hashBlocks } = this;
    for (let id = 0; id < next.length; id++) {
      const from = next[id] ?? NEVER;
      const unit = hashBlocks[id] ?? NEVER;
      if (from <= positionTokens) {
        next[id] = from + Math.floor((positionTokens - from) / unit) * unit + unit;
      }
    }
  }

  /** Bounds for reading: grid ids are below it. */
  get size(): number {
    return this.users.length;
  }

  /** Whether the ends of a grid's ranks at first, first + step ... are all on the grid. */
  isOn(id: number, firstPositionTokens: number, stepTokens: number): boolean {
    const unit = this.hashBlocks[id] ?? NEVER;
    const first = firstPositionTokens - (this.lookaheads[id] ?? 0);
    return first % unit === 0 && stepTokens % unit === 0;
  }

  /** H of a grid in tokens. */
  unitOf(id: number): number {
    return this.hashBlocks[id] ?? NEVER;
  }

  private findUnion(): void {
    let finest = -1;
    for (let id = 0; id < this.users.length; id++) {
      if (this.users[id] === 0) continue;
      if (finest === -1 || this.unitOf(id) < this.unitOf(finest)) finest = id;
    }
    this.unionStepTokens = finest === -1 ? 0 : this.unitOf(finest);
    for (let id = 0; id < this.users.length; id++) {
      if (this.users[id] === 0) continue;
      const isPart =
        this.lookaheads[id] === this.lookaheads[finest] &&
        this.unitOf(id) % this.unitOf(finest) === 0;
      if (!isPart) this.unionStepTokens = 0;
    }
  }
}
