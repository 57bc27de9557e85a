// Goal: the table of refusals in docs/protocol.md says what a refusal costs; here each reason is provoked in a
// rank that holds one block in each of two groups, and what the table says is held against what happens.
import { describe, expect, test } from "vitest";
import type { EngineConfig, GroupConfig } from "../../src/bridge/dist/engine-config.js";
import { UNSTATED_ENGINE } from "../../src/bridge/dist/engine-config.js";
import type { RankOutput } from "../../src/bridge/dist/rank-output.js";
import { RankPipeline } from "../../src/bridge/dist/rank-pipeline.js";
import { BlockHasher, DEFAULT_SEED_TEXT, seedDigest } from "../../src/engine-hash/dist/index.js";
import {
  KeyedHasher,
  LIMITS,
  parseDpRank,
  parseEpoch,
  parseGroupId,
  REFUSAL_REASONS,
  type RefusalReason,
} from "../../src/protocol/dist/index.js";
import {
  batchOf,
  encodeWire,
  encodeWith,
  namedRemoval,
  namedStore,
  raw,
  sequenceFrame,
  type WireFields,
  without,
} from "../support/wire-builder.ts";
import { tableRows } from "./tables.ts";
import { readText } from "./tree.ts";

/** What provokes a reason: whole frames, a payload, or events. */
interface Sample {
  readonly frames?: readonly Uint8Array[];
  readonly payload?: Uint8Array;
  readonly store?: unknown;
  readonly removal?: unknown;
  readonly engine?: Partial<EngineConfig>;
}

const PLAIN: WireFields = { group_idx: 0, kv_cache_spec_kind: "full_attention" };
const LONG = "x".repeat(LIMITS.textBytes.value + 1);
const EMPTY = new Uint8Array(0);
const TOPIC = Buffer.from("kv-events");
const OTHERS: WireFields = { block_hashes: [9], token_ids: [11, 12, 13, 14] };
const store = (fields: WireFields): unknown => namedStore({ ...PLAIN, ...OTHERS, ...fields });
const removal = (fields: WireFields): unknown => namedRemoval({ group_idx: 0, ...fields });
function group(id: number, fields: Partial<GroupConfig> = {}): GroupConfig {
  const groupId = parseGroupId(id);
  if (groupId === undefined) throw new RangeError("no group id");
  return {
    groupId,
    kind: undefined,
    blockSizeTokens: undefined,
    windowTokens: undefined,
    chunkTokens: undefined,
    isPrivate: false,
    dropsBlock: false,
    specClass: undefined,
    ...fields,
  };
}

const many = (length: number, value: unknown): unknown[] => Array.from({ length }, () => value);

/** What an engine with vLLM's defaults names a prompt of these tokens, hashed two by two. */
function hashOf(tokens: readonly number[]): bigint {
  const hasher = new BlockHasher("sha256", "tagged");
  let digest = seedDigest("sha256", DEFAULT_SEED_TEXT);
  for (let from = 0; from < tokens.length && digest !== undefined; from += 2) {
    const to = from + 2;
    digest = hasher.digest(
      digest,
      { tokens, from, to, ahead: tokens, aheadFrom: to, aheadTo: to },
      undefined,
    );
  }
  if (digest === undefined) throw new RangeError("these tokens have a hash");
  return Buffer.from(digest, "latin1").readBigUInt64BE(digest.length - 8);
}

