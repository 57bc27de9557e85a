// What it is: times and memory of the prefix index alone on workload W1: queries with and without hashing, apply, removal,
// growth, holes, one prompt to many depths. Run: node bench/index/fleet-index.mjs [workers [variant [rows]]] (after a build), rows being
// some of apply,query,holes,removal,depths,pinned. `--index=path` takes another build of the package.
// Owns: nothing. Answers are checked against the workload's lists before anything is timed.
// Refuses: answers that differ.
// Does not do: compare with other programs. Times on a busy machine say little: compare minima of one run.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { KeyedHasher, PLAIN, PrefixState } from "../../src/protocol/dist/index.js";
import { BLOCK_TOKENS, check, KEY_SEED, keysOf, layoutOf, OnePrompt } from "../workloads/fleet.mjs";
import { Pinned } from "../workloads/pinned.mjs";

const plain = process.argv.slice(2).filter((text) => !text.startsWith("--"));
const option = process.argv.find((text) => text.startsWith("--index="));
const WORKERS = Number(plain[0] ?? 1000);
const VARIANT = plain[1] ?? "b";
const ROWS = (plain[2] ?? "apply,query,holes,removal,depths").split(",");
const QUERIES = Number(process.env.QUERIES ?? 300);
const path =
  option?.slice(8) ?? resolve(import.meta.dirname, "../../src/prefix-index/dist/index.js");
const { PrefixIndex, ScoreBuffer } = await import(pathToFileURL(path).href);
const root = new KeyedHasher(KEY_SEED).rootWords(PLAIN);

/** Hashes while it is asked. */
class HashingReader {
  constructor() {
    this.state = new PrefixState();
    this.keyLow = 0;
    this.keyHigh = 0;
  }
  begin(tokens) {
    this.tokens = tokens;
    this.state.load(root, 0, 0);
  }
  seek(positionTokens) {
    const { state } = this;
    state.absorb(this.tokens, state.endTokens, positionTokens);
    state.finish();
    this.keyLow = state.keyLow;
    this.keyHigh = state.keyHigh;
  }
}

/** Knows all keys at multiples of 16. */
class ReadyReader {
  constructor() {
    this.keyLow = 0;
    this.keyHigh = 0;
  }
  begin(tokens) {
    this.words = new Int32Array(keysOf(tokens).buffer);
  }
  seek(positionTokens) {
    const at = (positionTokens / BLOCK_TOKENS - 1) * 2;
    this.keyLow = this.words[at];
    this.keyHigh = this.words[at + 1];
  }
}

const cpuUs = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};
const line = (name, text) => console.log(`${name.padEnd(34)} ${text}`);

function spread(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return `min ${at(0).toFixed(1)}  p50 ${at(0.5).toFixed(1)}  p99 ${at(0.99).toFixed(1)} us`;
}

function ranksOf(index, workers, variant) {
  return Array.from({ length: workers }, () => index.addRank(layoutOf(variant)));
}

function apply(index, ranks, batches) {
  let blocks = 0;
  let longest = 0;
  let worst = 0;
  let spent = 0;
  let calls = 0;
  const now = performance.now.bind(performance);
  const todo = [];
  const run = () => {
    const before = cpuUs();
    for (const event of todo) {
      const { worker, groupId, keys } = event;
      const begin = now();
      if (event.type === "remove")
        blocks += index.removeKeys(ranks[worker], groupId, 0, keys).removed;
      else {
        const { endTokens, stepTokens, parentKey } = event;
        blocks += index.storeRun(
          ranks[worker],
          groupId,
          0,
          keys,
          endTokens,
          stepTokens,
          parentKey,
        ).stored;
      }
      longest = Math.max(longest, now() - begin);
    }
    spent += cpuUs() - before;
    todo.length = 0;
    const { bytes, entries } = index.gauges();
    if (entries > 100_000) worst = Math.max(worst, bytes / entries);
  };
  for (const batch of batches) {
    for (const event of batch) todo.push(event);
    calls += batch.length;
    if (todo.length >= 2_000) run();
  }
  run();
  return { blocks, rate: blocks / spent, longest, worst, calls };
}

function query(name, index, prompts, variant, reader = new HashingReader()) {
  const out = new ScoreBuffer();
  const times = [];
  const kind = reader instanceof HashingReader ? "tokens in" : "keys given";
  for (let i = -30; i < prompts.count; i++) {
    const tokens = prompts.at(i < 0 ? i + 1_030 : i);
    reader.begin(tokens);
    const begin = performance.now();
    index.score(reader, tokens.length, out);
    times.push((performance.now() - begin) * 1_000);
  }
  line(`${name} ${variant} ${kind}`, spread(times.slice(30)));
}

function checkAnswers(index, fleet) {
  const out = new ScoreBuffer();
  const reader = new HashingReader();
  const unit = VARIANT === "a" || VARIANT === "c" ? 1 : 64;
  for (const [name, q] of [
    ["first", 0],
    ["first", 77],
    ["second", 0],
    ["second", 5],
  ]) {
    const tokens = fleet[`${name}Query`](q);
    const { blocks, workers, holders } = fleet[`${name}Answer`](q);
    reader.begin(tokens);
    index.score(reader, tokens.length, out);
    const most = Math.min(blocks, tokens.length / 16 - 1);
    const wanted = (most - (most % unit)) * 16;
    let best = 0;
    let any = 0;
    for (let i = 0; i < out.count; i++) {
      if (out.reusableTokensAt(i) === wanted) best += 1;
      if (out.reusableTokensAt(i) > 0) any += 1;
    }
    const isAsked = best === workers && (VARIANT === "c" || any === holders);
    if (!isAsked)
      throw new Error(`${name} ${q}: ${best} of ${workers} whole, ${any} of ${holders}`);
  }
}

