/**
 * What it is: the form of one bound.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: hold numbers; see limits.ts.
 */

/** One bound. `atBound` says the policy in one sentence. */
export interface Limit {
  readonly value: number;
  readonly unit: string;
  readonly reason: string;
  readonly atBound: string;
}

/** Makes one. */
export function limit(value: number, unit: string, reason: string, atBound: string): Limit {
  return { value, unit, reason, atBound };
}
