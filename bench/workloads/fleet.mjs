// What it is: workload W1, "fleet": what the workers of a fleet hold, the events that say so, and prompts to ask. Everything
// follows from SEED; docs/performance.md tells the shape. Arithmetic is uint32.
// Owns: the constants, which may not drift, and numbers (`CHECKS`) that any other implementation of the shape has too.
// Refuses: nothing. `check()` throws when generator and numbers disagree.
// Does not do: index or score anything. It gives runs of prefix keys, as a gateway's index is given them.
import { KeyedHasher, PLAIN, PrefixState, writeKey } from "../../src/protocol/dist/index.js";

export const SEED = 20_261_130;
/** Seed of the prefix keys; no answer depends on it. */
export const KEY_SEED = "a seed for benches";
export const BLOCK_TOKENS = 16;
export const PREFIXES = 64;
export const PREFIX_BLOCKS = 128;
export const CONVERSATIONS = 20_000;
export const LONG_PROMPTS = 16;
export const LONG_BLOCKS = 4_096;
export const EVENT_BLOCKS = 64;
export const STATE_BLOCKS = 64;
export const WINDOW_TOKENS = 1_024;
/** Blocks that a window of WINDOW_TOKENS may read, and one more. */
export const WINDOW_BLOCKS = 65;
export const PROMPT_TOKENS = LONG_BLOCKS * BLOCK_TOKENS;
const PREFIX_TOKENS = PREFIX_BLOCKS * BLOCK_TOKENS;
const FULL_LENGTH_BLOCKS = 1_024;
const VOCABULARY = 128_000;

