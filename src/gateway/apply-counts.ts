/**
 * What it is: the totals of what views applied and dropped.
 * Owns: the names; a metric shows them as they are.
 * Refuses: nothing.
 * Does not do: count.
 */

/** What was applied and what was dropped, by name. Totals. */
export interface ApplyCounts {
  storedBlocks: number;
  removedBlocks: number;
  clears: number;
  withdrawals: number;
  repeatedBatches: number;
  /** Messages of a kind that this version does not know. */
  unknownMessages: number;
  /** Messages with an operation that this version does not know; each withdrew the rank. */
  unknownOperations: number;
  /** Blocks in media beyond the bound. */
  droppedMediumBlocks: number;
  /** Blocks that the index refused: a ceiling, a clash of keys, a group that the layout lacks. */
  refusedBlocks: number;
  /** Blocks taken that were told without a place. */
  unplacedStored: number;
  /** Such blocks taken back by name. */
  unplacedRemoved: number;
  /** Such blocks beyond a bound. */
  unplacedDropped: number;
  /** Such blocks whose place a query found. */
  unplacedFound: number;
}

/** All zero. */
export function newApplyCounts(): ApplyCounts {
  return {
    storedBlocks: 0,
    removedBlocks: 0,
    clears: 0,
    withdrawals: 0,
    repeatedBatches: 0,
    unknownMessages: 0,
    unknownOperations: 0,
    droppedMediumBlocks: 0,
    refusedBlocks: 0,
    unplacedStored: 0,
    unplacedRemoved: 0,
    unplacedDropped: 0,
    unplacedFound: 0,
  };
}
