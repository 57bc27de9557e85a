/**
 * What it is: what became of the keys of a store or a removal.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: count anything itself.
 */

/** What became of each key of a run; the fields add up to the run's length. */
export interface StoreOutcome {
  stored: number;
  /** Held before in that group and medium: nothing changed. */
  alreadyHeld: number;
  /**
   * The key is known at another position: a 64-bit clash or a confused peer. The older one stays.
   */
  refusedClash: number;
  /** The node or entry ceiling is reached. */
  refusedAtCeiling: number;
  /** The group is not one of the layout, or is the 33rd of a rank without a layout. */
  refusedGroup: number;
  /** The run ends beyond MAX_POSITION_TOKENS; the whole run is refused. */
  refusedPosition: number;
}

/** What became of each key of a removal. */
export interface RemoveOutcome {
  readonly removed: number;
  /** Not held in that group and medium: nothing changed. */
  readonly absent: number;
}

/** An outcome of no keys. */
export function emptyOutcome(): StoreOutcome {
  return {
    stored: 0,
    alreadyHeld: 0,
    refusedClash: 0,
    refusedAtCeiling: 0,
    refusedGroup: 0,
    refusedPosition: 0,
  };
}