/** The finaliser of MurmurHash3. */
export function fmix32(word) {
  let h = word;
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Token i of a stream of tokens. */
export function tokenOf(stream, i) {
  return fmix32((Math.imul(stream, 0x9e3779b1) + i + SEED) | 0) % VOCABULARY;
}

/** mulberry32 as whole words. */
export class Draws {
  constructor(seed) {
    this.state = seed | 0;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  below(n) {
    return this.next() % n;
  }
}

const layoutGroup = (groupId, rule, blockSizeTokens, specClass, windowTokens = 0) => ({
  groupId,
  rule,
  blockSizeTokens,
  windowTokens,
  chunkTokens: 0,
  specClass,
  dropsBlock: false,
});
const STATE_TOKENS = STATE_BLOCKS * BLOCK_TOKENS;
const FULL = { role: "full", layout: layoutGroup(0, "full", BLOCK_TOKENS, 0) };
const stateGroup = (groupId) => ({
  role: "state",
  layout: layoutGroup(groupId, "mamba", STATE_TOKENS, 1),
});
const WINDOW = {
  role: "window",
  layout: layoutGroup(2, "sliding_window", BLOCK_TOKENS, 1, WINDOW_TOKENS),
};

/** What a worker's engine is made of. `role` says which ends of a chain the group stores. */
export const VARIANTS = {
  /** Full attention alone. */
  a: { name: "full", groups: [FULL] },
  /** With one recurrent group: a state at every 64th block. */
  b: { name: "full + mamba", groups: [FULL, stateGroup(1)] },
  /** With a sliding window: the last 65 blocks of each chain. */
  c: { name: "full + window 1,024", groups: [FULL, WINDOW] },
  /** With three recurrent groups. */
  d: { name: "full + 3 mamba", groups: [FULL, stateGroup(1), stateGroup(2), stateGroup(3)] },
};

/** A variant's layout, as `PrefixIndex.addRank` takes it. `isFine`: hits end at any block, where vLLM searches so. */
export function layoutOf(variant, { isFine = false } = {}) {
  const groups = VARIANTS[variant].groups.map(({ layout }) => layout);
  return {
    groups,
    coordinator: groups.length === 1 ? "unitary" : "hybrid",
    schedulerBlockSizeTokens: Math.max(...groups.map((group) => group.blockSizeTokens)),
    hashBlockSizeTokens: BLOCK_TOKENS,
    isFine,
    lookaheadTokens: 0,
    eagleBound: "hash_end",
    replayTokens: 0,
  };
}

/** Blocks of one prompt from its begin: tokens and prefix keys, made when they are asked for. */
export class Chain {
  /** The first PREFIX_BLOCKS blocks are those of `prefix`, if there is one. */
  constructor(blocks, stream, prefix) {
    this.blocks = blocks;
    this.stream = stream;
    this.prefix = prefix;
    this.made = undefined;
  }

  get tokens() {
    const tokens = new Uint32Array(this.blocks * BLOCK_TOKENS);
    const from = this.prefix === undefined ? 0 : PREFIX_TOKENS;
    if (this.prefix !== undefined) tokens.set(this.prefix.tokens);
    for (let i = from; i < tokens.length; i++) tokens[i] = tokenOf(this.stream, i);
    return tokens;
  }

  /** 8 bytes little-endian a block. */
  get keys() {
    this.made ??= keysOf(this.tokens);
    return this.made;
  }

  /** Keys of the blocks from … to - 1, a view. */
  run(from, to) {
    return this.keys.subarray(from * 8, to * 8);
  }
}

const root = new KeyedHasher(KEY_SEED).rootWords(PLAIN);

/** Prefix keys of every whole block of a prompt. */
export function keysOf(tokens, blockTokens = BLOCK_TOKENS) {
  const blocks = Math.floor(tokens.length / blockTokens);
  const keys = new Uint8Array(blocks * 8);
  const state = new PrefixState();
  state.load(root, 0, 0);
  for (let i = 0; i < blocks; i++) {
    state.absorb(tokens, i * blockTokens, (i + 1) * blockTokens);
    state.finish();
    writeKey(keys, i * 8, state.keyLow, state.keyHigh);
  }
  return keys;
}

/** What W workers hold: lists of prefixes, conversations and long prompts. */
export class Fleet {
  constructor(workers) {
    this.workers = workers;
    const draws = new Draws(SEED + workers);
    this.prefixesOf = Array.from({ length: workers }, () => drawPrefixes(draws));
    this.lengths = Array.from({ length: CONVERSATIONS }, () => drawLength(draws));
    this.conversationsOf = Array.from({ length: workers }, () => []);
    this.workersOfConversation = Array.from({ length: CONVERSATIONS }, () => []);
    this.longsOf = Array.from({ length: workers }, () => []);
    this.workersOfLong = Array.from({ length: LONG_PROMPTS }, () => []);
    this.#placeConversations(draws);
    this.#placeLongPrompts(draws);
    this.prefixes = Array.from(
      { length: PREFIXES },
      (_, p) => new Chain(PREFIX_BLOCKS, 1 + p, undefined),
    );
    this.conversations = this.lengths.map(
      (blocks, c) => new Chain(blocks, 1_000 + c, this.prefixes[c % PREFIXES]),
    );
    this.longPrompts = Array.from(
      { length: LONG_PROMPTS },
      (_, l) => new Chain(LONG_BLOCKS, 100_000 + l, this.prefixes[l]),
    );
    /** Conversations of exactly 1,024 blocks that somebody holds, ascending. */
    this.full = this.lengths.flatMap((length, c) =>
      length === FULL_LENGTH_BLOCKS && this.workersOfConversation[c].length > 0 ? [c] : [],
    );
  }

  #placeConversations(draws) {
    const { prefixesOf, workers, lengths } = this;
    const holders = Array.from({ length: PREFIXES }, () => []);
    for (const [worker, prefixes] of prefixesOf.entries()) {
      for (const prefix of prefixes) holders[prefix].push(worker);
    }
    const room = new Array(workers).fill(workers > 64 ? 2_000 : 20_000);
    for (let c = 0; c < CONVERSATIONS; c++) {
      const own = lengths[c] - PREFIX_BLOCKS;
      const copies = 1 + draws.below(3);
      const candidates = holders[c % PREFIXES];
      for (let i = 0; i < copies && candidates.length > 0; i++) {
        const worker = candidates[draws.below(candidates.length)];
        if (this.workersOfConversation[c].includes(worker) || room[worker] < own) continue;
        room[worker] -= own;
        this.conversationsOf[worker].push(c);
        this.workersOfConversation[c].push(worker);
      }
    }
  }

  #placeLongPrompts(draws) {
    for (let l = 0; l < LONG_PROMPTS; l++) {
      const chosen = this.workersOfLong[l];
      while (chosen.length < Math.min(8, this.workers)) {
        const worker = draws.below(this.workers);
        if (chosen.includes(worker)) continue;
        chosen.push(worker);
        this.longsOf[worker].push(l);
        if (!this.prefixesOf[worker].includes(l)) this.prefixesOf[worker].push(l);
      }
    }
  }

  /** What is held of full attention: (worker, block) pairs, and different blocks. */
  get counts() {
    let entries = 0;
    for (let worker = 0; worker < this.workers; worker++) {
      for (const { from, to } of this.pieces(worker)) entries += to - from;
    }
    const held = new Set(this.prefixesOf.flat());
    let distinct = held.size * PREFIX_BLOCKS;
    for (const [c, workers] of this.workersOfConversation.entries()) {
      if (workers.length > 0) distinct += this.lengths[c] - PREFIX_BLOCKS;
    }
    distinct += LONG_PROMPTS * (LONG_BLOCKS - PREFIX_BLOCKS);
    return { entries, distinct };
  }

  /** What a worker holds, in the order of storing: blocks from … to - 1 of a chain. */
  pieces(worker) {
    const pieces = [];
    for (const p of this.prefixesOf[worker]) {
      pieces.push({ chain: this.prefixes[p], from: 0, to: PREFIX_BLOCKS });
    }
    for (const c of this.conversationsOf[worker]) {
      pieces.push({ chain: this.conversations[c], from: PREFIX_BLOCKS, to: this.lengths[c] });
    }
    for (const l of this.longsOf[worker]) {
      pieces.push({ chain: this.longPrompts[l], from: PREFIX_BLOCKS, to: LONG_BLOCKS });
    }
    return pieces;
  }

  /** Store events, round robin over the workers, one after the other. `variant`: which groups. */
  *stores(variant = "a") {
    yield* interleaved(this.workers, (worker) => storesOf(this.pieces(worker), worker, variant));
  }

  /** Removal events: of every second conversation of a worker, its own blocks, the last ones first. */
  *removals(variant = "a") {
    yield* interleaved(this.workers, (worker) => this.#removalsOf(worker, variant));
  }

  *#removalsOf(worker, variant) {
    for (const [at, c] of this.conversationsOf[worker].entries()) {
      if (at % 2 === 1) continue;
      const chain = this.conversations[c];
      for (let to = chain.blocks; to > PREFIX_BLOCKS; ) {
        const from = Math.max(PREFIX_BLOCKS, to - EVENT_BLOCKS);
        for (const { layout, role } of VARIANTS[variant].groups) {
          const ends = endsOf(role, chain.blocks, from, to);
          if (ends.length > 0) yield removal(worker, layout.groupId, chain, ends.reverse());
        }
        to = from;
      }
    }
  }

  /** Removal events of about 2 % of the full blocks inside each piece: neither its first block nor its last. */
  *holes() {
    for (let worker = 0; worker < this.workers; worker++) {
      for (const { chain, from, to } of this.pieces(worker)) {
        const ends = [];
        for (let block = from + 1; block < to - 1; block++) {
          const draw = fmix32((Math.imul(chain.stream, 0x9e3779b1) ^ (worker << 16) ^ block) | 0);
          if (draw % 50 === 0) ends.push(block + 1);
        }
        if (ends.length > 0) yield removal(worker, 0, chain, ends);
      }
    }
  }

  /** Prompt q of the first kind: 65,536 tokens, of which the first 16,384 are a conversation that somebody holds. */
  firstQuery(q) {
    const c = this.full[fmix32((q + 7) | 0) % this.full.length];
    const tokens = new Uint32Array(PROMPT_TOKENS);
    const own = this.conversations[c].tokens;
    tokens.set(own);
    for (let i = own.length; i < PROMPT_TOKENS; i++)
      tokens[i] = tokenOf(200_000 + q, i - own.length);
    return tokens;
  }

  /** Prompt q of the second kind: 65,536 tokens that up to 8 workers hold whole. */
  secondQuery(q) {
    return this.longPrompts[q % LONG_PROMPTS].tokens;
  }

  /** As the first kind, but one of ten prompts is held by nobody. */
  mixedQuery(q) {
    if (q % 10 !== 9) return this.firstQuery(q);
    return Uint32Array.from({ length: PROMPT_TOKENS }, (_, i) => tokenOf(300_000 + q, i));
  }

  /** Of a prompt of the first kind, in blocks of full attention, by what the lists say. */
  firstAnswer(q) {
    const c = this.full[fmix32((q + 7) | 0) % this.full.length];
    return this.#answer(FULL_LENGTH_BLOCKS, this.workersOfConversation[c], c % PREFIXES);
  }

  /** Of a prompt of the second kind. */
  secondAnswer(q) {
    return this.#answer(LONG_BLOCKS, this.workersOfLong[q % LONG_PROMPTS], q % LONG_PROMPTS);
  }

  #answer(blocks, workers, prefix) {
    const holders = this.prefixesOf.filter((prefixes) => prefixes.includes(prefix)).length;
    return { blocks, workers: workers.length, holders };
  }
}

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

  *stores(variant = "a") {
    yield* interleaved(this.workers, (worker) => {
      const pieces = [{ chain: this.chain, from: 0, to: this.depths[worker] }];
      return storesOf(pieces, worker, variant);
    });
  }
}

