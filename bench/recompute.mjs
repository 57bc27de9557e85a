// A busy engine through one rank, frames in and batch bytes out, with and without hash recognition: blocks (listed hashes)
// a second, and the longest single batch. Hashes are real, so that what is recognised is recomputed.
// Run: node bench/recompute.mjs (after a build). The two variants alternate; medians and spread of the rounds are printed.
// Compare ratios inside one run, never absolute times across machines.
import { Encoder } from "@msgpack/msgpack";
import { RankPipeline, UNSTATED_ENGINE } from "../src/bridge/dist/index.js";
import { blockHashes, seedDigest } from "../src/engine-hash/dist/index.js";
import { KeyedHasher, LIMITS, parseDpRank, parseEpoch } from "../src/protocol/dist/index.js";

const ROUNDS = 7;
const STEP_TOKENS = 8_192;
const full = (blockSizeTokens, more = {}) => ({ kind: "full_attention", blockSizeTokens, ...more });
const mamba = (blockSizeTokens, more = {}) => ({ kind: "mamba", blockSizeTokens, ...more });
const window = (blockSizeTokens) => ({
  kind: "sliding_window",
  blockSizeTokens,
  windowTokens: 128,
});

const SHAPES = [
  ["full 16, mamba 16 (checks alone)", 16, 500, [full(16), mamba(16)]],
  ["full 256, windows 64, 4, 8, H 4", 4, 120, [full(256), window(64), window(4), window(8)]],
  [
    "full 64, mamba 64, fine, H 16",
    16,
    500,
    [full(64, { hasPartials: true }), mamba(64, { hasPartials: true })],
  ],
  ["mamba 16 alone", 16, 500, [mamba(16)]],
];

const encoder = new Encoder({ useBigInt64: true });
let state = 1;

function random(below) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

function draw(count) {
  return Array.from({ length: count }, () => random(150_000));
}

/** A group's store of the tokens between two ends; undefined = no block of it is full there. */
function storeOf(
  group,
  groupId,
  prompt,
  from,
  to,
  size = group.blockSizeTokens,
  isPartial = false,
) {
  const first = isPartial ? to - size : Math.floor(from / size) * size;
  const last = Math.floor(to / size) * size;
  if (last <= first) return undefined;
  const hashes = [];
  for (let end = first + size; end <= last; end += size) {
    const isKept =
      group.kind === "full_attention" ||
      (group.kind === "mamba" ? end === last : end > last - group.windowTokens);
    if (isKept) hashes.push(prompt.hashAt(end));
  }
  return {
    type: "BlockStored",
    block_hashes: hashes,
    parent_block_hash: first === 0 ? null : prompt.hashAt(first),
    token_ids: prompt.tokens.slice(first, last),
    block_size: size,
    lora_id: null,
    lora_name: null,
    medium: "GPU",
    group_idx: groupId,
    kv_cache_spec_kind: group.kind,
    ...(group.windowTokens === undefined
      ? {}
      : { kv_cache_spec_sliding_window: group.windowTokens }),
    ...(hashes.length === 0 ? {} : { extra_keys: hashes.map(() => null) }),
  };
}

/** A prompt with the hash of every end, as published. */
function promptOf(tokens, unitTokens) {
  const scheme = {
    algorithm: "sha256",
    seedOrigin: "default",
    rootDigest: seedDigest("sha256", "vllm-none-hash"),
    unitTokens,
    extraKeyForm: "tagged",
    loraPaths: new Map(),
  };
  const given = { tokens, loraName: undefined, cacheSalt: undefined, items: [] };
  const digests = blockHashes(given, scheme, 0);
  const hashAt = (end) => {
    const { digest } = digests[end / unitTokens - 1];
    return Buffer.from(digest, "latin1").subarray(-8).readBigUInt64BE();
  };
  return { tokens, hashAt };
}

