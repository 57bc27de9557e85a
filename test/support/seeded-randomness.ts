/**
 * What it is: the simulation's seeded randomness under the name that tests know.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything of its own.
 */
export { SeededRandomness } from "../../src/cli/dist/sim/seeded-randomness.js";
