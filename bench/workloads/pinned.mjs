// What it is: workload W2, "pinned": 256 holders, some 12.8 M resident (holder, block) pairs, families of holders that share a
// prefix and go on differently, single blocks lost inside. The constants are those of smg-radix-tree's own bench
// (https://github.com/smg-project/smg, crates/radix_tree/tests/pinned_bench.rs), so that its figures are of the same work.
// Its keys are given: no tokens stand behind them. They are fed as prefix keys, block i ending at 16 * (i + 1) tokens.
// Owns: the constants, which may not drift, and the sizes (`CHECKS`) that the Rust program has too.
// Refuses: a profile that is not listed.
// Does not do: index anything.

export const BLOCK_TOKENS = 16;
const SEED = 20_260_901;
const EVENT_BLOCKS = 8;
const TARGET_BLOCKS = 10_000_000;
/** The query that is reported alone: this deep, of a prefix that 64 holders share. */
export const GATE_BLOCKS = 78;
const GATE_SHARERS = 64;
const FORCED_GATE_BLOCKS = 96;

const PINNED = {
  holders: 256,
  /** Holders that share a prefix, and their part of all blocks in percent. */
  sharing: [
    [1, 50],
    [8, 35],
    [64, 15],
  ],
  sharedBlocks: [8, 512],
  tailBlocks: [4, 64],
  repeatedPercent: 5,
  /** Of the instances that lose one block inside; or of the blocks inside that each instance loses. */
  holedInstancesPercent: 20,
  holesPercent: undefined,
};

/** Shapes by name. */
export const PROFILES = {
  pinned: PINNED,
  fragmented: { ...PINNED, holedInstancesPercent: undefined, holesPercent: 2 },
};

/** SplitMix64 in two halves: after `next`, high and low. */
export class WideDraws {
  constructor(seed) {
    this.stateHigh = Math.floor(seed / 2 ** 32) | 0;
    this.stateLow = seed | 0;
    this.high = 0;
    this.low = 0;
  }

  next() {
    const low = (this.stateLow >>> 0) + 0x7f4a7c15;
    this.stateHigh = (this.stateHigh + 0x9e3779b9 + (low > 0xffffffff ? 1 : 0)) | 0;
    this.stateLow = low | 0;
    this.high = this.stateHigh;
    this.low = this.stateLow;
    this.#foldRight(30);
    this.multiply(0xbf58476d, 0x1ce4e5b9);
    this.#foldRight(27);
    this.multiply(0x94d049bb, 0x133111eb);
    this.#foldRight(31);
  }

  #foldRight(bits) {
    this.low ^= (this.low >>> bits) | (this.high << (32 - bits));
    this.high ^= this.high >>> bits;
  }

  /** The value times another, modulo 2^64. */
  multiply(high, low) {
    const [a, b] = [this.low >>> 16, this.low & 0xffff];
    const [c, d] = [low >>> 16, low & 0xffff];
    const small = b * d;
    const middle = a * d + (small >>> 16);
    const cross = b * c + (middle & 0xffff);
    const carried = a * c + Math.floor(middle / 65_536) + Math.floor(cross / 65_536);
    this.high = (carried + Math.imul(this.high, low) + Math.imul(this.low, high)) | 0;
    this.low = (cross << 16) | (small & 0xffff) | 0;
  }

  below(n) {
    this.next();
    return (((this.high >>> 0) % n) * 2 ** 32 + (this.low >>> 0)) % n;
  }

  chance(percent) {
    return this.below(100) < percent;
  }

  /** Of [0, 1), 53 bits. */
  fraction() {
    this.next();
    return ((this.high >>> 0) * 2 ** 21 + (this.low >>> 11)) / 2 ** 53;
  }
}

/** Keys that are appended one by one: 8 bytes little-endian each. */
class KeyPool {
  constructor(keys) {
    this.words = new Uint32Array(keys * 2);
    this.count = 0;
  }

  push(high, low) {
    const at = this.count * 2;
    if (at === this.words.length) {
      const grown = new Uint32Array(Math.ceil(this.count * 1.5) * 2);
      grown.set(this.words);
      this.words = grown;
    }
    this.words[at] = low;
    this.words[at + 1] = high;
    this.count += 1;
  }

  view(from, count) {
    return new Uint8Array(this.words.buffer, from * 8, count * 8);
  }
}

const ONE_EVENT = 3;

/** The whole stream: `families` for queries, `stores` and `removals` in one order as `events()`. */
export class Pinned {
  constructor(profileName = "pinned", targetBlocks = TARGET_BLOCKS) {
    const profile = PROFILES[profileName];
    if (profile === undefined) throw new Error(`no profile ${profileName}`);
    this.profile = profile;
    this.holders = profile.holders;
    this.pool = new KeyPool(targetBlocks);
    this.sizes = { families: 0, events: 0, streamBlocks: 0, generated: 0, resident: 0 };
    const draws = new WideDraws(SEED);
    this.families = this.#drawFamilies(draws, targetBlocks);
    this.#drawEvents(draws);
  }