if (ROWS.some((row) => ["apply", "query", "holes", "removal"].includes(row))) {
  const fleet = check(WORKERS);
  for (const batch of fleet.batches(VARIANT))
    if (batch.length === 0) throw new Error("empty batch");
  const index = new PrefixIndex({ maxNodes: 50_000_000, maxEntriesPerRank: 10_000_000 });
  const ranks = ranksOf(index, WORKERS, VARIANT);
  const { rate, longest, worst } = apply(index, ranks, fleet.batches(VARIANT));
  const { bytes, entries, nodes } = index.gauges();
  line(
    `W=${WORKERS} ${VARIANT} apply`,
    `${rate.toFixed(2)} M blocks/s, longest run ${longest.toFixed(2)} ms`,
  );
  line(
    "  memory",
    `${(bytes / entries).toFixed(1)} B/entry now, ${worst.toFixed(1)} at worst; ${entries} entries, ${nodes} nodes, ${(bytes / nodes).toFixed(1)} B/node`,
  );
  checkAnswers(index, fleet);
  const firsts = { count: QUERIES, at: (q) => fleet.firstQuery(q) };
  const seconds = { count: QUERIES, at: (q) => fleet.secondQuery(q) };
  const queries = (name) => {
    query(`${name}Q1`, index, firsts, VARIANT);
    query(`${name}Q2`, index, seconds, VARIANT);
    query(`${name}Q1`, index, firsts, VARIANT, new ReadyReader());
    query(`${name}Q2`, index, seconds, VARIANT, new ReadyReader());
  };
  if (ROWS.includes("query")) queries("");
  if (ROWS.includes("removal")) {
    const before = index.gauges();
    const removal = apply(index, ranks, fleet.removals(VARIANT));
    const after = index.gauges();
    line(
      "  removal",
      `${removal.rate.toFixed(2)} M blocks/s, ${removal.blocks} blocks, longest ${removal.longest.toFixed(2)} ms`,
    );
    const share = (key) => (before[key] - after[key]) / before[key];
    line(
      "  given back",
      `${((100 * share("bytes")) / share("nodes")).toFixed(0)} % of the removed nodes' share: ${(before.bytes / 1e6).toFixed(1)} to ${(after.bytes / 1e6).toFixed(1)} MB, nodes ${before.nodes} to ${after.nodes}`,
    );
    apply(index, ranks, fleet.batches(VARIANT));
  }
  if (ROWS.includes("holes")) {
    const holes = apply(index, ranks, fleet.holes());
    line(
      "  2 % holes",
      `${holes.rate.toFixed(2)} M blocks/s, longest ${holes.longest.toFixed(2)} ms`,
    );
    queries("holes ");
  }
}
if (ROWS.includes("depths")) {
  for (const shape of ["depths", "all"]) {
    const work = new OnePrompt(WORKERS, shape);
    const index = new PrefixIndex({ maxNodes: 50_000_000, maxEntriesPerRank: 10_000_000 });
    const { rate, worst } = apply(index, ranksOf(index, WORKERS, VARIANT), work.batches(VARIANT));
    line(`${shape} apply`, `${rate.toFixed(2)} M blocks/s, ${worst.toFixed(1)} B/entry at worst`);
    const { tokens } = work;
    query(shape, index, { count: QUERIES, at: () => tokens }, VARIANT);
    query(shape, index, { count: QUERIES, at: () => tokens }, VARIANT, new ReadyReader());
  }
}
if (ROWS.includes("pinned")) {
  const pinned = new Pinned();
  const index = new PrefixIndex({ maxNodes: 50_000_000, maxEntriesPerRank: 10_000_000 });
  const ranks = ranksOf(index, pinned.holders, "a");
  const { log, pool } = pinned;
  let worst = 0;
  let longest = 0;
  let blocks = 0;
  const before = cpuUs();
  for (let at = 0; at < log.length; at += 4) {
    const [worker, from, count, endBlock] = log.subarray(at, at + 4);
    const keys = pool.view(from, count);
    const begin = performance.now();
    if (endBlock === 0) index.removeKeys(ranks[worker], 0, 0, keys);
    else {
      // The family's own chain goes on in the tail under another key: no parent is known there.
      const parent = endBlock > 1 ? pool.view(from - 1, 1) : undefined;
      index.storeRun(ranks[worker], 0, 0, keys, endBlock * 16, 16, parent);
    }
    longest = Math.max(longest, performance.now() - begin);
    blocks += count;
    if (at % 400_000 === 0) {
      const { bytes, entries } = index.gauges();
      if (entries > 100_000) worst = Math.max(worst, bytes / entries);
    }
  }
  const spent = cpuUs() - before;
  const { bytes, entries, nodes } = index.gauges();
  line(
    "pinned apply",
    `${(blocks / spent).toFixed(2)} M blocks/s, longest ${longest.toFixed(2)} ms`,
  );
  line(
    "  memory",
    `${(bytes / entries).toFixed(1)} B/entry now, ${worst.toFixed(1)} at worst; ${entries} entries (${pinned.sizes.resident}), ${nodes} nodes`,
  );
}
