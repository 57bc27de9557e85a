// Goal: the shipped rules and index answer as the dull twin does, which was written from vLLM's rules alone.
// Method: one stream of random caches and operations goes to both; the first difference is printed with its seed.
import { expect, test } from "vitest";
import { compareIndex, compareReuse } from "../support/differential-target.ts";
import { FastIndex, fastReuse } from "../support/fast-index.ts";

const seedOfTheDay = Number(process.env.KVGROUP_TEST_SEED ?? "20261130");

test("the shipped reuse rules agree with the dull twin on 120,000 random caches", () => {
  console.log(`seeds 1, 2 and ${seedOfTheDay} (KVGROUP_TEST_SEED)`);
  expect(compareReuse(fastReuse, [1, 2, seedOfTheDay], 40_000)).toBeUndefined();
});

test("the shipped index agrees with the dull index after every operation of 600 streams", () => {
  expect(compareIndex(() => new FastIndex(), seedOfTheDay, 600)).toBeUndefined();
});
