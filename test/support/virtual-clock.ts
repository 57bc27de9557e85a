/**
 * What it is: the simulation's clock under the name that tests know.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: anything of its own.
 */
export { VirtualClock } from "../../src/cli/dist/sim/virtual-clock.js";
