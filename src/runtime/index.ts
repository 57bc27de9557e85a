export { InvariantViolation, invariant, unreachable } from "./invariant.ts";
