// What it is: memory and speed of a bridge with 64 subscribers under full load, none and one of them paused. 62 subscribers read
// and forget; one gateway process follows and shows how far everybody is; another one is paused (SIGSTOP). A pair is a store and
// a removal of 2,048 blocks, some 32 kB of stream.
// Run: npm run bench -- paused-subscriber.
import { connect } from "node:http2";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { SubscribeRequestSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { runnerImport } from "vite";
import { runBench } from "./harness.mjs";

const load = async (name) => {
  const file = join(import.meta.dirname, "../test/support/chaos", name);
  return (await runnerImport(file)).module;
};
const { Recording } = await load("recording.ts");
const { Scene } = await load("scene.ts");
const { Judge } = await load("judge.ts");

const PAIRS = 40;
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

const mebibytes = (bytes) => bytes / 1_024 / 1_024;

/** One phase of load: batches a second, and the bridge's memory after each step of it. */
async function phase(scene, judge, following, pairs) {
  const begin = performance.now();
  const from = scene.state().lastSequence;
  const seen = [];
  for (let sent = 0; sent < pairs; sent += PAIRS) {
    await scene.flood(Math.min(PAIRS, pairs - sent));
    await judge.right({ followers: [following] });
    seen.push(mebibytes(scene.bridge.residentBytes()));
  }
  const seconds = (performance.now() - begin) / 1_000;
  return { rate: (scene.state().lastSequence - from) / seconds, seen };
}

await runBench(import.meta.url, {
  name: "paused-subscriber",
  what: "a bridge under load, with subscribers that read and one that does not",
  isPinned: () => false,
  cases: () => ["64 subscribers"],
  async run(_name, context) {
    const at = context.pick(20, AT, AT);
    const recording = await Recording.open("gemma", at);
    const scene = await Scene.open({
      recording,
      gateways: 2,
      bridgeFlags: { "subscribers-queue-bytes": QUEUE_BYTES },
    });
    const [following, paused] = scene.followers;
    const readers = Array.from({ length: context.pick(2, 62, 62) }, () => read(scene.ports.bridge));
    const pairs = context.pick(2, 120, 400);
    try {
      await scene.play(at);
      const judge = new Judge(scene, at);
      await judge.right();
      const load = async (name) => {
        const { rate, seen } = await phase(scene, judge, following, pairs);
        context.row(`${name}: batches`, "batches/s", [rate], { better: "more" });
        context.row(`${name}: bridge`, "MiB", seen);
      };
      await phase(scene, judge, following, pairs);
      await load("all read");
      paused.process.signal("SIGSTOP");
      await load("one paused");
      await load("still paused");
      paused.process.signal("SIGCONT");
      const begin = performance.now();
      await judge.right();
      context.row("right again after it went on", "ms", [performance.now() - begin]);
      const overflows = await scene.metric("kvgroup_bridge_subscriber_overflows_total");
      context.row("overflows", "", [overflows]);
    } finally {
      for (const reader of readers) reader.close();
      await scene.close();
    }
  },
});
