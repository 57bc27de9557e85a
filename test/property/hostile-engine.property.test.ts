/**
 * What it is: laws of the bridge under engines that are damaged or mean harm, over many histories.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: single claims (test/e2e/hostile-engine.test.ts does).
 */
import { Decoder } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InProcessPath } from "../../src/cli/dist/in-process-path.js";
import { engineConfigOfTrace } from "../../src/cli/dist/trace-engine.js";
import { openTrace, type TraceEntry, type TracePrompt } from "../../src/cli/dist/trace-file.js";
import { SeededRandomness } from "../support/seeded-randomness.ts";
import { batchOf, framesOf, rankOf, SMG_SEED, SmgWorker } from "../support/smg-notation.ts";
import { encodeWire } from "../support/wire-builder.ts";

const TRACES = [
  "full-16",
  "array-full-mamba",
  "array-bytes-mixed",
  "full8-swa4",
  "lora-salt",
  "multimodal",
  "eagle-lookahead",
  "offload-mamba",
  "restarts",
] as const;
const SEEDS = [1, 2, 3, 4, 5, 6];
const MAX_ENTRIES = 250;

async function load(name: string) {
  const trace = await openTrace(`test/fixtures/traces/${name}.jsonl.gz`);
  const entries: TraceEntry[] = [];
  for await (const entry of trace.entries) {
    entries.push(entry);
    if (entries.length === MAX_ENTRIES) break;
  }
  const makePath = (): InProcessPath =>
    new InProcessPath({
      dpRank: rankOf(trace.engine.dp_rank),
      engine: engineConfigOfTrace(trace.engine),
      seed: SMG_SEED,
    });
  return { entries, makePath };
}

/** The laws that hold whatever came. */
function expectSound(path: InProcessPath, seed: string): void {
  path.pipeline.audit();
  path.gateway.audit();
  const { lastError, subscriptionState } = path.gateway.workers()[0] ?? {};
  expect([subscriptionState, lastError], seed).toEqual(["live", undefined]);
}

/** A gateway that joins now answers alike. */
function expectSameForLate(
  path: InProcessPath,
  prompts: readonly TracePrompt[],
  seed: string,
): void {
  const late = path.join();
  late.drain();
  for (const prompt of prompts) {
    const query = { ...prompt, tokens: prompt.tokens };
    expect(late.score(query).reusableTokens, seed).toBe(path.score(query).reusableTokens);
  }
  late.gateway.close();
}

type Damage = (payload: Uint8Array, random: SeededRandomness) => Uint8Array;

const flipped: Damage = (payload, random) => {
  const bytes = Uint8Array.from(payload);
  for (let turn = random.below(3); turn >= 0; turn--) {
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
  }
  return bytes;
};
const replaced: Damage = (payload, random) => {
  const bytes = Uint8Array.from(payload);
  bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
};
const inserted: Damage = (payload, random) => {
  const at = random.below(payload.length);
  const piece = Uint8Array.from({ length: 1 + random.below(4) }, () => random.below(256));
  return Buffer.concat([payload.subarray(0, at), piece, payload.subarray(at)]);
};
const deleted: Damage = (payload, random) => {
  const at = random.below(payload.length);
  return Buffer.concat([payload.subarray(0, at), payload.subarray(at + 1 + random.below(4))]);
};
const doubled: Damage = (payload, random) => {
  const at = random.below(payload.length);
  return Buffer.concat([payload.subarray(0, at), payload.subarray(Math.floor(at / 2))]);
};

describe("recorded payloads with damaged bytes", () => {
  for (const name of TRACES) {
    test(`${name}: nothing throws, every account holds, the gateway still follows`, async () => {
      const { entries, makePath } = await load(name);
      for (const seed of SEEDS) {
        const random = new SeededRandomness(seed);
        const path = makePath();
        const prompts: TracePrompt[] = [];
        for (const entry of entries) {
          if (entry.type === "restart") path.publisherReplaced();
          if (entry.type === "lookup") {
            prompts.push(entry.prompt);
            const { reusableTokens } = path.score(entry.prompt);
            expect(reusableTokens, `seed ${seed}`).toBeLessThanOrEqual(entry.prompt.tokens.length);
          }
          if (entry.type !== "frame") continue;
          const [topic, sequence, payload] = entry.frames;
          const damage = random.pick([flipped, replaced, inserted, deleted, doubled]);
          const isHit = random.below(6) === 0 && payload !== undefined;
          path.receive(
            isHit && topic !== undefined && sequence !== undefined
              ? [topic, sequence, damage(payload, random)]
              : entry.frames,
          );
          expectSound(path, `${name}, seed ${seed}`);
        }
        expectSameForLate(path, prompts.slice(-10), `${name}, seed ${seed}`);
      }
    });
  }
});

const unreadable: readonly ((frames: readonly Uint8Array[]) => readonly Uint8Array[])[] = [
  ([topic, sequence, payload]) => [part(topic), part(sequence), part(payload).subarray(1)],
  ([topic, sequence, payload]) => [
    part(topic),
    part(sequence),
    Buffer.concat([part(payload), Uint8Array.of(0)]),
  ],
  ([topic, sequence]) => [part(topic), part(sequence), new Uint8Array()],
  ([topic, , payload]) => [part(topic), new Uint8Array(7), part(payload)],
  ([topic, sequence]) => [part(topic), part(sequence)],
  () => [],
];

function part(frame: Uint8Array | undefined): Uint8Array {
  if (frame === undefined) throw new TypeError("a recorded frame has three parts");
  return frame;
}

