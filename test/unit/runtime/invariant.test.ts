/**
 * What it is: tests of the assertion.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything else.
 */
import { describe, expect, test } from "vitest";
import { InvariantViolation, invariant } from "../../../src/runtime/dist/index.js";

describe("invariant", () => {
  test("a true claim passes, a false one throws with its message", () => {
    expect(() => invariant(true, "fine")).not.toThrow();
    expect(() => invariant(1 > 2, "one is below two")).toThrow(InvariantViolation);
    expect(() => invariant(1 > 2, "one is below two")).toThrow("one is below two");
  });
});