function drawPrefixes(draws) {
  const all = Array.from({ length: PREFIXES }, (_, p) => p);
  for (let i = 0; i < PREFIXES / 2; i++) {
    const j = i + draws.below(PREFIXES - i);
    [all[i], all[j]] = [all[j], all[i]];
  }
  return all.slice(0, PREFIXES / 2);
}

function drawLength(draws) {
  const word = draws.next();
  return (word & 3) === 0 ? FULL_LENGTH_BLOCKS : 256 + ((word >>> 2) % 769);
}

/** One event of each worker in turn, as long as any has one. */
function* interleaved(workers, eventsOf) {
  let turns = Array.from({ length: workers }, (_, worker) => eventsOf(worker)[Symbol.iterator]());
  while (turns.length > 0) {
    const going = [];
    for (const turn of turns) {
      const { value, done } = turn.next();
      if (done) continue;
      going.push(turn);
      yield value;
    }
    turns = going;
  }
}

/** Ends, in blocks, that a group stores of the blocks from … to - 1 of a chain. */
function endsOf(role, chainBlocks, from, to) {
  const ends = [];
  const step = role === "state" ? STATE_BLOCKS : 1;
  const first = role === "window" ? Math.max(from, chainBlocks - WINDOW_BLOCKS) : from;
  for (let end = Math.floor(first / step) * step + step; end <= to; end += step) ends.push(end);
  return ends;
}