  #drawFamilies(draws, targetBlocks) {
    const families = [];
    let isForced = true;
    for (const [sharers, percent] of this.profile.sharing) {
      const budget = Math.floor((targetBlocks * percent) / 100);
      for (let used = 0; used < budget; ) {
        const isGate = isForced && sharers === GATE_SHARERS;
        if (isGate) isForced = false;
        const blocks = isGate ? FORCED_GATE_BLOCKS : logUniform(draws, this.profile.sharedBlocks);
        const from = this.pool.count;
        this.#drawChain(draws, blocks);
        const base = draws.below(this.holders);
        const members = new Set();
        for (let k = 0; k < sharers; k++) members.add((base + 7 * k) % this.holders);
        const holders = [...members].sort((a, b) => a - b);
        families.push({ sharers, from, blocks, holders });
        used += blocks * holders.length;
      }
    }
    this.sizes.families = families.length;
    return families;
  }

  #drawChain(draws, blocks) {
    let high = 0;
    let low = 0;
    for (let i = 0; i < blocks; i++) {
      draws.next();
      draws.low |= 1;
      if (i > 0) mix(draws, { high, low, turn: 17, factor: [0x2545f491, 0x4f6cdd1d], add: 0 });
      ({ high, low } = draws);
      this.pool.push(high, low);
    }
  }

  /** Events as numbers in `log`: holder, first key, count, end of the first key (0 = a removal). */
  #drawEvents(draws) {
    const scripts = Array.from({ length: this.holders }, () => []);
    for (const family of this.families) {
      for (const holder of family.holders)
        this.#drawInstance(draws, family, holder, scripts[holder]);
    }
    const total = scripts.reduce((sum, script) => sum + script.length, 0) / ONE_EVENT;
    this.log = new Uint32Array(total * 4);
    const cursors = new Uint32Array(this.holders);
    const live = scripts.flatMap((script, holder) => (script.length > 0 ? [holder] : []));
    for (let at = 0; live.length > 0; at += 4) {
      const place = draws.below(live.length);
      const holder = live[place];
      const script = scripts[holder];
      const cursor = cursors[holder];
      this.log[at] = holder;
      for (let i = 0; i < ONE_EVENT; i++) this.log[at + 1 + i] = script[cursor + i];
      cursors[holder] = cursor + ONE_EVENT;
      if (cursor + ONE_EVENT < script.length) continue;
      const last = live.pop();
      if (place < live.length) live[place] = last;
    }
    this.sizes.events = total;
  }

  #drawInstance(draws, family, holder, script) {
    const batches = [];
    const addRun = (from, count, endBlock) => {
      for (let i = 0; i < count; i += EVENT_BLOCKS) {
        batches.push(from + i, Math.min(EVENT_BLOCKS, count - i), endBlock + i);
      }
    };
    addRun(family.from, family.blocks, 1);
    const tailFrom = this.pool.count;
    const tail = this.#drawTail(draws, family, holder);
    addRun(tailFrom, tail, family.blocks + 1);
    const repeated = [];
    for (let i = 0; i < batches.length; i += ONE_EVENT) {
      if (draws.chance(this.profile.repeatedPercent)) {
        repeated.push(...batches.slice(i, i + ONE_EVENT));
      }
    }
    const removal = this.#drawHoles(draws, family);
    for (const list of [batches, repeated, removal]) {
      for (const number of list) script.push(number);
      for (let i = 1; i < list.length; i += ONE_EVENT) this.sizes.streamBlocks += list[i];
    }
    this.sizes.generated += family.blocks + tail;
    this.sizes.resident += family.blocks + tail - (removal[1] ?? 0);
  }

  #drawTail(draws, family, holder) {
    const [least, most] = this.profile.tailBlocks;
    const tail = least + draws.below(most - least + 1);
    let low = this.pool.words[(family.from + family.blocks - 1) * 2];
    let high = this.pool.words[(family.from + family.blocks - 1) * 2 + 1];
    for (let i = 0; i < tail; i++) {
      draws.next();
      draws.low |= 1;
      mix(draws, { high, low, turn: 29, factor: [0x9e3779b9, 0x7f4a7c15], add: holder });
      ({ high, low } = draws);
      this.pool.push(high, low);
    }
    return tail;
  }

  #drawHoles(draws, family) {
    const { holedInstancesPercent, holesPercent } = this.profile;
    const inside = Math.max(0, family.blocks - 2);
    if (inside === 0) return [];
    let holes = 0;
    if (holesPercent === undefined) holes = draws.chance(holedInstancesPercent) ? 1 : 0;
    else {
      const hundredths = holesPercent * inside;
      holes = Math.floor(hundredths / 100);
      if (draws.chance(hundredths % 100)) holes += 1;
    }
    holes = Math.min(holes, inside);
    if (holes === 0) return [];
    const places = Array.from({ length: inside }, (_, i) => i + 1);
    const from = this.pool.count;
    for (let i = 0; i < holes; i++) {
      const j = i + draws.below(places.length - i);
      [places[i], places[j]] = [places[j], places[i]];
      const at = (family.from + places[i]) * 2;
      this.pool.push(this.pool.words[at + 1], this.pool.words[at]);
    }
    return [from, holes, 0];
  }

  /** Every event in the stream's order. */
  *events() {
    const { log, pool } = this;
    for (let at = 0; at < log.length; at += 4) {
      const keys = pool.view(log[at + 1], log[at + 2]);
      const endBlock = log[at + 3];
      if (endBlock === 0) yield { type: "remove", worker: log[at], groupId: 0, keys };
      else {
        yield {
          type: "store",
          worker: log[at],
          groupId: 0,
          keys,
          endTokens: endBlock * BLOCK_TOKENS,
          stepTokens: BLOCK_TOKENS,
        };
      }
    }
  }

  /** Prompts as keys: of each sharing class up to `most`, the gate, and misses. Each is to be asked once, cold. */
  queries(most = 2_000) {
    const draws = new WideDraws(SEED + 1);
    const prompts = { 1: [], 8: [], 64: [], gate: [], miss: [] };
    for (const { sharers, from, blocks } of this.families) {
      if (sharers === GATE_SHARERS && blocks >= GATE_BLOCKS) {
        prompts.gate.push(this.pool.view(from, GATE_BLOCKS));
      }
      if (prompts[sharers].length < most) {
        prompts[sharers].push(this.pool.view(from, 1 + draws.below(blocks)));
      }
    }
    for (let i = 0; i < most / 2; i++) {
      const words = new Uint32Array(2 * (1 + draws.below(96)));
      for (let at = 0; at < words.length; at += 2) {
        draws.next();
        words[at] = draws.low | 1;
        words[at + 1] = draws.high;
      }
      prompts.miss.push(new Uint8Array(words.buffer));
    }
    return prompts;
  }
}

