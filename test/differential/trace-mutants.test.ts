// Goal: the recordings notice every planted mutant, so that "all equal" means something. Method: one rule is broken at a
// time; the counts of wrong answers (above, below the engine's own) are those that an independent model with the same
// rule broken has on the same recordings, where such a count is known, else only that some answer is wrong.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { EngineConfig } from "../../src/bridge/dist/index.js";
import { contractRules, DullIndex } from "../support/dull-index.ts";
import { indexMutants, reuseMutants } from "../support/mutants.ts";
import { playTwin, type Twist } from "../support/trace-twin.ts";

const folder = join(import.meta.dirname, "../fixtures/traces");
const play = (name: string, twist?: Twist) => playTwin(join(folder, `${name}.jsonl.gz`), twist);

function broken(name: string): Twist {
  const reuse = reuseMutants.find((mutant) => mutant.name === name)?.reuse;
  if (reuse !== undefined) return { index: new DullIndex({ ...contractRules, reuse }) };
  const mutant = indexMutants.find((candidate) => candidate.name === name);
  if (mutant === undefined) throw new RangeError(`no mutant ${name}`);
  return { index: mutant.create() };
}

const asSet = (engine: EngineConfig): EngineConfig => ({ ...engine, removalRule: "last_copy" });

describe("with nothing broken the dull index gives the engine's own answers", () => {
  test.each(["full-swa", "gemma", "eagle-drop-marked", "mtp-2", "multimodal", "private-group"])(
    "%s",
    async (name) => {
      expect(await play(name)).toMatchObject({ above: 0, below: 0 });
    },
  );
});

describe("a broken rule gives as many wrong answers as it costs an independent model", () => {
  test.each([
    ["copies as a set", "full-swa", { engine: asSet }, 0, 142],
    ["copies as a set", "gemma", { engine: asSet }, 0, 352],
    ["never drops a block", "eagle-drop-marked", broken("never drops a block"), 846, 0],
    [
      "drops from n - 1 instead of the last hash",
      "eagle-drop",
      broken("drops from n - 1 instead of the last hash"),
      0,
      37,
    ],
    [
      "drops from n - 1 instead of the last hash",
      "eagle-drop-marked",
      broken("drops from n - 1 instead of the last hash"),
      0,
      17,
    ],
    [
      "leaves private groups out of S",
      "private-group",
      broken("leaves private groups out of S"),
      248,
      0,
    ],
    ["is never fine", "fine-16-32", broken("is never fine"), 0, 258],
    [
      "asks for a window one block short",
      "full-swa",
      broken("asks for a window one block short"),
      37,
      0,
    ],
    [
      "treats chunked local as full",
      "chunked-local",
      broken("treats chunked local as full"),
      0,
      857,
    ],
    [
      "ignores the prompt's adapter and salt",
      "lora-salt",
      { prompt: (prompt) => ({ ...prompt, loraName: undefined, cacheSalt: undefined }) },
      51,
      658,
    ],
    [
      "ignores the prompt's images",
      "multimodal",
      { prompt: (prompt) => ({ ...prompt, multimodalItems: [] }) },
      90,
      573,
    ],
  ] satisfies [string, string, Twist, number, number][])(
    "%s on %s",
    async (_rule, name, twist, above, below) => {
      expect(await play(name, twist)).toMatchObject({ above, below });
    },
  );
});

describe("every further mutant is noticed on some recording", () => {
  test.each([
    ["ignores the last group", "full-swa"],
    ["ignores clears", "full-16"],
    ["ignores clears", "multimodal"],
    ["asks for a window one block too long", "full-swa"],
    ["rounds the window down to whole blocks", "full-swa"],
    ["refuses a short run from the root", "full-swa"],
    ["forgets the alignment to S", "private-group"],
    ["forgets the bound n - 1", "full-16"],
    ["is always fine", "full8-swa4"],
    ["lets a state serve any earlier position", "qwen-528"],
    ["ignores the replay window", "bounded-replay"],
    ["takes the best group's answer", "gemma"],
    ["drops every third removal", "full-16"],
    ["removes from all groups what one group lost", "full-swa"],
    ["matches look-ahead blocks by their own end", "eagle-lookahead"],
    ["scores what lies in other media", "offload-mamba"],
  ])("%s on %s", async (rule, name) => {
    const untouched = await play(name);
    const outcome = await play(name, broken(rule));
    expect([outcome.above, outcome.below]).not.toEqual([untouched.above, untouched.below]);
  });
});