/** One batch a step: a request's prompt, then its answer in blocks as they fill. */
function loadOf(unitTokens, requests, groups) {
  const frames = [];
  let blocks = 0;
  const push = (events) => {
    const told = events.filter((event) => event !== undefined);
    if (told.length === 0) return;
    for (const event of told) blocks += event.block_hashes.length;
    const sequence = Buffer.alloc(8);
    sequence.writeBigUInt64BE(BigInt(frames.length));
    frames.push([new Uint8Array(0), sequence, encoder.encode([1.5, told, 0])]);
  };
  const systems = Array.from({ length: 8 }, () => draw(1_024));
  for (let request = 0; request < requests; request++) {
    const prompt = promptOf([...systems[random(8)], ...draw(200 + random(6_000))], unitTokens);
    const { length } = prompt.tokens;
    const promptTokens = length - 128;
    for (let at = 0; at < promptTokens; at += STEP_TOKENS) {
      const to = Math.min(promptTokens, at + STEP_TOKENS);
      push(groups.map((group, id) => storeOf(group, id, prompt, at, to)));
    }
    const end = Math.floor(promptTokens / unitTokens) * unitTokens;
    push(
      groups.map((group, id) =>
        group.hasPartials && end % group.blockSizeTokens !== 0
          ? storeOf(group, id, prompt, 0, end, unitTokens, true)
          : undefined,
      ),
    );
    for (let at = promptTokens; at + 16 <= length; at += 16) {
      push(groups.map((group, id) => storeOf(group, id, prompt, at, at + 16)));
    }
  }
  return { frames, blocks };
}

function run({ frames, blocks }, isRecognised) {
  let bytes = 0;
  const pipeline = new RankPipeline({
    dpRank: parseDpRank(0),
    engine: { ...UNSTATED_ENGINE, hashing: { ...UNSTATED_ENGINE.hashing, isRecognised } },
    hasher: new KeyedHasher("a seed of sixteen"),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => parseEpoch(1n),
    emit: (output) => {
      if (output.type === "batch") bytes += output.keyBytes.length;
    },
  });
  let longestMs = 0;
  const begin = cpuMs();
  let before = begin;
  for (const frame of frames) {
    pipeline.receive(frame, 0);
    const now = cpuMs();
    longestMs = Math.max(longestMs, now - before);
    before = now;
  }
  const seconds = (before - begin) / 1_000;
  const counters = pipeline.counters();
  const unplaced = pipeline.mirror.unplaced;
  return { speed: blocks / seconds, longestMs, bytes, unplaced, counters, seconds };
}

/** CPU time of this process: others may run beside it. It counts the garbage collector's threads too. */
function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

const only = process.argv[2];
for (const [name, unitTokens, requests, groups] of SHAPES) {
  if (only !== undefined && !name.startsWith(only)) continue;
  const load = loadOf(unitTokens, requests, groups);
  const results = { on: [], off: [] };
  run(load, true);
  run(load, false);
  for (let round = 0; round < ROUNDS; round++) {
    const order = round % 2 === 0 ? ["on", "off"] : ["off", "on"];
    for (const which of order) {
      globalThis.gc?.();
      results[which].push(run(load, which === "on"));
    }
  }
  console.log(`${name}: ${load.blocks} blocks in ${load.frames.length} batches`);
  for (const which of ["off", "on"]) {
    const runs = results[which];
    const speeds = runs.map(({ speed }) => speed / 1_000);
    const [{ unplaced, counters, bytes }] = runs;
    const usPerBatch = (median(runs.map(({ seconds }) => seconds)) * 1e6) / load.frames.length;
    console.log(
      `  ${which.padEnd(3)} ${median(speeds).toFixed(0)} k blocks/s (${Math.min(...speeds).toFixed(0)} to ` +
        `${Math.max(...speeds).toFixed(0)}), ${usPerBatch.toFixed(0)} us a batch, longest batch ` +
        `${median(runs.map(({ longestMs }) => longestMs)).toFixed(1)} ms, unplaced ${unplaced}, ` +
        `${counters.get("hashes_recomputed")} hashes and ${counters.get("hashes_shared")} shared, ` +
        `${(bytes / 1e6).toFixed(1)} MB`,
    );
  }
}
console.log(`a batch may cost ${LIMITS.hashesPerBatch.value} hashes of 64 tokens`);
