// Goal: recordings of real engines judge the whole path, and the judge is judged: each planted mutant must be noticed.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { verifyTrace } from "../../src/cli/dist/verify-trace.js";

const folder = join(import.meta.dirname, "../fixtures/traces");
const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl.gz"));

describe("without recomputing hashes", () => {
  test("where events do not tell every position answers are lower, and never above", async () => {
    const report = await verifyTrace(join(folder, "full8-swa4.jsonl.gz"), { isRecomputing: false });
    expect(report.isUpperBoundOnly).toBe(true);
    expect(report.above).toBe(0);
    expect(report.below).toBeGreaterThan(0);
    expect(report.isGood).toBe(true);
    const exact = { isRecomputing: false, isExact: true };
    const asked = await verifyTrace(join(folder, "full8-swa4.jsonl.gz"), exact);
    expect(asked.isGood).toBe(false);
  });
});

describe("every recorded lookup equals the engine's own answer", () => {
  test("there are at least twenty recordings", () => {
    expect(files.length).toBeGreaterThanOrEqual(20);
  });
  test.each(files)("%s", async (name) => {
    const report = await verifyTrace(join(folder, name), { isExact: true });
    expect(report.refusals).toEqual({});
    expect(report.lookups).toBeGreaterThan(0);
    if (report.unsupported !== undefined) {
      // Said, not judged: the answer must be "unknown", never a number.
      expect(report.mismatch?.state).toBe("unknown");
      return;
    }
    expect(report.above, JSON.stringify(report.mismatch)).toBe(0);
    expect(report.equal, JSON.stringify(report.mismatch)).toBe(report.lookups);
    expect(report.isGood).toBe(true);
  });
});