/** The draw becomes (before ^ its bits turned left) * factor + add, made odd. */
function mix(draws, { high, low, turn, factor, add }) {
  const turnedHigh = (draws.high << turn) | (draws.low >>> (32 - turn));
  const turnedLow = (draws.low << turn) | (draws.high >>> (32 - turn));
  draws.high = high ^ turnedHigh;
  draws.low = low ^ turnedLow;
  draws.multiply(...factor);
  const sum = (draws.low >>> 0) + add;
  if (sum > 0xffffffff) draws.high = (draws.high + 1) | 0;
  draws.low = sum | 1;
}

function logUniform(draws, [least, most]) {
  const [from, to] = [Math.log(least), Math.log(most)];
  return Math.round(Math.exp(from + draws.fraction() * (to - from)));
}

/** What `score` reads: keys that were given. */
export class GivenKeys {
  keyLow = 0;
  keyHigh = 0;
  #view = new DataView(new ArrayBuffer(0));

  begin(keys) {
    this.#view = new DataView(keys.buffer, keys.byteOffset, keys.length);
  }

  seek(positionTokens) {
    const at = (positionTokens / BLOCK_TOKENS - 1) * 8;
    this.keyLow = this.#view.getUint32(at, true);
    this.keyHigh = this.#view.getUint32(at + 4, true);
  }
}

/** Sizes by profile and target: the first is that of the Rust program, the others, of a small part, are this file's own. */
export const CHECKS = {
  "pinned 10000000": {
    families: 44_969,
    events: 1_777_433,
    streamBlocks: 13_498_103,
    generated: 12_838_147,
    resident: 12_821_592,
  },
  "pinned 100000": {
    families: 470,
    events: 19_778,
    streamBlocks: 150_247,
    generated: 142_632,
    resident: 142_423,
  },
  "fragmented 100000": {
    families: 470,
    events: 20_376,
    streamBlocks: 153_163,
    generated: 143_464,
    resident: 141_327,
  },
};

/** Throws unless the stream has the sizes of `CHECKS`. */
export function check(profile = "pinned", targetBlocks = TARGET_BLOCKS) {
  const stream = new Pinned(profile, targetBlocks);
  const wanted = CHECKS[`${profile} ${targetBlocks}`];
  const [a, b] = [JSON.stringify(stream.sizes), JSON.stringify(wanted)];
  if (wanted !== undefined && a !== b) throw new Error(`${profile}: sizes are ${a}, not ${b}`);
  return stream;
}
