/**
 * What it is: the law of checkpoints where block hashes are recomputed: digests, tails and the way go over.
 * Method: a model engine's batches are played; at a random moment a second rank is restored from a checkpoint of the
 * first. It says the same of everything that is held, and from then on gives no hash another place than the first one.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: hold it to equality after that: ends that no event named, salts and what waited are not written down, so
 * that some entries stay without a place which the first one places.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { readCheckpoint } from "../../src/bridge/dist/checkpoint-reader.js";
import { CheckpointWriter } from "../../src/bridge/dist/checkpoint-writer.js";
import { UNSTATED_ENGINE } from "../../src/bridge/dist/engine-config.js";
import type { StoreEvent } from "../../src/bridge/dist/vllm-event.js";
import { HASH_ALGORITHMS } from "../../src/protocol/dist/index.js";
import {
  drawTokens,
  HashingEngine,
  type ModelGroup,
  type ModelPrompt,
} from "../support/hashing-engine.ts";
import { headOf, PlayedRank } from "../support/played-rank.ts";
import { Dice } from "../support/random-caches.ts";

const LAYOUTS: readonly (readonly ModelGroup[])[] = [
  [
    { id: 0, kind: "full_attention", blockSizeTokens: 16, hasPartials: true },
    { id: 1, kind: "mamba", blockSizeTokens: 16, hasPartials: true },
  ],
  [
    { id: 0, kind: "full_attention", blockSizeTokens: 32 },
    { id: 1, kind: "sliding_window", blockSizeTokens: 4, windowTokens: 12 },
  ],
  [{ id: 0, kind: "mamba", blockSizeTokens: 8, hasPartials: true }],
];

function restored(first: PlayedRank): PlayedRank {
  const cut = new CheckpointWriter(first.mirror);
  const pieces: Uint8Array[] = [];
  for (let piece = cut.piece(7); piece !== undefined; piece = cut.piece(7)) pieces.push(piece);
  const bytes = Buffer.concat([...pieces, cut.finish(first.head())]);
  const { fingerprint, dpRank } = headOf();
  const read = readCheckpoint(bytes, { fingerprint, dpRank });
  if (!read.ok) throw new RangeError(read.error.reason);
  const second = new PlayedRank(UNSTATED_ENGINE);
  second.facts.restore(read.value.head.facts);
  second.applier.restore(read.value.head.grouping);
  second.recomputer.restore(read.value.head.hashing);
  read.value.restore(second.mirror);
  return second;
}

function expectNoOther(second: PlayedRank, first: PlayedRank): number {
  let same = 0;
  for (const block of second.mirror.all()) {
    if (!block.isPlaced) continue;
    const { endTokens, keyLow, keyHigh } = block;
    expect(first.mirror.find(block.hash)).toMatchObject({ endTokens, keyLow, keyHigh });
    same += 1;
  }
  return same;
}

test("a restored rank holds and tells the same, and recomputes below what was placed before", () => {
  let below = 0;
  let told = 0;
  const law = fc.property(fc.integer({ min: 1, max: 2 ** 31 }), (seed) => {
    const dice = new Dice(seed);
    const engine = new HashingEngine({
      groups: dice.pick(LAYOUTS),
      unitTokens: 4,
      algorithm: dice.pick(HASH_ALGORITHMS),
      seedText: "0",
      form: dice.pick(["integer", "integer", "bytes"]),
    });
    const first = new PlayedRank(UNSTATED_ENGINE);
    const prompts = Array.from(
      { length: dice.int(4, 8) },
      (): ModelPrompt => ({ tokens: drawTokens(dice, dice.int(40, 140)) }),
    );
    // Halves first: what comes after the restart stands on what came before it.
    const begin = ({ tokens }: ModelPrompt): number => Math.floor(tokens.length / 2);
    const play = (rank: PlayedRank, events: readonly StoreEvent[]): readonly string[] =>
      rank.apply(events);
    for (const prompt of prompts) {
      play(first, engine.step(prompt, 0, begin(prompt), engine.usual, true).flat());
    }
    const second = restored(first);
    second.mirror.audit();
    expect(second.snapshot()).toEqual(first.snapshot());
    expect(second.mirror.told).toBe(first.mirror.told);
    expect(second.recomputer.status).toEqual(first.recomputer.status);
    told += second.mirror.told;
    const { recomputed } = second.mirror.placedCounts;
    for (const prompt of prompts) {
      const events = engine
        .step(prompt, begin(prompt), prompt.tokens.length, engine.usual, true)
        .flat();
      play(first, events);
      play(second, events);
      second.mirror.audit();
    }
    expectNoOther(second, first);
    below += second.mirror.placedCounts.recomputed - recomputed;
  });
  fc.assert(law, { numRuns: 120 });
  expect(below).toBeGreaterThan(150);
  expect(told).toBeGreaterThan(0);
});
