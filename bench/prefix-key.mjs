// Time of the prefix keys of one prompt: 65,536 tokens, a key at every 16th. Run: node bench/prefix-key.mjs (after a build).
// Prints the minimum and the median of many rounds; compare ratios inside one run, never absolute times across machines.
import { KeyedHasher, PLAIN, PrefixState } from "../src/protocol/dist/index.js";

const TOKENS = 65_536;
const ROUNDS = 400;
const tokens = Uint32Array.from({ length: TOKENS }, (_, i) => Math.imul(i, 2_654_435_761) >>> 12);
const root = new KeyedHasher("a seed of sixteen").rootWords(PLAIN);
const state = new PrefixState();
let sink = 0;

function round(unit) {
  state.load(root, 0, 0);
  for (let end = unit; end <= TOKENS; end += unit) {
    state.absorb(tokens, end - unit, end);
    state.finish();
    sink ^= state.keyLow;
  }
}

for (const unit of [16, 1, 64, 528]) {
  for (let i = 0; i < 50; i++) round(unit);
  const times = [];
  for (let i = 0; i < ROUNDS; i++) {
    const begin = performance.now();
    round(unit);
    times.push((performance.now() - begin) * 1000);
  }
  times.sort((a, b) => a - b);
  const [min, median] = [times[0], times[ROUNDS >> 1]].map((time) => time.toFixed(0));
  console.log(`${TOKENS} tokens, a key every ${unit}: min ${min} us, median ${median} us`);
}
if (sink === 1) console.log("(never printed in practice)");
