/**
 * What it is: the chains' own facts, 8 words each: position of offset 0, step (tokens from node to
 * node), first and last page, length (last live offset + 1), and where the chain's records are
 * (address, count, size class).
 * Owns: the words in chunks, the free chain ids.
 * Refuses: freeing a chain twice (our bug).
 * Does not do: touch pages or records.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { NONE } from "./page-store.ts";
import { chunkAt, word } from "./words.ts";

/** Most nodes of a chain: bounds the length of its record list. Offsets have 16 bits in a record. */
export const MAX_CHAIN_NODES = 2048;

export const CHAIN_WORDS = 8;
export const CHAIN_SHIFT = 9;
const CHUNK_CHAINS = 1 << CHAIN_SHIFT;
/** Word offsets of a chain. */
export const START = 0;
export const STEP = 1;
export const FIRST_PAGE = 2;
export const LAST_PAGE = 3;
/** 0 in a free chain. */
export const LENGTH = 4;
export const LIST_ADDRESS = 5;
export const LIST_COUNT = 6;
export const LIST_CLASS = 7;

/** Chains by dense id. */
export class ChainStore {
  readonly chunks: Int32Array[] = [];
  private freeHead = NONE;
  /** Chains in use. */
  count = 0;
  /** Ids below this bound have been in use. */
  bound = 0;

  /** A new chain without pages and records. Its length is 1: the caller puts a node at offset 0. */
  take(startTokens: number, stepTokens: number): number {
    let chain = this.freeHead;
    if (chain === NONE) {
      chain = this.bound;
      if (chain % CHUNK_CHAINS === 0) this.chunks.push(new Int32Array(CHUNK_CHAINS * CHAIN_WORDS));
      this.bound = chain + 1;
    } else {
      this.freeHead = this.get(chain, START);
    }
    this.set(chain, START, startTokens);
    this.set(chain, STEP, stepTokens);
    this.set(chain, FIRST_PAGE, NONE);
    this.set(chain, LAST_PAGE, NONE);
    this.set(chain, LENGTH, 1);
    this.set(chain, LIST_COUNT, 0);
    this.count += 1;
    return chain;
  }

  /** Frees a chain without pages and records. */
  give(chain: number): void {
    invariant(this.get(chain, LENGTH) > 0, "a chain is freed once");
    invariant(this.get(chain, LIST_COUNT) === 0, "a freed chain has no records");
    this.set(chain, LENGTH, 0);
    this.set(chain, START, this.freeHead);
    this.freeHead = chain;
    this.count -= 1;
  }

  get(chain: number, field: number): number {
    return word(chunkAt(this.chunks, chain >>> CHAIN_SHIFT), baseOfChain(chain) + field);
  }

  set(chain: number, field: number, value: number): void {
    chunkAt(this.chunks, chain >>> CHAIN_SHIFT)[baseOfChain(chain) + field] = value;
  }

  /** Bytes of all chunks. */
  get sizeBytes(): number {
    return this.chunks.length * CHUNK_CHAINS * CHAIN_WORDS * 4;
  }
}

/** Index of a chain's first word in its chunk. */
export function baseOfChain(chain: number): number {
  return (chain & (CHUNK_CHAINS - 1)) * CHAIN_WORDS;
}
