// Goal: a gateway that joined at any moment, at any speed, through any number of overflows and reconnects, answers as
// one that was there from the start.
// Method: real recordings are played; followers join at seeded random positions with snapshot pieces of one to a few
// blocks, queues that overflow, connections that are cut at any message, a ring that is too small for some who come
// back, and reading that stops and starts. Whenever a follower has read everything, its answers are compared with those
// of the first gateway, which is never cut.
import { join } from "node:path";
import { expect, test } from "vitest";
import { InProcessPath, type PathFollower } from "../../src/cli/dist/in-process-path.js";
import { engineConfigOfTrace } from "../../src/cli/dist/trace-engine.js";
import { openTrace } from "../../src/cli/dist/trace-file.js";
import { parseDpRank } from "../../src/protocol/dist/index.js";
import { Dice } from "../support/random-caches.ts";

const traces = join(import.meta.dirname, "../fixtures/traces");
const cases = [
  ["full-swa.jsonl.gz", 1],
  ["gemma.jsonl.gz", 2],
  ["eagle-lookahead.jsonl.gz", 3],
  ["multimodal.jsonl.gz", 4],
  ["restarts.jsonl.gz", 5],
  ["full8-swa4.jsonl.gz", 6],
  ["offload-mamba.jsonl.gz", 7],
] as const;

test.each(cases)("late followers of %s answer as the first one (seed %i)", async (file, seed) => {
  const dice = new Dice(seed);
  const trace = await openTrace(join(traces, file));
  const dpRank = parseDpRank(trace.engine.dp_rank);
  if (dpRank === undefined) throw new RangeError("the trace names no rank");
  const path = new InProcessPath({
    dpRank,
    engine: engineConfigOfTrace(trace.engine),
    seed: "sixteen characters",
    fanOut: { snapshotChunkBlocks: dice.int(1, 9), queueBytes: 900, resumeRingBytes: 12_000 },
  });
  const followers: PathFollower[] = [];
  let compared = 0;
  let cuts = 0;
  for await (const entry of trace.entries) {
    if (entry.type === "frame") {
      path.receive(entry.frames);
      if (followers.length < 6 && dice.chance(0.02)) followers.push(path.join());
      for (const follower of followers) {
        if (dice.chance(0.15)) follower.drain(dice.int(1, 30));
        if (!dice.chance(0.05)) continue;
        follower.cut();
        cuts += 1;
      }
      continue;
    }
    if (entry.type === "restart") {
      path.publisherReplaced();
      continue;
    }
    if (!dice.chance(0.2)) continue;
    const expected = path.score(entry.prompt);
    for (const follower of followers) {
      const isBehind = dice.chance(0.5) && follower.drain(2);
      if (isBehind) continue;
      follower.drain();
      const actual = follower.score(entry.prompt);
      expect([actual.reusableTokens, actual.state, actual.reasons]).toEqual([
        expected.reusableTokens,
        expected.state,
        expected.reasons,
      ]);
      compared += 1;
    }
  }
  expect(followers.length).toBeGreaterThan(0);
  expect(compared).toBeGreaterThan(50);
  const { overflows, resumed, starts } = path.fanOut.counters();
  expect(overflows, "queues overflowed on the way").toBeGreaterThan(0);
  expect(resumed, "some went on from their cursors").toBeGreaterThan(0);
  expect(starts - resumed, "some did not").toBeGreaterThan(followers.length);
  expect(cuts, "connections were cut").toBeGreaterThan(20);
  path.fanOut.audit();
  for (const follower of followers) follower.gateway.audit();
});
