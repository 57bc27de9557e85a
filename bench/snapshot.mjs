// The longest stall while a subscriber takes a snapshot of 700,000 blocks, and its bytes.
// Run: node bench/snapshot.mjs (after a build). A piece is read from the mirror, built and serialised in one turn of the
// event loop; between two pieces a live batch of 125 new blocks is stored (some 100,000 blocks a second).
// Times are of the clock: run it on a quiet machine, and compare with the time of filling the mirror.
import { toBinary } from "@bufbuild/protobuf";
import { SubscribeResponseSchema } from "../gen/es/kvgroup/v1/bridge_pb.js";
import { FanOut, RankPipeline, toResponse, UNSTATED_ENGINE } from "../src/bridge/dist/index.js";
import {
  KeyedHasher,
  LIMITS,
  parseByteHash,
  parseDpRank,
  parseEpoch,
  parseGroupId,
} from "../src/protocol/dist/index.js";

const BLOCKS = 700_000;
const PER_EVENT = 125;
const SIZE = 16;
const ROUNDS = 3;
const group = parseGroupId(0);
const facts = { lookaheadTokens: 0, wholeBlockTokens: SIZE };

function storeOf(first) {
  const hashes = Array.from({ length: PER_EVENT }, (_, i) => {
    const bytes = new Uint8Array(32);
    new DataView(bytes.buffer).setUint32(0, first + i);
    return parseByteHash(bytes, { digestBytes: 32, maxBytes: 2048 });
  });
  return {
    type: "stored",
    medium: "GPU",
    locality: "",
    ownership: "",
    groupId: group,
    kind: "full_attention",
    hashes,
    tokens: Uint32Array.from({ length: PER_EVENT * SIZE }, (_, i) => first * SIZE + i),
    blockSizeTokens: SIZE,
    extraKeys: hashes.map(() => undefined),
    notes: [],
  };
}

function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const pipeline = new RankPipeline({
  dpRank: parseDpRank(0),
  engine: UNSTATED_ENGINE,
  hasher: new KeyedHasher("a seed of sixteen"),
  topic: undefined,
  isEngineProjectionAllowed: false,
  mintEpoch: () => parseEpoch(1n),
  emit: () => {},
});
const fillBegin = cpuMs();
for (let first = 0; first < BLOCKS; first += PER_EVENT) {
  pipeline.mirror.store(storeOf(first), group, facts);
}
const fillMs = cpuMs() - fillBegin;
const fanOut = new FanOut({ view: pipeline, instance: 1n });

let fresh = BLOCKS;
const lines = [];
for (let round = 0; round < ROUNDS; round++) {
  const subscriber = fanOut.subscribe({ projection: 1, onWake: () => {} });
  const times = [];
  let bytes = 0;
  for (;;) {
    const begin = process.hrtime.bigint();
    const item = subscriber.next();
    if (item === undefined) break;
    bytes += toBinary(SubscribeResponseSchema, toResponse(item, false)).length;
    times.push(Number(process.hrtime.bigint() - begin) / 1e6);
    fresh += PER_EVENT;
    pipeline.mirror.store(storeOf(fresh), group, facts);
    if (item.type === "snapshot_chunk" && item.chunk.isLast) break;
  }
  subscriber.close();
  times.sort((a, b) => a - b);
  const at = (share) =>
    times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1);
  lines.push(
    `pieces ${times.length}, typical ${at(0.5)} ms, 98 % within ${at(0.98)} ms, longest ${at(1)} ms, ` +
      `whole ${times.reduce((a, b) => a + b, 0).toFixed(0)} ms, ${(bytes / 1e6).toFixed(1)} MB`,
  );
}
console.log(
  `filling ${BLOCKS} blocks: ${fillMs.toFixed(0)} ms; a piece has ${LIMITS.snapshotChunkBlocks.value} blocks`,
);
for (const line of lines) console.log(line);
