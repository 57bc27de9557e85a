// What it is: prompts as chains of blocks: tokens drawn from a number, and the prefix key of every block.
// Owns: the seed of everything drawn, the seed of the keys, the size of a block.
// Refuses: nothing.
// Does not do: say who holds what.
import { KeyedHasher, PLAIN, PrefixState, writeKey } from "../../src/protocol/dist/index.js";

export const SEED = 20_261_130;
/** Seed of the prefix keys; no answer depends on it. */
export const KEY_SEED = "a seed for benches";
export const BLOCK_TOKENS = 16;
/** Blocks of a shared prefix. */
export const PREFIX_BLOCKS = 128;
const PREFIX_TOKENS = PREFIX_BLOCKS * BLOCK_TOKENS;
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
