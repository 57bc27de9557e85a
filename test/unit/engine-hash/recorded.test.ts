// Goal: the digests are those of engines as they ran: what they published is computed again, hash by hash. Method: dense stores of
// recordings; a hash is right or wrong, and how many of each kind were computed is pinned, so that none is skipped unseen.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type RecordingFacts, recompute } from "./recording.ts";

const TAGGED = {
  seedText: "vllm-none-hash",
  extraKeyForm: "tagged",
  loraFolder: "/adapters",
} as const;
/** A seed of random bytes that no recording tells: chains begin at a parent's digest on the wire. */
const UNTAGGED = { ...TAGGED, seedText: undefined, extraKeyForm: "untagged" } as const;
const none = { plain: 0, lora: 0, salt: 0, items: 0, lookahead: 0, wrong: 0, orphans: 0 };

const recordings: readonly [string, RecordingFacts, object][] = [
  ["traces/full-16", TAGGED, { plain: 888 }],
  ["traces/fine-16-32", TAGGED, { plain: 1189, sparse: 400 }],
  ["traces/qwen-528", TAGGED, { plain: 188, sparse: 93 }],
  ["traces/eagle-lookahead", TAGGED, { lookahead: 2177, sparse: 700 }],
  ["traces/mtp-2", TAGGED, { lookahead: 2170, sparse: 719 }],
  ["traces/multimodal", TAGGED, { plain: 1196, items: 247, sparse: 340 }],
  ["traces/lora-salt", TAGGED, { plain: 516, lora: 729, salt: 28, sparse: 407 }],
  ["traces/live-gemma3-s1", TAGGED, { plain: 1950, salt: 32, sparse: 200 }],
  ["traces/array-bytes-mixed", UNTAGGED, { plain: 1875, orphans: 98 }],
  ["engine-hash-recorded-hash-xxh-cbor", { ...TAGGED, seedText: "42" }, { plain: 72, sparse: 40 }],
  ["engine-hash-recorded-live-gemma3-1to3-s7", TAGGED, { plain: 301, salt: 4, sparse: 57 }],
  ["engine-hash-recorded-offload-swa-sparse", TAGGED, { plain: 111, lora: 10, sparse: 44 }],
  ["engine-hash-recorded-live-qwen3-lora-s1", TAGGED, { plain: 585, lora: 30, salt: 5 }],
];

describe("recorded engines", () => {
  test.each(recordings)("%s", async (name, facts, counts) => {
    const path = join(import.meta.dirname, `../../fixtures/${name}.jsonl.gz`);
    expect(await recompute(path, facts)).toEqual({ ...none, sparse: 0, ...counts });
  });

  test("another seed, another form and another LoRA path are noticed", async () => {
    const path = (name: string) =>
      join(import.meta.dirname, `../../fixtures/traces/${name}.jsonl.gz`);
    const seed = await recompute(path("full-16"), { ...TAGGED, seedText: "0" });
    expect(seed).toMatchObject({ plain: 0 });
    expect(seed.wrong).toBeGreaterThan(0);
    const form = await recompute(path("multimodal"), { ...TAGGED, extraKeyForm: "untagged" });
    expect(form).toMatchObject({ items: 0 });
    expect(form.wrong).toBeGreaterThan(0);
    const lora = await recompute(path("lora-salt"), { ...TAGGED, loraFolder: "/elsewhere" });
    expect(lora).toMatchObject({ lora: 0 });
    expect(lora.wrong).toBeGreaterThan(0);
  });
});
