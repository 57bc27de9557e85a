// What it is: time of one engine block hash, by algorithm: blocks of 16 and 64 tokens, plain, with extra keys, with look-ahead.
// Run: npm run bench -- engine-hash.
import { BlockHasher, seedDigest } from "../src/engine-hash/dist/index.js";
import { HASH_ALGORITHMS } from "../src/protocol/dist/index.js";
import { runBench, timeEach } from "./harness.mjs";

const MOST_BLOCKS = 512;
const tokens = Uint32Array.from(
  { length: 65 * MOST_BLOCKS },
  (_, i) => Math.imul(i, 2_654_435_761) >>> 14,
);
const items = [{ identifier: "5b".repeat(32), offset: -3 }];
const extras = { loraName: "sql", loraPath: "/adapters/sql", items, cacheSalt: undefined };
const shapes = [
  ["plain", undefined, 0],
  ["LoRA and image", extras, 0],
  ["look-ahead 1", undefined, 1],
];

await runBench(import.meta.url, {
  name: "engine-hash",
  what: "one block hash as the engine computes it, in ns a block",
  cases: (context) => context.pick(HASH_ALGORITHMS.slice(0, 1), HASH_ALGORITHMS, HASH_ALGORITHMS),
  run(algorithm, context) {
    const hasher = new BlockHasher(algorithm, "tagged");
    const root = seedDigest(algorithm, "0");
    const blocks = context.pick(16, MOST_BLOCKS, MOST_BLOCKS);
    let sink = 0;
    for (const unit of [16, 64]) {
      for (const [name, given, lookahead] of shapes) {
        const { samples, cpu } = timeEach({
          count: context.pick(2, 100, 400),
          warmUp: context.pick(1, 30, 40),
          budgetMs: 5_000,
          work() {
            const block = { tokens, from: 0, to: 0, ahead: tokens, aheadFrom: 0, aheadTo: 0 };
            let digest = root;
            for (let from = 0; from < blocks * unit; from += unit) {
              block.from = from;
              block.to = block.aheadFrom = from + unit;
              block.aheadTo = block.to + lookahead;
              digest = hasher.digest(digest, block, given);
            }
            sink ^= digest.charCodeAt(0);
          },
        });
        const each = (us) => (us * 1_000) / blocks;
        context.row(`${unit} tokens, ${name}`, "ns", samples.map(each), { cpu: each(cpu) });
      }
    }
    if (sink === 1) console.log("(never printed in practice)");
  },
});
