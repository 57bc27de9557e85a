// Time of one engine block hash, by algorithm: blocks of 16 and 64 tokens, plain, with extra keys, with look-ahead. Run:
// node bench/engine-hash.mjs (after a build). Prints minimum, median and 90th percentile of many rounds, in ns a block;
// compare ratios inside one run, never absolute times across machines.
import { BlockHasher, seedDigest } from "../src/engine-hash/dist/index.js";
import { HASH_ALGORITHMS } from "../src/protocol/dist/index.js";

const BLOCKS = 512;
const ROUNDS = 200;
const tokens = Uint32Array.from(
  { length: 65 * BLOCKS },
  (_, i) => Math.imul(i, 2_654_435_761) >>> 14,
);
const items = [{ identifier: "5b".repeat(32), offset: -3 }];
const extras = { loraName: "sql", loraPath: "/adapters/sql", items, cacheSalt: undefined };
const shapes = [
  ["plain", undefined, 0],
  ["LoRA and image", extras, 0],
  ["look-ahead 1", undefined, 1],
];
let sink = 0;

function round(hasher, root, unit, given, lookahead) {
  const block = { tokens, from: 0, to: 0, ahead: tokens, aheadFrom: 0, aheadTo: 0 };
  let digest = root;
  for (let from = 0; from < BLOCKS * unit; from += unit) {
    block.from = from;
    block.to = block.aheadFrom = from + unit;
    block.aheadTo = block.to + lookahead;
    digest = hasher.digest(digest, block, given);
  }
  sink ^= digest.charCodeAt(0);
}

for (const algorithm of HASH_ALGORITHMS) {
  const hasher = new BlockHasher(algorithm, "tagged");
  const root = seedDigest(algorithm, "0");
  for (const unit of [16, 64]) {
    for (const [name, given, lookahead] of shapes) {
      for (let i = 0; i < 40; i++) round(hasher, root, unit, given, lookahead);
      const times = [];
      for (let i = 0; i < ROUNDS; i++) {
        const begin = performance.now();
        round(hasher, root, unit, given, lookahead);
        times.push(((performance.now() - begin) * 1e6) / BLOCKS);
      }
      times.sort((a, b) => a - b);
      const [min, median, high] = [0, 0.5, 0.9].map((part) =>
        times[Math.floor(part * ROUNDS)].toFixed(0),
      );
      console.log(
        `${algorithm}, ${unit} tokens, ${name}: min ${min} ns, median ${median} ns, p90 ${high} ns`,
      );
    }
  }
}
if (sink === 1) console.log("(never printed in practice)");