/** Runs of one worker: a full group's run, then those of the other groups at the same blocks. */
function* storesOf(pieces, worker, variant) {
  const { groups } = VARIANTS[variant];
  for (const { chain, from: begin, to: stop } of pieces) {
    for (let from = begin; from < stop; from += EVENT_BLOCKS) {
      const to = Math.min(from + EVENT_BLOCKS, stop);
      for (const { layout, role } of groups) {
        const run = storeRun(worker, layout, role, chain, { from, to, stop });
        if (run !== undefined) yield run;
      }
    }
  }
}

function storeRun(worker, layout, role, chain, { from, to, stop }) {
  const step = layout.blockSizeTokens / BLOCK_TOKENS;
  const ends = endsOf(role, stop, from, to);
  if (ends.length === 0) return undefined;
  const parent = ends[0] - step;
  return {
    type: "store",
    worker,
    groupId: layout.groupId,
    // Runs of states have one key: a chain is stored 64 blocks at a time.
    keys: step === 1 ? chain.run(ends[0] - 1, ends.at(-1)) : pick(chain, ends),
    endTokens: ends[0] * BLOCK_TOKENS,
    stepTokens: layout.blockSizeTokens,
    parentKey: parent === 0 ? NO_KEY : chain.run(parent - 1, parent),
  };
}

