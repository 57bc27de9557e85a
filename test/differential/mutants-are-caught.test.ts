/**
 * What it is: the test of the judge. Every planted mutant must be told from the dull twin by the
 * random generator; the report says after how many caches, and which scenario rows tell it too.
 * Owns, refuses: nothing. Does not do: ask that the rows alone catch every mutant.
 */

import { afterAll, describe, expect, test } from "vitest";
import { lookupScenarios } from "../fixtures/lookup-scenarios.ts";
import { nativeCorpus } from "../fixtures/native-corpus.ts";
import { compareIndex, compareReuse } from "../support/differential-target.ts";
import { indexMutants, type ReuseMutant, reuseMutants } from "../support/mutants.ts";
import { parseScenario } from "../support/scenario-layout.ts";

const cacheLimit = 20_000;
const streamLimit = 200;
const report: string[] = [];

function catchingRows({ reuse }: ReuseMutant): string[] {
  return [...lookupScenarios, ...nativeCorpus]
    .filter((row) => {
      const { layout, ends } = parseScenario(row.cache, row.options);
      return reuse(layout, row.promptTokens, ends) !== row.expectedTokens;
    })
    .map(({ id }) => id);
}

describe("a mutant of the reuse computation is caught", () => {
  for (const mutant of reuseMutants) {
    test(`one that ${mutant.name}`, () => {
      const found = compareReuse(mutant.reuse, [1], cacheLimit);
      const rows = catchingRows(mutant).join(" ");
      report.push(`${mutant.name}: cache ${found?.triedCount}; rows ${rows || "none"}`);
      expect(found).toBeDefined();
      expect(found?.actual).not.toBe(found?.expectedTokens);
    });
  }
});

describe("a mutant of the index is caught", () => {
  for (const mutant of indexMutants) {
    test(`one that ${mutant.name}`, () => {
      const found = compareIndex(mutant.create, 1, streamLimit);
      report.push(`${mutant.name}: stream ${found?.triedCount}`);
      expect(found).toBeDefined();
      expect(found?.actual).not.toBe(found?.expected);
    });
  }
});

test("there are at least twelve mutants, each with its own name", () => {
  const names = [...reuseMutants, ...indexMutants].map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(reuseMutants.length).toBeGreaterThanOrEqual(12);
});

afterAll(() => {
  process.stdout.write(`${report.map((line) => `caught: ${line}`).join("\n")}\n`);
});
