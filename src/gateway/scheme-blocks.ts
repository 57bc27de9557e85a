/**
 * What it is: the blocks that are searched under one scheme, by the key of their hash, and the names of schemes.
 * Owns: the lists by hash key, and the chain of prompts that name an adapter.
 * Refuses: nothing.
 * Does not do: look at tails (tail-table.ts does).
 */
import type { HashScheme } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { HashChain } from "./hash-chain.ts";
import { BlockList, type UnplacedBlock } from "./unplaced-block.ts";

/** Blocks of every rank with this scheme and look-ahead. */
export class SchemeBlocks {
  readonly name: string;
  readonly scheme: HashScheme;
  readonly lookaheadTokens: number;
  /** Of prompts without an adapter; shared by schemes that differ in adapters' paths alone. */
  readonly plainChain: HashChain;
  /** Of prompts with one; made when first needed. */
  loraChain: HashChain | undefined = undefined;
  /** Ranks that have it. */
  ranks = 0;
  private readonly lists = new Map<string, BlockList>();

  constructor(scheme: Pick<SchemeBlocks, "name" | "scheme" | "lookaheadTokens" | "plainChain">) {
    this.name = scheme.name;
    this.scheme = scheme.scheme;
    this.lookaheadTokens = scheme.lookaheadTokens;
    this.plainChain = scheme.plainChain;
  }

  /** True while no block is searched here. */
  get isEmpty(): boolean {
    return this.lists.size === 0;
  }

  /** The blocks of a hash key; undefined = none. */
  find(hashKey: string): BlockList | undefined {
    return this.lists.get(hashKey);
  }

  /** Adds a block that is in no list by hash. */
  add(block: UnplacedBlock): void {
    let list = this.lists.get(block.hashKey);
    if (list === undefined) {
      list = new BlockList();
      this.lists.set(block.hashKey, list);
    }
    block.hashLink = list.add(block);
  }

  /** Takes out a block that `add` took. */
  remove(block: UnplacedBlock): void {
    const link = block.hashLink;
    invariant(link !== undefined, "a searched block has a hash");
    block.hashLink = undefined;
    link.list.remove(link);
    if (link.list.first === undefined) this.lists.delete(block.hashKey);
  }
}

/** Equal for schemes that give every prompt without an adapter the same hashes. */
export function plainSchemeName(scheme: HashScheme, lookaheadTokens: number): string {
  const { algorithm, rootDigest, unitTokens, extraKeyForm } = scheme;
  return JSON.stringify([algorithm, rootDigest, unitTokens, extraKeyForm, lookaheadTokens]);
}

/** Equal for schemes that give every prompt the same hashes. */
export function schemeName(scheme: HashScheme, lookaheadTokens: number): string {
  const paths = [...scheme.loraPaths].sort(([a], [b]) => (a < b ? -1 : 1));
  return plainSchemeName(scheme, lookaheadTokens) + JSON.stringify(paths);
}