const NO_KEY = new Uint8Array(0);

function removal(worker, groupId, chain, ends) {
  return { type: "remove", worker, groupId, keys: pick(chain, ends) };
}

function pick(chain, ends) {
  if (ends.length === 1) return chain.run(ends[0] - 1, ends[0]);
  const keys = new Uint8Array(ends.length * 8);
  for (const [at, end] of ends.entries()) keys.set(chain.run(end - 1, end), at * 8);
  return keys;
}

/** Numbers that two Rust trees, a Go index and a prototype agreed on. */
export const CHECKS = {
  tokens: [
    [1, 0, 71_378],
    [1, 1, 90_307],
    [1, 2, 98_691],
    [1, 3, 15_654],
    [1_000, 2_048, 25_645],
    [1_000, 2_049, 115_225],
    [1_000, 2_050, 45_828],
    [200_000, 0, 22_767],
  ],
  draws: [1_711_585_030, 442_447_561, 3_700_069_629],
  /** By workers: store events of variant a, entries, different blocks. */
  sizes: {
    1: [1_399, 88_489, 88_489],
    16: [14_295, 901_361, 262_265],
    64: [32_865, 2_053_715, 780_627],
    1000: [104_041, 6_550_689, 1_363_133],
  },
  /** By workers: query number, deepest block, workers that have it, workers with any. */
  first: {
    16: [
      [0, 1_024, 2, 7],
      [100_000, 1_024, 2, 8],
      [200_000, 1_024, 1, 10],
    ],
    64: [
      [0, 1_024, 3, 33],
      [100_000, 1_024, 3, 30],
      [200_000, 1_024, 1, 31],
    ],
    1000: [
      [0, 1_024, 1, 466],
      [100_000, 1_024, 1, 480],
      [200_000, 1_024, 3, 511],
    ],
  },
  second: {
    16: [[0, 4_096, 8, 14]],
    64: [[0, 4_096, 8, 31]],
    1000: [[0, 4_096, 8, 489]],
  },
};

/** Throws unless the generator gives the numbers of `CHECKS` for this many workers. */
export function check(workers = 16) {
  const differ = (what, found, wanted) => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`fleet of ${workers}: ${what} are ${a}, not ${b}`);
  };
  for (const [stream, i, token] of CHECKS.tokens) differ("tokens", tokenOf(stream, i), token);
  const draws = new Draws(SEED + 1_000);
  differ(
    "draws",
    CHECKS.draws.map(() => draws.next()),
    CHECKS.draws,
  );
  const fleet = new Fleet(workers);
  const sizes = CHECKS.sizes[workers];
  if (sizes !== undefined) {
    let events = 0;
    for (let worker = 0; worker < workers; worker++) {
      for (const { from, to } of fleet.pieces(worker))
        events += Math.ceil((to - from) / EVENT_BLOCKS);
    }
    differ("sizes", [events, fleet.counts.entries, fleet.counts.distinct], sizes);
  }
  const answers = (list = [], answer) => {
    for (const [q, blocks, holders, any] of list) {
      const found = answer(q);
      differ("answers", [found.blocks, found.workers, found.holders], [blocks, holders, any]);
    }
  };
  answers(CHECKS.first[workers], (q) => fleet.firstAnswer(q));
  answers(CHECKS.second[workers], (q) => fleet.secondAnswer(q));
  return fleet;
}
