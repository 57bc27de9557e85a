/**
 * What it is: the assertion for our own bugs. On in production.
 * Owns: nothing.
 * Refuses: to return when the claim is false.
 * Does not do: judge input. Bad input is a `Result`, a failing world is a `KvEventsError`.
 */

/** Thrown by `invariant` alone. Nothing catches it to continue. */
export class InvariantViolation extends Error {
  override readonly name = "InvariantViolation";
}

/**
 * Throws `InvariantViolation` unless `claim` holds. `message` says what must be true; it never
 * contains token ids or other input.
 */
export function invariant(claim: boolean, message: string): asserts claim {
  if (!claim) throw new InvariantViolation(message);
}

/** For the default branch of an exhaustive switch: the compiler proves that it is unreachable. */
export function unreachable(value: never, message: string): never {
  throw new InvariantViolation(`${message}: ${typeof value}`);
}
