// Memory and speed of a bridge with 64 subscribers under full load, none and one of them paused. Run:
// node bench/paused-subscriber.mjs [pairs per phase] (after a build). 62 subscribers read and forget; one gateway
// process follows and shows how far everybody is; another one is the one that is paused (SIGSTOP). A pair is a store
// and a removal of 2,048 blocks, some 32 kB of stream.
import { connect } from "node:http2";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { SubscribeRequestSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { runnerImport } from "vite";

const load = async (name) => {
  const file = join(import.meta.dirname, "../test/support/chaos", name);
  return (await runnerImport(file)).module;
};
const { Recording } = await load("recording.ts");
const { Scene } = await load("scene.ts");
const { Judge } = await load("judge.ts");

const PHASE_PAIRS = Number(process.argv[2] ?? 400);
const PAIRS = 40;
const READERS = 62;
/** Smaller than the default, so that a phase fills it beside the windows of the stream. */
const QUEUE_BYTES = 4 * 1024 * 1024;
const AT = 300;

/** A subscriber that reads everything and keeps nothing. */
function read(port) {
  const session = connect(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  const stream = session.request({
    ":method": "POST",
    ":path": "/kvgroup.v1.BridgeService/Subscribe",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  const reader = { bytes: 0, close: () => session.destroy() };
  const message = toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema, { dpRank: 0 }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.on("error", () => {});
  stream.on("data", (bytes) => {
    reader.bytes += bytes.length;
  });
  stream.end(Buffer.concat([head, message]));
  return reader;
}

function mebibytes(bytes) {
  return `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
}

const recording = await Recording.open("gemma");
const scene = await Scene.open({
  recording,
  gateways: 2,
  bridgeFlags: { "subscribers-queue-bytes": QUEUE_BYTES },
});
const [following, paused] = scene.followers;
const readers = Array.from({ length: READERS }, () => read(scene.ports.bridge));
await scene.play(AT);
const judge = new Judge(scene, AT);
await judge.right();

const row = (cells) => console.log(cells.map((cell) => String(cell).padStart(16)).join(""));
row(["phase", "subscribers", "batches/s", "bridge, mean", "bridge, most", "overflows"]);

async function phase(name) {
  const begin = performance.now();
  const from = scene.state().lastSequence;
  const seen = [];
  for (let pairs = 0; pairs < PHASE_PAIRS; pairs += PAIRS) {
    await scene.flood(PAIRS);
    await judge.right({ followers: [following] });
    seen.push(scene.bridge.residentBytes());
  }
  const seconds = (performance.now() - begin) / 1000;
  row([
    name,
    await scene.metric("kvgroup_bridge_subscribers"),
    ((scene.state().lastSequence - from) / seconds).toFixed(0),
    mebibytes(seen.reduce((sum, bytes) => sum + bytes, 0) / seen.length),
    mebibytes(Math.max(...seen)),
    await scene.metric("kvgroup_bridge_subscriber_overflows_total"),
  ]);
}

try {
  await phase("warm up");
  await phase("all read");
  paused.process.signal("SIGSTOP");
  await phase("one paused");
  await phase("still paused");
  paused.process.signal("SIGCONT");
  const begin = performance.now();
  await judge.right();
  console.log(`right again ${Math.round(performance.now() - begin)} ms after it went on`);
  const total = readers.reduce((sum, { bytes }) => sum + bytes, 0);
  console.log(`${READERS} readers took ${mebibytes(total)} in all`);
} finally {
  for (const reader of readers) reader.close();
  await scene.close();
}
process.exit(0);