/** Encodes one event in which `raw(0)` stands for a float. */
const withFloat = (event: unknown): Uint8Array =>
  encodeWith(batchOf(event), [0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);

const SAMPLES: Readonly<Record<RefusalReason, readonly Sample[]>> = {
  frame_count: [{ frames: [TOPIC, sequenceFrame(1n)] }],
  sequence_width: [{ frames: [TOPIC, new Uint8Array(7), EMPTY] }],
  sequence_reserved: [{ frames: [TOPIC, new Uint8Array(8).fill(255), EMPTY] }],
  topic_mismatch: [{ frames: [Buffer.from("kv-events-b"), sequenceFrame(1n), EMPTY] }],
  payload_too_large: [{ payload: new Uint8Array(LIMITS.payloadBytes.value + 1) }],
  payload_malformed: [{ payload: new Uint8Array([0xc1]) }, { payload: EMPTY }],
  batch_shape: [{ payload: encodeWire([1.5]) }, { payload: encodeWire([1.5, [], "0"]) }],
  too_many_events: [{ payload: encodeWire([1.5, many(LIMITS.eventsPerBatch.value + 1, null), 0]) }],
  rank_mismatch: [{ payload: encodeWire([1.5, [], 1]) }],
  event_shape: [{ store: 7 }, { store: [] }],
  event_tag: [{ store: { type: 7 } }],
  event_unknown: [{ store: { type: "BlockMoved" } }],
  event_arity: [
    { store: ["BlockStored", [9], null, [1]] },
    { removal: ["BlockRemoved"] },
    { removal: ["AllBlocksCleared", "GPU"] },
  ],
  hashes_invalid: [
    { store: store({ block_hashes: 9 }) },
    { removal: removal({ block_hashes: 1 }) },
  ],
  hash_invalid: [
    { store: store({ block_hashes: [true] }) },
    { removal: removal({ block_hashes: [true] }) },
    { payload: withFloat(removal({ block_hashes: [raw(0)] })) },
  ],
  hashes_mixed: [
    {
      store: store({ block_hashes: [9, new Uint8Array(32)], token_ids: [1, 2, 3, 4, 5, 6, 7, 8] }),
    },
    { removal: removal({ block_hashes: [1, new Uint8Array(32)] }) },
  ],
  too_many_hashes: [
    { removal: removal({ block_hashes: many(LIMITS.hashesPerEvent.value + 1, 1) }) },
  ],
  parent_invalid: [
    { store: store({ parent_block_hash: "a" }) },
    { store: without(namedStore(PLAIN), "parent_block_hash") },
  ],
  parent_is_own_hash: [{ store: store({ parent_block_hash: 9 }) }],
  hash_repeated: [{ store: store({ block_hashes: [9, 9], token_ids: [1, 2, 3, 4, 5, 6, 7, 8] }) }],
  tokens_invalid: [{ store: store({ token_ids: [1, 2, 3, -4] }) }],
  too_many_tokens: [{ store: store({ token_ids: many(LIMITS.tokensPerEvent.value + 1, 1) }) }],
  tokens_misaligned: [{ store: store({ token_ids: [1, 2, 3, 4, 5] }) }],
  block_size_invalid: [{ store: store({ block_size: 0 }) }, { store: store({ block_size: -4 }) }],
  extra_keys_invalid: [{ store: store({ extra_keys: [null, null] }) }],
  lookahead_invalid: [{ store: store({ lookahead_token_ids: [[5], [6]] }) }],
  text_invalid: [
    { payload: encodeWith(batchOf({ ...namedRemoval(), [raw(0)]: 1 }), [7]) },
    {
      payload: encodeWith(
        batchOf({ ...namedStore({ ...PLAIN, block_hashes: [9] }), [raw(0)]: 1 }),
        [7],
      ),
    },
  ],
  text_too_long: [
    { store: store({ lora_name: LONG }) },
    { store: store({ kv_cache_spec_kind: LONG }) },
    { removal: removal({ medium: LONG }) },
    { frames: [Buffer.from(LONG), sequenceFrame(1n), EMPTY] },
  ],
  lora_invalid: [{ store: store({ lora_name: 7 }) }, { store: store({ lora_id: "7" }) }],
  medium_invalid: [{ store: store({ medium: 7 }) }, { removal: removal({ medium: 7 }) }],
  locality_invalid: [
    { store: store({ locality: 7 }) },
    { removal: removal({ locality: 7 }) },
    { removal: { type: "AllBlocksCleared", locality: "REMOTE" } },
  ],
  ownership_invalid: [
    { store: store({ ownership: 7 }) },
    { removal: removal({ ownership: 7 }) },
    { removal: { type: "AllBlocksCleared", ownership: "somebody" } },
  ],
  group_invalid: [{ store: store({ group_idx: -1 }) }, { removal: removal({ group_idx: "0" }) }],
  group_missing: [{ store: without(namedStore({ block_hashes: [9] }), "group_idx") }],
  too_many_groups: [
    {
      store: store({ group_idx: 99 }),
      engine: { groups: Array.from({ length: LIMITS.groupsPerRank.value }, (_, id) => group(id)) },
    },
  ],
  too_many_media: [],
  kind_invalid: [{ store: store({ kv_cache_spec_kind: 7 }) }],
  kind_contradicts: [{ store: store({ kv_cache_spec_kind: "mamba" }) }],
  window_invalid: [{ store: store({ kv_cache_spec_sliding_window: 8 }) }],
  window_contradicts: [
    {
      store: store({
        group_idx: 1,
        kv_cache_spec_kind: "sliding_window",
        kv_cache_spec_sliding_window: 16,
      }),
    },
  ],
  lookahead_contradicts: [{ store: store({ lookahead_token_ids: [[5]] }) }],
  block_size_contradicts: [
    {
      store: store({ block_size: 8, token_ids: [1, 2, 3, 4, 5, 6, 7, 8] }),
      engine: { groups: [group(0, { blockSizeTokens: 4 })] },
    },
  ],
  roster_contradicts: [
    {
      store: store({ group_idx: 5 }),
      engine: { groups: [group(0), group(1)], isRosterComplete: true },
    },
  ],
  group_private: [
    { store: store({ group_idx: 5 }), engine: { groups: [group(5, { isPrivate: true })] } },
  ],
  place_contradicts: [{ store: store({ block_hashes: [1], token_ids: [5, 6, 7, 8] }) }],
  hash_replaced: [{ store: store({ block_hashes: [9], token_ids: [1, 2, 3, 4] }) }],
  // The first store proves how blocks are named, the second one contradicts it.
  hash_not_reproduced: [
    {
      payload: encodeWire(
        batchOf(
          store({ block_hashes: [hashOf([11, 12, 13, 14])], extra_keys: [null] }),
          store({ block_hashes: [9], token_ids: [21, 22, 23, 24], extra_keys: [null] }),
        ),
      ),
      engine: { hashBlockSizeTokens: 2 },
    },
  ],
};

interface Outcome {
  readonly refused: bigint;
  readonly outputs: readonly RankOutput["type"][];
  readonly before: bigint;
  readonly after: bigint;
}

function provoke(reason: RefusalReason, sample: Sample): Outcome {
  const dpRank = parseDpRank(0);
  if (dpRank === undefined) throw new RangeError("no rank");
  const outputs: RankOutput["type"][] = [];
  let epochs = 0n;
  const pipeline = new RankPipeline({
    dpRank,
    engine: { ...UNSTATED_ENGINE, ...sample.engine },
    hasher: new KeyedHasher("a seed for tests"),
    topic: "kv-events",
    isEngineProjectionAllowed: false,
    mintEpoch: () => {
      epochs += 1n;
      const epoch = parseEpoch(epochs);
      if (epoch === undefined) throw new RangeError("no epoch");
      return epoch;
    },
    emit: (output) => outputs.push(output.type),
  });
  const full = namedStore({ ...PLAIN, block_hashes: [1], token_ids: [1, 2, 3, 4] });
  const sliding = namedStore({
    group_idx: 1,
    kv_cache_spec_kind: "sliding_window",
    kv_cache_spec_sliding_window: 8,
    block_hashes: [1],
    token_ids: [1, 2, 3, 4],
  });
  pipeline.receive([TOPIC, sequenceFrame(0n), encodeWire(batchOf(full, sliding))], 0);
  const before = pipeline.describe(0).placedBlocks;
  outputs.length = 0;
  const event = sample.store ?? sample.removal;
  const payload = sample.payload ?? encodeWire(batchOf(event));
  pipeline.receive(sample.frames ?? [TOPIC, sequenceFrame(1n), payload], 1);
  pipeline.audit();
  const described = pipeline.describe(1);
  const refused = described.counters[`refused.${reason}`] ?? 0n;
  return { refused, outputs, before, after: described.placedBlocks };
}

const rows = new Map(
  tableRows(readText("docs/protocol.md"), "refusals").map(
    ([name = "", costs = "", withdraws = ""]) => [name.replaceAll("`", ""), { costs, withdraws }],
  ),
);

describe.each(REFUSAL_REASONS)("the refusal %s", (reason) => {
  const samples = SAMPLES[reason];
  const { withdraws = "" } = rows.get(reason) ?? {};
  const isMessage = (sample: Sample): boolean => sample.frames !== undefined;
  const isRemoval = (sample: Sample): boolean =>
    sample.removal !== undefined ||
    (sample.payload !== undefined && Buffer.from(sample.payload).includes("BlockRemoved"));

  test("costs what the table says", () => {
    for (const [index, sample] of samples.entries()) {
      const outcome = provoke(reason, sample);
      const name = `sample ${index}`;
      expect(outcome.refused, name).toBe(1n);
      expect(outcome.before, name).toBe(2n);
      if (isMessage(sample)) {
        expect(outcome.outputs, name).toEqual([]);
        expect(outcome.after, name).toBe(2n);
      } else if (withdraws.startsWith("the rank")) {
        expect(outcome.outputs, name).toEqual(["epoch", "batch"]);
        expect(outcome.after, name).toBe(0n);
      } else if (withdraws.startsWith("the group")) {
        expect(outcome.outputs, name).toEqual(["withdraw", "batch"]);
        expect(outcome.after, name).toBe(1n);
      } else if (withdraws.startsWith("its blocks")) {
        expect(outcome.outputs, name).toEqual(["batch"]);
        expect(outcome.after, name).toBe(1n);
      } else if (isRemoval(sample)) {
        expect(withdraws, name).toMatch(/^removal(?: or clear)?: its scope/);
        expect(outcome.after, name).toBeLessThan(2n);
      } else {
        expect(
          outcome.outputs.filter((type) => type === "epoch" || type === "withdraw"),
          name,
        ).toEqual([]);
        expect(outcome.after, name).toBeGreaterThanOrEqual(2n);
      }
    }
  });
});

test("a store in one medium too many is refused and takes nothing away", () => {
  const media = LIMITS.mediaPerRank.value;
  const stores = Array.from({ length: media + 1 }, (_, index) => store({ medium: `TIER${index}` }));
  const { refused, outputs, after } = provoke("too_many_media", {
    payload: encodeWire(batchOf(...stores)),
  });
  expect(refused).toBe(1n);
  expect(outputs.filter((type) => type !== "engine")).toEqual(["batch"]);
  expect(after).toBeGreaterThanOrEqual(2n);
});
