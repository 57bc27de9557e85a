// What it is: the longest stall while a subscriber takes a snapshot of 700,000 blocks, and its bytes. A piece is read from the
// mirror, built and serialised in one turn of the event loop; between two pieces a live batch of 125 new blocks is stored.
// Run: npm run bench -- snapshot. Times are of the clock; compare with the time of filling the mirror.
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
import { cpuMs, runBench } from "./harness.mjs";

const PER_EVENT = 125;
const SIZE = 16;
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

function filled(blocks) {
  const pipeline = new RankPipeline({
    dpRank: parseDpRank(0),
    engine: UNSTATED_ENGINE,
    hasher: new KeyedHasher("a seed of sixteen"),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: () => parseEpoch(1n),
    emit: () => {},
  });
  for (let first = 0; first < blocks; first += PER_EVENT) {
    pipeline.mirror.store(storeOf(first), group, facts);
  }
  return pipeline;
}

await runBench(import.meta.url, {
  name: "snapshot",
  what: `stalls while a snapshot is taken, at most ${LIMITS.snapshotChunkBlocks.value} blocks a piece`,
  cases: () => ["busy"],
  run(_name, context) {
    const blocks = context.pick(2_000, 200_000, 700_000);
    const fillBegin = cpuMs();
    const pipeline = filled(blocks);
    const fillMs = cpuMs() - fillBegin;
    const fanOut = new FanOut({ view: pipeline, instance: 1n });
    let fresh = blocks;
    const pieces = [];
    const wholes = [];
    let bytes = 0;
    for (let round = 0; round < context.pick(1, 3, 3); round++) {
      const subscriber = fanOut.subscribe({ projection: 1, onWake: () => {} });
      bytes = 0;
      let whole = 0;
      for (let isLast = false; !isLast; ) {
        const begin = performance.now();
        const item = subscriber.next();
        if (item === undefined) break;
        bytes += toBinary(SubscribeResponseSchema, toResponse(item, false)).length;
        pieces.push(performance.now() - begin);
        whole += pieces.at(-1);
        fresh += PER_EVENT;
        pipeline.mirror.store(storeOf(fresh), group, facts);
        isLast = item.type === "snapshot_chunk" && item.chunk.isLast;
      }
      subscriber.close();
      wholes.push(whole);
    }
    context.row("filling the mirror", "ms", [fillMs]);
    context.row("one piece", "ms", pieces);
    context.row("all pieces", "ms", wholes);
    context.row(
      "all pieces, of filling",
      "%",
      wholes.map((whole) => (100 * whole) / fillMs),
    );
    context.row("size", "B/block", [bytes / blocks]);
  },
});
