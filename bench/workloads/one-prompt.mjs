// What it is: many workers that hold one long prompt, to different depths or all of it.
// Owns: the prompt.
// Refuses: nothing.
// Does not do: index anything.
import { Chain } from "./chain.mjs";
import { LONG_BLOCKS } from "./fleet-lists.mjs";
import { interleaved, storesOf } from "./variants.mjs";

/**
 * Workers that hold one long prompt: worker w of W the first (w + 1) / W of it (`depths`), or all of it (`all`).
 * `blocks` of 65,536 make a prompt of 1 M tokens.
 */
export class OnePrompt {
  constructor(workers, shape, blocks = LONG_BLOCKS) {
    this.workers = workers;
    this.chain = new Chain(blocks, 400_000, undefined);
    this.depths = Array.from({ length: workers }, (_, worker) =>
      shape === "all" ? blocks : Math.max(1, Math.floor(((worker + 1) * blocks) / workers)),
    );
  }

  get tokens() {
    return this.chain.tokens;
  }

  get counts() {
    const entries = this.depths.reduce((sum, depth) => sum + depth, 0);
    return { entries, distinct: Math.max(...this.depths) };
  }

  /** As those of a fleet. */
  batches(variant = "a") {
    return interleaved(this.workers, (worker) => {
      const pieces = [{ chain: this.chain, from: 0, to: this.depths[worker] }];
      return storesOf(pieces, worker, variant);
    });
  }
}
