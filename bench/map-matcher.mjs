// What it is: the yardstick: the plainest matcher that answers the same question, one Set of keys a worker and group. It is no
// part of the product and does not change, so that a ratio to it means the same on every machine.
// Owns: the sets.
// Refuses: groups other than one of full attention and recurrent ones.
// Does not do: namespaces, media, windows, drops.
import { BLOCK_TOKENS, keysOf, layoutOf } from "./workloads/fleet.mjs";

/** Low 53 bits of a key: enough for the workloads, and a number that a Set takes. */
function numberAt(view, at) {
  return view.getUint32(at, true) + (view.getUint32(at + 4, true) & 0x1fffff) * 2 ** 32;
}

/** See the header. Answers are in tokens, by worker. */
export class MapMatcher {
  constructor(workers, variant) {
    const layout = layoutOf(variant);
    if (layout.groups.some(({ rule }) => rule !== "full" && rule !== "mamba")) {
      throw new Error(`the yardstick has no rule for variant ${variant}`);
    }
    this.groupIds = layout.groups.map(({ groupId }) => groupId);
    this.stateTokens = layout.schedulerBlockSizeTokens;
    this.held = Array.from({ length: workers }, () => this.groupIds.map(() => new Set()));
    this.answers = new Uint32Array(workers);
  }

  apply(batches) {
    for (const { worker, groupId, keys, type } of [...batches].flat()) {
      const set = this.held[worker][this.groupIds.indexOf(groupId)];
      const view = new DataView(keys.buffer, keys.byteOffset, keys.length);
      for (let at = 0; at < keys.length; at += 8) {
        if (type === "store") set.add(numberAt(view, at));
        else set.delete(numberAt(view, at));
      }
    }
  }

  score(tokens) {
    const keys = keysOf(tokens);
    const view = new DataView(keys.buffer);
    const numbers = Float64Array.from({ length: keys.length / 8 }, (_, i) => numberAt(view, i * 8));
    const most = Math.floor((tokens.length - 1) / BLOCK_TOKENS);
    const stateBlocks = this.stateTokens / BLOCK_TOKENS;
    for (const [worker, [full, ...states]] of this.held.entries()) {
      let blocks = 0;
      while (blocks < most && full.has(numbers[blocks])) blocks += 1;
      if (states.length > 0) {
        blocks -= blocks % stateBlocks;
        while (blocks > 0 && !states.every((set) => set.has(numbers[blocks - 1]))) {
          blocks -= stateBlocks;
        }
      }
      this.answers[worker] = blocks * BLOCK_TOKENS;
    }
  }

  /** As that of a FleetGateway. */
  summary() {
    const tokens = this.answers.reduce((most, answer) => Math.max(most, answer), 0);
    const workers = tokens === 0 ? 0 : this.answers.filter((answer) => answer === tokens).length;
    return { tokens, workers, holders: this.answers.filter((answer) => answer > 0).length };
  }
}
