// What it is: workload W1, "fleet": what each of W workers holds, as lists, the events that say so, and prompts to ask.
// Everything follows from the seed; docs/performance.md tells the shape.
// Owns: the constants of the lists, which may not drift.
// Refuses: nothing.
// Does not do: index or score anything. It gives runs of prefix keys, as a gateway's index is given them.
import { BLOCK_TOKENS, Chain, Draws, fmix32, PREFIX_BLOCKS, SEED, tokenOf } from "./chain.mjs";
import { EVENT_BLOCKS, endsOf, interleaved, removal, storesOf, VARIANTS } from "./variants.mjs";

const PREFIXES = 64;
const CONVERSATIONS = 20_000;
const LONG_PROMPTS = 16;
/** Blocks of a long prompt, and of every query. */
export const LONG_BLOCKS = 4_096;
/** Tokens of every query. */
export const PROMPT_TOKENS = LONG_BLOCKS * BLOCK_TOKENS;
const FULL_LENGTH_BLOCKS = 1_024;

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

  /** Batches of store events, round robin over the workers. `variant`: which groups. */
  batches(variant = "a") {
    return interleaved(this.workers, (worker) => storesOf(this.pieces(worker), worker, variant));
  }

  /** Batches of removals: of every second conversation of a worker, its own blocks, the last ones first. */
  removals(variant = "a") {
    return interleaved(this.workers, (worker) => this.#removalsOf(worker, variant));
  }

  *#removalsOf(worker, variant) {
    for (const [at, c] of this.conversationsOf[worker].entries()) {
      if (at % 2 === 1) continue;
      const chain = this.conversations[c];
      for (let to = chain.blocks; to > PREFIX_BLOCKS; ) {
        const from = Math.max(PREFIX_BLOCKS, to - EVENT_BLOCKS);
        const batch = [];
        for (const { layout, role } of VARIANTS[variant].groups) {
          const ends = endsOf(role, chain.blocks, from, to);
          if (ends.length > 0) batch.push(removal(worker, layout.groupId, chain, ends.reverse()));
        }
        yield batch;
        to = from;
      }
    }
  }

  /** Batches that remove about 2 % of the full blocks inside each piece: neither its first block nor its last. */
  *holes() {
    for (let worker = 0; worker < this.workers; worker++) {
      for (const { chain, from, to } of this.pieces(worker)) {
        const ends = [];
        for (let block = from + 1; block < to - 1; block++) {
          const draw = fmix32((Math.imul(chain.stream, 0x9e3779b1) ^ (worker << 16) ^ block) | 0);
          if (draw % 50 === 0) ends.push(block + 1);
        }
        if (ends.length > 0) yield [removal(worker, 0, chain, ends)];
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
