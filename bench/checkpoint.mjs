// What it is: time and size of a checkpoint of 700,000 blocks: the longest stall, the whole, and reading it again. `busy` stores
// and removes 1,000 blocks between any two pieces. All times are of the processor.
// Run: npm run bench -- checkpoint. Compare the ratio to filling the same mirror from events.
import { readCheckpoint } from "../src/bridge/dist/checkpoint-reader.js";
import { CheckpointWriter } from "../src/bridge/dist/checkpoint-writer.js";
import { MIRROR_DEFAULTS, Mirror } from "../src/bridge/dist/mirror.js";
import {
  KeyedHasher,
  LIMITS,
  parseByteHash,
  parseDpRank,
  parseGroupId,
} from "../src/protocol/dist/index.js";
import { cpuMs, runBench } from "./harness.mjs";

const PER_EVENT = 125;
const SIZE = 16;
const PIECE = LIMITS.checkpointPieceBlocks.value;
const silent = { stored() {}, removed() {}, cleared() {}, refused() {} };
const hasher = new KeyedHasher("a seed of sixteen");
const digestBytes = 32;
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

function filled(blocks) {
  const mirror = new Mirror(hasher, silent, MIRROR_DEFAULTS);
  for (let first = 0; first < blocks; first += PER_EVENT)
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
  hashing: {
    state: "searching",
    way: undefined,
    form: "integer",
    extraKeyForm: undefined,
    isExtraKeyFormRefuted: false,
  },
  writtenAtMs: 0,
};

/** 1,000 blocks come and 1,000 go. `changes.next`: the first block that is not held yet. */
function change(mirror, changes, blocks) {
  for (let i = 0; i < 8; i++) {
    mirror.store(storeOf(changes.next), group, facts);
    mirror.remove({ ...storeOf(changes.next - blocks), type: "removed" });
    changes.next += PER_EVENT;
  }
}

function cut(mirror, whenBusy) {
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
    whenBusy();
  }
  const [end, finish] = timed(() => writer.finish(head));
  return { bytes: Buffer.concat([...pieces, end]), times, total, finish };
}

await runBench(import.meta.url, {
  name: "checkpoint",
  what: "stalls while a checkpoint is cut, and reading it again",
  cases: () => ["idle", "busy"],
  run(name, context) {
    const blocks = context.pick(2_000, 200_000, 700_000);
    const changes = { next: blocks };
    const fillBegin = cpuMs();
    const mirror = filled(blocks);
    const fillMs = cpuMs() - fillBegin;
    const whenBusy = name === "busy" ? () => change(mirror, changes, blocks) : () => {};
    const cuts = Array.from({ length: context.pick(1, 3, 3) }, () => cut(mirror, whenBusy));
    const last = cuts.at(-1).bytes;
    context.row("filling the mirror", "ms", [fillMs]);
    context.row(
      "one piece",
      "ms",
      cuts.flatMap(({ times }) => times),
    );
    context.row(
      "the last piece",
      "ms",
      cuts.map(({ finish }) => finish),
    );
    context.row(
      "all pieces",
      "ms",
      cuts.map(({ total }) => total),
    );
    context.row(
      "all pieces, of filling",
      "%",
      cuts.map(({ total }) => (100 * total) / fillMs),
    );
    context.row("size", "B/block", [last.length / blocks]);
    globalThis.gc?.();
    const readBegin = cpuMs();
    const read = readCheckpoint(last, { fingerprint: "f", dpRank: head.dpRank });
    if (!read.ok) throw new Error(`the checkpoint is refused: ${read.error}`);
    const restoreBegin = cpuMs();
    const other = new Mirror(hasher, silent, MIRROR_DEFAULTS);
    read.value.restore(other);
    context.row("restoring", "ms", [cpuMs() - restoreBegin]);
    context.row("reading", "ms", [restoreBegin - readBegin]);
    other.audit();
  },
});
