// Goal: the simulation finds bugs of the protocol.
// Method: bugs are planted one by one; each must fail some seed among the first 500.
import { expect, test } from "vitest";
import { Coverage } from "../../src/cli/dist/sim/coverage.js";
import { PLANTED_BUGS, plantedBug } from "../../src/cli/dist/sim/planted-bugs.js";
import { runSeed } from "../../src/cli/dist/sim/simulation.js";

const MOST_SEEDS = 500;

test.each(PLANTED_BUGS)("%s is found", (name) => {
  let found: string | undefined;
  let seed = 0;
  while (found === undefined && seed < MOST_SEEDS) {
    seed++;
    found = runSeed({ seed, coverage: new Coverage(), plant: plantedBug(name) });
  }
  console.info(`${name}: seed ${seed}: ${found}`);
  expect(found).toBeDefined();
});
