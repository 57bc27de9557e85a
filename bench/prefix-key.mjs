// What it is: time of the prefix keys of one prompt: 65,536 tokens, a key at every 16th and at other distances.
// Run: npm run bench -- prefix-key.
import { KeyedHasher, PLAIN, PrefixState } from "../src/protocol/dist/index.js";
import { runBench, timeEach } from "./harness.mjs";

const TOKENS = 65_536;
const CASES = ["every 16", "every 1", "every 64", "every 528"];

await runBench(import.meta.url, {
  name: "prefix-key",
  what: `keys of ${TOKENS} tokens`,
  cases: (context) => context.pick(["every 528"], CASES, CASES),
  run(name, context) {
    const unit = Number(name.slice("every ".length));
    const tokens = Uint32Array.from(
      { length: context.pick(4_224, TOKENS, TOKENS) },
      (_, i) => Math.imul(i, 2_654_435_761) >>> 12,
    );
    const root = new KeyedHasher("a seed of sixteen").rootWords(PLAIN);
    const state = new PrefixState();
    let sink = 0;
    const work = () => {
      state.load(root, 0, 0);
      for (let end = unit; end <= tokens.length; end += unit) {
        state.absorb(tokens, end - unit, end);
        state.finish();
        sink ^= state.keyLow;
      }
    };
    const { samples, cpu } = timeEach({
      count: context.pick(5, 400, 2_000),
      warmUp: context.pick(2, 50, 50),
      work,
    });
    context.row("a prompt", "us", samples, { cpu });
    if (sink === 1) console.log("(never printed in practice)");
  },
});