/** Makes one event of a recorded batch unreadable; keeps the others as they were. */
function spoilEvent(
  frames: readonly Uint8Array[],
  random: SeededRandomness,
): readonly Uint8Array[] {
  const batch = new Decoder({ useBigInt64: true }).decode(part(frames[2])) as unknown[];
  const events = batch[1];
  if (!Array.isArray(events) || events.length === 0) return frames;
  const at = random.below(events.length);
  const event: unknown = events[at];
  if (Array.isArray(event)) {
    // Only the second element is spoilt: hashes, which stores and removals both need.
    if (event.length > 1) event[1] = random.pick<unknown>([[true], "x", null, [[1]], [1.5]]);
  } else {
    const named = event as Record<string, unknown>;
    // An event whose name is spoilt is a case of its own: test/e2e/hostile-engine.test.ts.
    const field = random.pick(["block_hashes", "group_idx", "medium", "ownership"]);
    named[field] = random.pick<unknown>([[true], -1, { odd: 1 }, true]);
  }
  return [part(frames[0]), part(frames[1]), encodeWire(batch)];
}

describe("recorded payloads of which parts cannot be read", () => {
  for (const name of TRACES) {
    test(`${name}: no answer is ever above the engine's own`, async () => {
      const { entries, makePath } = await load(name);
      for (const seed of SEEDS) {
        const random = new SeededRandomness(seed);
        const path = makePath();
        let isRankOdd = false;
        for (const entry of entries) {
          if (entry.type === "restart") path.publisherReplaced();
          if (entry.type === "frame") {
            const chance = random.below(10);
            if (chance === 0) path.receive(random.pick([identity, ...unreadable])(entry.frames));
            else path.receive(chance === 1 ? spoilEvent(entry.frames, random) : entry.frames);
            expectSound(path, `${name}, seed ${seed}`);
            isRankOdd ||= chance < 2;
          }
          if (entry.type !== "lookup") continue;
          const { reusableTokens } = path.score(entry.prompt);
          const where = `${name}, seed ${seed}, line ${entry.line}, damaged ${isRankOdd}`;
          expect(reusableTokens, where).toBeLessThanOrEqual(entry.native);
        }
      }
    });
  }
});

function identity(frames: readonly Uint8Array[]): readonly Uint8Array[] {
  return frames;
}

const odd = fc.constantFrom<unknown>(
  null,
  true,
  -1,
  0,
  1.5,
  2 ** 32,
  2n ** 64n - 1n,
  -(2n ** 63n),
  "",
  "x",
  "\u00df".repeat(1024),
  "__proto__",
  [],
  [[]],
  {},
  new Uint8Array(3),
  new Uint8Array(32),
);
const mostly = (sound: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 12, arbitrary: sound }, { weight: 1, arbitrary: odd });
const hashes = fc.array(mostly(fc.integer({ min: 0, max: 12 })), { maxLength: 4 });
const event = fc.record(
  {
    type: mostly(fc.constantFrom("BlockStored", "BlockStored", "BlockRemoved", "AllBlocksCleared")),
    block_hashes: mostly(hashes),
    parent_block_hash: mostly(fc.option(fc.integer({ min: 0, max: 12 }))),
    token_ids: mostly(fc.array(mostly(fc.integer({ min: 0, max: 2 })), { maxLength: 8 })),
    block_size: mostly(fc.constantFrom(1, 2, 2, 4)),
    medium: mostly(fc.constantFrom("GPU", "GPU", "CPU", null)),
    group_idx: mostly(fc.constantFrom(0, 0, 1, null)),
    kv_cache_spec_kind: mostly(fc.constantFrom("full_attention", "mamba", "sliding_window")),
    kv_cache_spec_sliding_window: mostly(fc.constantFrom(null, 3)),
    lora_name: mostly(fc.constantFrom(null, null, "a")),
    extra_keys: mostly(fc.constantFrom(null, [null], [["a"]], [["salt"], null])),
    locality: mostly(fc.constantFrom(null, "LOCAL", "REMOTE")),
    ownership: mostly(fc.constantFrom(null, null, "kvcr")),
    remaining_copy_counts: mostly(fc.constantFrom(null, [1], [0, 0])),
    lookahead_token_ids: mostly(fc.constantFrom(null, null, [[1]])),
  },
  { requiredKeys: ["type", "block_hashes", "parent_block_hash", "token_ids", "block_size"] },
);

// Goal: no sequence of odd events breaks an account, a stream or the law of late joiners.
// Method: events of a small vocabulary, so that they meet, each field odd once in a dozen; numbers
// jump now and then; after each batch mirror and index are audited and a late gateway asks too.
test("whatever events come, accounts hold, the gateway follows and a late one agrees", () => {
  const step = fc.record({
    jump: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 3, -1, 0),
    rank: mostly(fc.constant(0)),
    events: fc.array(event, { maxLength: 6 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 14 }), (steps) => {
      const worker = new SmgWorker();
      let sequence = 5n;
      for (const { jump, rank, events } of steps) {
        sequence += BigInt(jump);
        if (sequence < 0n) sequence = 0n;
        worker.frames(framesOf(sequence, batchOf(events, rank)));
        expectSound(worker.path, "");
        for (const prompt of [
          [0, 0, 0, 0, 0],
          [1, 0, 1, 2, 0],
          [2, 2, 1, 1],
        ]) {
          expect(worker.score(prompt)).toBeLessThan(prompt.length);
          expect(worker.score(prompt, { loraName: "a" })).toBeLessThan(prompt.length);
        }
      }
    }),
    { numRuns: 300, seed: 20_261 },
  );
});
