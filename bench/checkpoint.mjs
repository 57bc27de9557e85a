// Time and size of a checkpoint of 700,000 blocks: the longest stall, the whole, and reading it again.
// Run: node bench/checkpoint.mjs (after a build). `busy` stores and removes 1,000 blocks between any two pieces.
// All times are of the processor. Absolute times are this machine's; compare
// the ratio to filling the same mirror from events.
import { readCheckpoint } from "../src/bridge/dist/checkpoint-reader.js";
import { CheckpointWriter } from "../src/bridge/dist/checkpoint-writer.js";
import { MIRROR_DEFAULTS, Mirror } from "../src/bridge/dist/mirror.js";
import { Placement } from "../src/bridge/dist/placement.js";
import {
  KeyedHasher,
  LIMITS,
  parseByteHash,
  parseDpRank,
  parseGroupId,
} from "../src/protocol/dist/index.js";

const BLOCKS = 700_000;
const PER_EVENT = 125;
const SIZE = 16;
const ROUNDS = 3;
const PIECE = LIMITS.checkpointPieceBlocks.value;
const silent = { stored() {}, removed() {}, cleared() {}, refused() {} };
const hasher = new KeyedHasher("a seed of sixteen");
const digestBytes = Number(process.argv[2] ?? 32);
const group = parseGroupId(0);
const facts = { lookaheadTokens: 0, wholeBlockTokens: SIZE };

function hashOf(number) {
  const bytes = new Uint8Array(digestBytes);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at + 4 <= digestBytes; at += 4)
    view.setUint32(at, Math.imul(number + at, 2_654_435_761));
  view.setUint32(0, number);
  return parseByteHash(bytes, { digestBytes, maxBytes: 2048 });
}

function storeOf(first) {
  const hashes = Array.from({ length: PER_EVENT }, (_, i) => hashOf(first + i));
  const tokens = Uint32Array.from({ length: PER_EVENT * SIZE }, (_, i) => first * SIZE + i);
  const residency = { medium: "GPU", locality: "", ownership: "" };
  return {
    type: "stored",
    ...residency,
    groupId: group,
    kind: "full_attention",
    hashes,
    tokens,
    blockSizeTokens: SIZE,
    extraKeys: hashes.map(() => undefined),
    notes: [],
  };
}

function filled() {
  const mirror = new Mirror(new Placement(hasher), silent, MIRROR_DEFAULTS);
  for (let first = 0; first < BLOCKS; first += PER_EVENT)
    mirror.store(storeOf(first), group, facts);
  return mirror;
}

const digests = Array.from({ length: LIMITS.duplicateDigests.value }, (_, i) => [
  BigInt(i),
  "x".repeat(44),
]);
const head = {
  fingerprint: "f",
  dpRank: parseDpRank(0),
  epoch: 1n,
  instance: 7n,
  gate: { last: 4095n, digests },
  isComplete: true,
  facts: { groups: [], lookaheadTokens: 0, unitTokens: SIZE, hasTooManyGroups: false },
  grouping: "grouped",
  writtenAtMs: 0,
};

/** Time of the processor, so that a busy machine does not count; garbage collection beside it does. */
function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

let fresh = BLOCKS;
function change(mirror) {
  for (let i = 0; i < 8; i++) {
    mirror.store(storeOf(fresh), group, facts);
    mirror.remove({ ...storeOf(fresh - BLOCKS), type: "removed" });
    fresh += PER_EVENT;
  }
}

function cut(mirror, isBusy) {
  const writer = new CheckpointWriter(mirror);
  const pieces = [];
  const times = [];
  let total = 0;
  const timed = (work) => {
    const begin = cpuMs();
    const result = work();
    const took = cpuMs() - begin;
    times.push(took);
    total += took;
    return [result, took];
  };
  for (;;) {
    const [piece] = timed(() => writer.piece(PIECE));
    if (piece === undefined) break;
    pieces.push(piece);
    if (isBusy) change(mirror);
  }
  const [end, finish] = timed(() => writer.finish(head));
  times.sort((a, b) => a - b);
  const typical = middle(times);
  const most = times[Math.floor(times.length * 0.98)];
  return {
    bytes: Buffer.concat([...pieces, end]),
    typical,
    most,
    longest: times.at(-1),
    total,
    finish,
  };
}

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

function measure(isBusy) {
  const begin = cpuMs();
  const mirror = filled();
  const fillMs = cpuMs() - begin;
  const cuts = [];
  let last;
  for (let round = 0; round < ROUNDS; round++) {
    const { bytes, ...times } = cut(mirror, isBusy);
    last = bytes;
    cuts.push(times);
  }
  const line = (name) => `${name} ${middle(cuts.map((one) => one[name])).toFixed(1)} ms`;
  const worst = Math.max(...cuts.map((one) => one.longest)).toFixed(1);
  const ratio = ((100 * middle(cuts.map((one) => one.total))) / fillMs).toFixed(0);
  console.log(
    `${isBusy ? "busy" : "idle"}: ${line("total")} (${ratio} % of filling the mirror), ${line("typical")}, 98 of 100 within ${line("most")}, ${line("longest")} (worst ${worst}), ` +
      `${line("finish")}, ${(last.length / 1e6).toFixed(1)} MB`,
  );
  return { bytes: last, fillMs };
}

for (const isBusy of [false, true]) {
  const { bytes, fillMs } = measure(isBusy);
  globalThis.gc?.();
  const begin = cpuMs();
  const read = readCheckpoint(bytes, { fingerprint: "f", dpRank: head.dpRank });
  const readMs = cpuMs() - begin;
  const other = new Mirror(new Placement(hasher), silent, MIRROR_DEFAULTS);
  read.value.restore(other);
  const restoreMs = cpuMs() - begin - readMs;
  console.log(
    `  read in ${readMs.toFixed(0)} ms, restored in ${restoreMs.toFixed(0)} ms; ` +
      `filling it anew took ${fillMs.toFixed(0)} ms`,
  );
  other.audit();
}
