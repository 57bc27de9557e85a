// What it is: how fast a gateway takes what bridges send, bytes of the stream to entries of the index, and what an entry
// costs in memory. Stores of workload W1, then its removals; W2 as the index alone, with keys that are given.
// Run: npm run bench -- gateway-apply.
import { fromBinary } from "@bufbuild/protobuf";
import { SubscribeResponseSchema } from "../gen/es/kvgroup/v1/bridge_pb.js";
import { PromptHashes } from "../src/engine-hash/dist/index.js";
import { newApplyCounts } from "../src/gateway/dist/apply-counts.js";
import { PlaceSearch } from "../src/gateway/dist/place-search.js";
import { RankView } from "../src/gateway/dist/rank-view.js";
import { PrefixIndex, ScoreBuffer } from "../src/prefix-index/dist/index.js";
import { KeyedHasher, parseDpRank } from "../src/protocol/dist/index.js";
import { batchBytes, engineOf, KEY_SCHEME, liveMessages } from "./fleet-gateway.mjs";
import { cpuMs, memoryNow, runBench } from "./harness.mjs";
import { Fleet, KEY_SEED, layoutOf } from "./workloads/fleet.mjs";
import { GivenKeys, Pinned } from "./workloads/pinned.mjs";

const CASES = {
  tiny: ["fleet w2 b", "fragmented"],
  quick: ["fleet w64 b", "fleet w1000 b", "pinned"],
  full: [
    ...[1, 64, 1_000].flatMap((workers) => [`fleet w${workers} b`, `fleet w${workers} a`]),
    "fleet w1000 d",
    "pinned",
    "fragmented",
  ],
};
/** Bounds far beyond what any workload holds. */
const BOUNDS = { maxNodes: 20_000_000, maxEntriesPerRank: 4_000_000 };
/** How often memory is looked at while an index grows. */
const LOOKS = 50;

/** Every worker's view over one index. */
function viewsOf(index, workers, variant) {
  const hasher = new KeyedHasher(KEY_SEED);
  const search = new PlaceSearch(hasher, (...scheme) => new PromptHashes(...scheme));
  const counts = newApplyCounts();
  const dpRank = parseDpRank(0);
  const live = liveMessages(engineOf(variant));
  return Array.from({ length: workers }, () => {
    const view = new RankView({ index, search, dpRank, keyScheme: KEY_SCHEME, counts });
    for (const message of live) take(view, message);
    return view;
  });
}

function take(view, message) {
  const applied = view.apply(message);
  if (!applied.ok) throw new Error(`a message was refused: ${applied.error}`);
}

/** Batches as stream bytes, with the sequence numbers that follow. */
function wireOf(batches, sequences) {
  const messages = [];
  let blocks = 0;
  for (const events of batches) {
    const [{ worker }] = events;
    messages.push({ worker, bytes: batchBytes(sequences[worker]++, events) });
    for (const { keys } of events) blocks += keys.length / 8;
  }
  return { messages, blocks };
}

/** Million blocks a second of processor time, in parts of the stream, so that growth shows in the tail. */
function timeParts(parts, items, work) {
  const rates = [];
  let total = 0;
  const step = Math.ceil(items.length / parts);
  for (let from = 0; from < items.length; from += step) {
    const begin = cpuMs();
    let blocks = 0;
    for (const item of items.slice(from, from + step)) blocks += work(item);
    const took = Math.max(cpuMs() - begin, 1e-3);
    total += took;
    rates.push(blocks / took / 1_000);
  }
  return { rates, total };
}

const peakBytes = () => process.resourceUsage().maxRSS * 1_024;

/** Sizes of an index and this process, as it grew. */
class Growth {
  constructor(index) {
    this.index = index;
    this.before = memoryNow();
    this.peakBefore = peakBytes();
    this.most = 0;
  }

  look() {
    this.most = Math.max(this.most, this.index.gauges().bytes);
  }

  report(context) {
    this.look();
    const peak = peakBytes();
    const after = memoryNow();
    const { bytes, entries } = this.index.gauges();
    const bytesOf = (name, value) => context.row(name, "B/entry", [value / entries]);
    bytesOf("memory by gauge", bytes);
    bytesOf("memory by gauge, most", this.most);
    bytesOf("memory by heap", after.heap - this.before.heap);
    bytesOf("memory by resident set", after.resident - this.before.resident);
    // The worst moment, growth of a table included; not known where the process was larger before.
    if (peak > this.peakBefore) {
      bytesOf("memory by resident set, most", peak - this.before.resident);
    }
  }
}

