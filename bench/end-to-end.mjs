// What it is: the whole way. `loopback`: from publishing a batch on a ZeroMQ socket until a score shows it, with real processes.
// Traces: recorded engines through every stage in one process, bytes between bridge and gateway included.
// Run: npm run bench -- end-to-end. Recordings are found where scripts/lanes.mjs looks, or at KVGROUP_RECORDINGS.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { decodeBatch } from "../src/bridge/dist/validate.js";
import { InProcessPath } from "../src/cli/dist/in-process-path.js";
import { adapterPaths } from "../src/cli/dist/trace-adapters.js";
import { engineConfigOfTrace } from "../src/cli/dist/trace-engine.js";
import { openTrace } from "../src/cli/dist/trace-file.js";
import { parseDpRank } from "../src/protocol/dist/index.js";
import { cpuMs, runBench } from "./harness.mjs";
import { Loopback } from "./loopback.mjs";
import { KEY_SEED, tokenOf } from "./workloads/fleet.mjs";
import { payload } from "./workloads/payloads.mjs";

const ALL = ["loopback", "long-prefill", "long-decode", "gemma"];
const ROOT = join(import.meta.dirname, "..");
const RECORDINGS = process.env.KVGROUP_RECORDINGS ?? join(ROOT, "..", "shared", "traces");
const COMMITTED = join(ROOT, "test/fixtures/traces");
/** Blocks of one batch on the loopback, and the first one's distance from the next: every batch begins a prompt. */
const BATCH_BLOCKS = 4;
const CHAIN_BLOCKS = 4_096;

const blocksOf = (body, config) => {
  const decoded = decodeBatch(body, { digestBytes: config.digestBytes });
  if (!decoded.ok) return 0;
  return decoded.value.events.reduce((sum, event) => sum + (event.hashes?.length ?? 0), 0);
};

async function trace(name, context) {
  const file = [RECORDINGS, COMMITTED]
    .map((folder) => join(folder, `${name}.jsonl.gz`))
    .find(existsSync);
  if (file === undefined) {
    context.skip(`no recording ${name} beside this checkout`);
    return;
  }
  const { engine, entries } = await openTrace(file);
  const config = engineConfigOfTrace(engine, { loraPaths: await adapterPaths(file, engine) });
  const multiparts = [];
  for await (const entry of entries) {
    if (entry.type === "frame") multiparts.push(entry.frames);
    if (multiparts.length === context.pick(50, 20_000, Number.POSITIVE_INFINITY)) break;
  }
  const blocks = multiparts.reduce((sum, parts) => sum + blocksOf(parts[2], config), 0);
  const rates = [];
  for (let round = 0; round < context.pick(1, 5, 9); round++) {
    const dpRank = parseDpRank(engine.dp_rank);
    const path = new InProcessPath({ dpRank, engine: config, seed: KEY_SEED });
    globalThis.gc?.();
    const begin = cpuMs();
    for (const multipart of multiparts) path.receive(multipart);
    const took = Math.max(cpuMs() - begin, 1e-3);
    if (round > 0 || context.size === "tiny") rates.push(1 / took);
    path.gateway.close();
  }
  const row = (what, unit, each) =>
    context.row(
      what,
      unit,
      rates.map((rate) => rate * each),
      { better: "more" },
    );
  row("frames", "k frames/s", multiparts.length);
  row("blocks", "M blocks/s", blocks / 1_000);
}

async function loopback(context) {
  const world = await Loopback.open();
  try {
    const prompts = (i) => {
      const first = i * CHAIN_BLOCKS;
      const count = BATCH_BLOCKS * 16;
      const tokens = Uint32Array.from({ length: count + 1 }, (_, at) =>
        tokenOf(7, first * 16 + at),
      );
      return { tokens, wanted: count, body: payload(first, BATCH_BLOCKS) };
    };
    const visible = [];
    const alone = [];
    const warmUp = context.pick(1, 50, 100);
    const count = warmUp + context.pick(3, 300, 2_000);
    for (let i = 0; i < count; i++) {
      const { tokens, wanted, body } = prompts(i);
      const begin = performance.now();
      await world.publish(body);
      const took = await world.until(tokens, wanted, begin);
      const asked = performance.now();
      await world.ask(tokens);
      if (i < warmUp) continue;
      visible.push(took);
      alone.push((performance.now() - asked) * 1_000);
    }
    context.row("published to visible", "us", visible);
    context.row("of which one question", "us", alone);
    await burst(world, prompts, count, context);
  } finally {
    await world.close();
  }
}

/** Many batches at once, until the last one shows. */
async function burst(world, prompts, from, context) {
  const rates = [];
  const size = context.pick(20, 2_000, 10_000);
  for (let round = 0; round < context.pick(1, 3, 5); round++) {
    const made = Array.from({ length: size }, (_, i) => prompts(from + round * size + i));
    const { tokens, wanted } = made.at(-1);
    const begin = performance.now();
    for (const { body } of made) await world.publish(body);
    rates.push(size / ((await world.until(tokens, wanted, begin)) / 1_000));
  }
  context.row("a burst, until the last is visible", "k batches/s", rates, { better: "more" });
}

await runBench(import.meta.url, {
  name: "end-to-end",
  what: "from the engine's socket to a score, and recorded engines through the whole path",
  isPinned: (name) => name !== "loopback",
  cases: (context) => context.pick(["loopback", "gemma"], ALL, ALL),
  run: (name, context) => (name === "loopback" ? loopback(context) : trace(name, context)),
});
