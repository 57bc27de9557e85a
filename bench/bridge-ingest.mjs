// What it is: how fast a bridge turns an engine's messages into stream batches: frames in, bytes of a batch out, through decode,
// checks, mirror, prefix keys and serialisation. Payloads are those of workload W3.
// Run: npm run bench -- bridge-ingest.
import { decodeBatch } from "../src/bridge/dist/validate.js";
import { cpuMs, runBench } from "./harness.mjs";
import { checkHeld, rankPipeline } from "./rank-pipelines.mjs";
import { frames, payloads, removalPayload, SETS } from "./workloads/payloads.mjs";

/** Rates of several rounds, in million blocks and in thousand events a second of processor time. */
function measure(context, name, { messages, blocks }, round) {
  const rates = [];
  for (let i = 0; i < context.pick(2, 7, 15); i++) {
    globalThis.gc?.();
    const begin = cpuMs();
    round();
    const took = Math.max(cpuMs() - begin, 1e-3);
    if (i > 1 || context.size === "tiny") rates.push(messages / took);
  }
  const better = { better: "more" };
  const perMessage = blocks / 1_000;
  context.row(
    `${name}, blocks`,
    "M blocks/s",
    rates.map((rate) => rate * perMessage),
    better,
  );
  context.row(`${name}, events`, "k events/s", rates, better);
}

await runBench(import.meta.url, {
  name: "bridge-ingest",
  what: "engine messages to stream batches, on one rank",
  cases: (context) => (context.size === "tiny" ? ["b16"] : Object.keys(SETS)),
  run(name, context) {
    const { blocks, messages: whole } = SETS[name];
    const messages = context.pick(20, whole, whole);
    const stores = payloads(name, messages).map((body, i) => frames(i, body));
    const removals = stores.map((_, i) =>
      frames(messages + i, removalPayload((messages - 1 - i) * blocks, blocks)),
    );
    const size = { messages, blocks };
    measure(context, "decode and check", size, () => {
      for (const [, , body] of stores) {
        if (!decodeBatch(body, { digestBytes: undefined }).ok) throw new Error("not read");
      }
    });
    let bytes = 0;
    const emit = (output) => {
      bytes += output.keyBytes?.length ?? 0;
    };
    let pipeline;
    measure(context, "stores", size, () => {
      pipeline = rankPipeline(emit);
      for (const multipart of stores) pipeline.receive(multipart, 0);
    });
    checkHeld(pipeline, messages * blocks);
    measure(context, "stores and removals", { messages: 2 * messages, blocks }, () => {
      pipeline = rankPipeline(emit);
      for (const multipart of stores) pipeline.receive(multipart, 0);
      for (const multipart of removals) pipeline.receive(multipart, 0);
    });
    checkHeld(pipeline, 0);
    if (bytes === 0) throw new Error("nothing was emitted");
  },
});