function fleet(workers, variant, context) {
  const work = new Fleet(workers);
  const sequences = new Float64Array(workers);
  const { messages, blocks } = wireOf(work.batches(variant), sequences);
  const removals = wireOf(work.removals(variant), sequences);
  warmUp(variant);
  const index = new PrefixIndex(BOUNDS);
  const views = viewsOf(index, workers, variant);
  const growth = new Growth(index);
  const apply = ({ worker, bytes }) => {
    const message = fromBinary(SubscribeResponseSchema, bytes);
    take(views[worker], message);
    return message.message.value.batch.events.reduce((sum, e) => sum + e.prefixKeys.length / 8, 0);
  };
  const stored = timeParts(LOOKS, looking(messages, growth), applyOrLook(apply, growth));
  const { entries } = index.gauges();
  if (entries !== blocks) throw new Error(`${entries} entries of ${blocks} blocks`);
  report(context, "stores", stored, blocks);
  growth.report(context);
  const heldBytes = index.gauges().bytes;
  const taken = timeParts(10, removals.messages, apply);
  if (index.gauges().entries !== blocks - removals.blocks) throw new Error("removals missed");
  report(context, "removals", taken, removals.blocks);
  // What is given back, of the share that was removed: 100 % = memory falls as entries do.
  const back = (1 - index.gauges().bytes / heldBytes) / (removals.blocks / blocks);
  context.row("memory given back", "%", [100 * back], { better: "more" });
}

/** The stream with a look at memory between its parts. */
function looking(items, growth) {
  const step = Math.ceil(items.length / LOOKS);
  return items.flatMap((item, i) => (i % step === step - 1 ? [item, growth] : [item]));
}

function applyOrLook(apply, growth) {
  return (item) => {
    if (item !== growth) return apply(item);
    growth.look();
    return 0;
  };
}

function report(context, name, { rates, total }, blocks) {
  context.row(`${name}, whole`, "M blocks/s", [blocks / total / 1_000], { better: "more" });
  context.row(`${name}, by part`, "M blocks/s", rates, { better: "more" });
}

/** The same code over a small fleet, so that it is compiled. */
function warmUp(variant) {
  for (let i = 0; i < 3; i++) {
    const work = new Fleet(2);
    const index = new PrefixIndex(BOUNDS);
    const views = viewsOf(index, 2, variant);
    for (const { worker, bytes } of wireOf(work.batches(variant), [0, 0]).messages) {
      take(views[worker], fromBinary(SubscribeResponseSchema, bytes));
    }
  }
}

function pinnedStream(profile, context) {
  const stream = new Pinned(profile, context.pick(100_000, 10_000_000, 10_000_000));
  const index = new PrefixIndex(BOUNDS);
  const layout = layoutOf("a");
  const ranks = Array.from({ length: stream.holders }, () => index.addRank(layout));
  const growth = new Growth(index);
  const begin = cpuMs();
  let seen = 0;
  const step = Math.ceil(stream.sizes.events / LOOKS);
  for (const { type, worker, keys, endTokens, stepTokens } of stream.events()) {
    if (type === "store") index.storeRun(ranks[worker], 0, 0, keys, endTokens, stepTokens);
    else index.removeKeys(ranks[worker], 0, 0, keys);
    seen += 1;
    if (seen % step === 0) growth.look();
  }
  const took = cpuMs() - begin;
  if (index.gauges().entries !== stream.sizes.resident)
    throw new Error("another number is resident");
  const rate = stream.sizes.streamBlocks / took / 1_000;
  context.row("stores and removals", "M blocks/s", [rate], { better: "more" });
  growth.report(context);
  pinnedQueries(stream, index, context);
}

function pinnedQueries(stream, index, context) {
  const keys = new GivenKeys();
  const scores = new ScoreBuffer();
  for (const [name, prompts] of Object.entries(stream.queries(context.pick(20, 2_000, 2_000)))) {
    if (prompts.length === 0) continue;
    const samples = prompts.map((prompt) => {
      const begin = performance.now();
      keys.begin(prompt);
      index.score(keys, prompt.length * 2 + 1, scores);
      return (performance.now() - begin) * 1_000;
    });
    const row = Number.isNaN(Number(name)) ? name : `shared by ${name}`;
    context.row(`query, ${row}`, "us", samples);
  }
}

await runBench(import.meta.url, {
  name: "gateway-apply",
  what: "stream bytes to entries of the index, and bytes of an entry",
  cases: (context) => CASES[context.size],
  run(name, context) {
    const [shape, workers, variant] = name.split(" ");
    if (shape === "fleet") fleet(Number(workers.slice(1)), variant, context);
    else pinnedStream(shape, context);
  },
});
