// A busy engine through one rank, frames in and batch bytes out, with and without hash recognition: blocks (listed hashes)
// a second, and the longest single batch. Hashes are real, so that what is recognised is recomputed.
// Run: npm run bench -- recompute.
import { Encoder } from "@msgpack/msgpack";
import { RankPipeline, UNSTATED_ENGINE } from "../src/bridge/dist/index.js";
import { blockHashes, seedDigest } from "../src/engine-hash/dist/index.js";
import { KeyedHasher, parseDpRank, parseEpoch } from "../src/protocol/dist/index.js";
import { runBench } from "./harness.mjs";

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
  const pipeline = new RankPipeline({
    dpRank: parseDpRank(0),
    engine: { ...UNSTATED_ENGINE, hashing: { ...UNSTATED_ENGINE.hashing, isRecognised } },
    hasher: new KeyedHasher("a seed of sixteen"),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => parseEpoch(1n),
    emit: () => {},
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
  return { speed: blocks / seconds, longestMs, unplaced: pipeline.mirror.unplaced };
}

/** CPU time of this process: others may run beside it. It counts the garbage collector's threads too. */
function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

await runBench(import.meta.url, {
  name: "recompute",
  what: "a busy engine through one rank with real hashes, hash recognition on and off",
  cases: (context) => (context.size === "tiny" ? [SHAPES[3][0]] : SHAPES.map(([name]) => name)),
  run(name, context) {
    const [, unitTokens, requests, groups] = SHAPES.find(([candidate]) => candidate === name);
    const load = loadOf(unitTokens, context.pick(3, Math.ceil(requests / 4), requests), groups);
    const results = { on: [], off: [] };
    if (context.size !== "tiny") for (const isRecognised of [true, false]) run(load, isRecognised);
    for (let round = 0; round < context.pick(1, 4, 7); round++) {
      for (const which of round % 2 === 0 ? ["on", "off"] : ["off", "on"]) {
        globalThis.gc?.();
        results[which].push(run(load, which === "on"));
      }
    }
    for (const [which, runs] of Object.entries(results)) {
      const speeds = runs.map(({ speed }) => speed / 1_000);
      const longest = runs.map(({ longestMs }) => longestMs);
      context.row(`recognition ${which}`, "k blocks/s", speeds, { better: "more" });
      context.row(`recognition ${which}, longest batch`, "ms", longest);
      context.row(`recognition ${which}, left without a place`, "blocks", [runs[0].unplaced]);
    }
  },
});
