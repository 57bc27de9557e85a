// A recorded engine as a process of its own: `fork(engine-main.mjs, [JSON of EngineSetup])`. It publishes and
// answers replay requests as vLLM 0.33 does, on ports that it is given, so that a second process can take its place.
// Commands come as IPC messages {id, order, ...}; each is answered with {id, ...}. engine-process.ts is the other end.
import { decode, Encoder } from "@msgpack/msgpack";
import { Router, XPublisher } from "zeromq";
import { openTrace } from "../../../src/cli/dist/trace-file.js";

const END_SEQUENCE = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);
const TIMESTAMP_AT = 2;
const TIMESTAMP_BYTES = 8;
const SECONDS_BETWEEN_GENERATIONS = 86_400;
const FLOOD_BLOCKS = 2_048;
const FLOOD_FIRST_HASH = 1n << 60n;

const setup = JSON.parse(process.argv[2] ?? "{}");
const recorded = [];
for await (const entry of (await openTrace(setup.trace)).entries) {
  if (entry.type === "restart") throw new Error("a recording with restarts is none of one engine");
  if (entry.type === "frame") recorded.push(entry.frames.map((frame) => Buffer.from(frame)));
}

/** Batches kept for replay: sequence number → frames. */
const kept = new Map();
const publisher = new XPublisher({ linger: 0, sendHighWaterMark: 100_000 });
let router;
let replayMode = setup.replayMode;
let requests = 0;
let nextSequence = 0;
/** Recorded batches played since the start or the last clear. */
let position = 0;
let toDrop = 0;
let subscribers = 0;

/** The payload of this very process: another time of publishing, this rank. */
function own(payload) {
  const copy = Buffer.from(payload);
  const recordedAt = copy.readDoubleBE(TIMESTAMP_AT);
  copy.writeDoubleBE(recordedAt + setup.generation * SECONDS_BETWEEN_GENERATIONS, TIMESTAMP_AT);
  copy[copy.length - 1] = setup.dpRank;
  return copy;
}

async function publish(topic, payload) {
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(nextSequence));
  const frames = [topic, number, payload];
  kept.set(nextSequence, frames);
  kept.delete(nextSequence - setup.bufferSteps);
  nextSequence += 1;
  if (toDrop > 0) toDrop -= 1;
  else await publisher.send(frames);
}

async function play(until) {
  if (until > recorded.length) throw new RangeError(`the recording has ${recorded.length} batches`);
  while (position < until) {
    const [topic, , payload] = recorded[position];
    await publish(topic, own(payload));
    position += 1;
  }
}

/** `AllBlocksCleared`, after which the recording begins anew while the numbers go on. */
async function clear() {
  const [topic, , payload] = recorded[0];
  const head = own(payload).subarray(0, TIMESTAMP_AT + TIMESTAMP_BYTES);
  const event = Buffer.concat([
    Buffer.of(0x91, 0x81, 0xa4),
    Buffer.from("type"),
    Buffer.of(0xb0),
    Buffer.from("AllBlocksCleared"),
  ]);
  await publish(topic, Buffer.concat([head, event, Buffer.of(setup.dpRank)]));
  position = 0;
}

/** One store of many blocks, and their removal: a pair leaves the cache as it was. */
function floodPair() {
  const [topic, , payload] = recorded[0];
  const [at, [store], dpRank] = decode(own(payload), { useBigInt64: true });
  const blockSize = Number(store.block_size);
  const block_hashes = Array.from({ length: FLOOD_BLOCKS }, (_, i) => FLOOD_FIRST_HASH + BigInt(i));
  const token_ids = Array.from({ length: FLOOD_BLOCKS * blockSize }, (_, i) => 200_000 + (i % 999));
  const extra_keys = block_hashes.map(() => null);
  const { group_idx, medium } = store;
  const events = [
    { ...store, block_hashes, parent_block_hash: null, token_ids, extra_keys },
    { type: "BlockRemoved", block_hashes, medium, group_idx },
  ];
  const encoder = new Encoder({ useBigInt64: true });
  return events.map((event) => [topic, Buffer.from(encoder.encode([at, [event], dpRank]))]);
}

async function flood(pairs) {
  const pair = floodPair();
  for (let i = 0; i < pairs; i++) {
    for (const [topic, payload] of pair) await publish(topic, payload);
  }
}

async function answerReplays(socket) {
  for await (const [identity, delimiter, start, ...rest] of socket) {
    if (start === undefined || delimiter.length !== 0 || rest.length > 0) continue;
    requests += 1;
    if (replayMode === "silent") continue;
    const from = Number(BigInt(`0x${start.toString("hex")}`));
    const keptNow = [...kept];
    for (const [sequence, frames] of keptNow) {
      if (sequence < from) continue;
      // Another third is missing in each reply, so that asking again fills the holes.
      if (replayMode === "holey" && (sequence + requests) % 3 === 0) continue;
      await socket.send([identity, EMPTY, ...frames]);
    }
    await socket.send([identity, EMPTY, EMPTY, END_SEQUENCE, EMPTY]);
  }
}

async function setReplayMode(mode) {
  replayMode = mode;
  if (mode === "off") {
    router?.close();
    router = undefined;
    return;
  }
  if (router !== undefined) return;
  const socket = new Router({ linger: 0, sendHighWaterMark: 2 * (setup.bufferSteps + 1) });
  await socket.bind(`tcp://127.0.0.1:${setup.replayPort}`);
  router = socket;
  void answerReplays(socket);
}

async function countSubscribers() {
  for (;;) {
    const [message] = await publisher.receive();
    subscribers += message[0] === 1 ? 1 : -1;
  }
}

const ORDERS = {
  play: ({ until }) => play(until),
  clear: () => clear(),
  flood: ({ pairs }) => flood(pairs),
  drop: ({ count }) => {
    toDrop = count;
  },
  replay: ({ mode }) => setReplayMode(mode),
  state: () => {},
};

let queue = Promise.resolve();
process.on("message", (message) => {
  queue = queue
    .then(() => ORDERS[message.order](message))
    .then(
      () =>
        process.send({
          id: message.id,
          position,
          lastSequence: nextSequence - 1,
          subscribers,
          requests,
        }),
      (error) => process.send({ id: message.id, failure: String(error) }),
    );
});
process.on("disconnect", () => process.exit(0));

await publisher.bind(`tcp://127.0.0.1:${setup.publishPort}`);
await setReplayMode(replayMode);
void countSubscribers();
process.send({ id: 0, position, lastSequence: -1, subscribers, requests });
