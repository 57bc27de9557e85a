/**
 * What it is: the search for places of unplaced blocks: where a prompt's last tokens at a unit end are those of a
 * block, the engine's hashes of the prompt are computed, and where one is the block's, that is its place.
 * Owns: the blocks that are searched, of all ranks, by tail and by hash; the engines' chains; a query's scratch.
 * Invariants: nothing but an equal hash places a block; nothing of a prompt is kept but the prefix keys of places.
 * Refuses: blocks beyond `LIMITS.unplacedBlocks` and tails beyond `LIMITS.tailsPerBucket` (false; callers drop).
 * Does not do: write the index (the blocks' owners do).
 */
import type { HashedPrompt } from "@kv-group-bridge/engine-hash";
import {
  HashKeys,
  type HashScheme,
  type KeyedHasher,
  LIMITS,
  writeKey,
} from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import { HashChain, hashedPrompt, type PromptHashFactory } from "./hash-chain.ts";
import { type NamedPrompt, PromptKeys } from "./prompt-keys.ts";
import { plainSchemeName, SchemeBlocks, schemeName } from "./scheme-blocks.ts";
import { type Tail, type TailBlocks, TailTable } from "./tail-table.ts";
import type { BlockLink, UnplacedBlock } from "./unplaced-block.ts";

/** The blocks of one rank, for `audit`. */
export interface KeptBlocks {
  readonly toldBlocks: number;
  readonly searchedBlocks: number;
  audit(): void;
}

/** Blocks of one place, found and not written yet. */
interface Find {
  readonly blocks: readonly UnplacedBlock[];
  readonly endTokens: number;
  readonly positionTokens: number;
}

/** See the file header. */
export class PlaceSearch {
  /** Blocks that ranks keep, found ones included. Counted by `admit` and `release`. */
  blocks = 0;
  /** The present or last query. */
  queryNumber = 0;
  /** Unit ends at which the tail was a searched block's and the hash was not. Total. */
  tailsWithoutHash = 0;
  private readonly makeReader: PromptHashFactory;
  private readonly hashKeys: HashKeys;
  private readonly prefixKeys: PromptKeys;
  private readonly tables = new Map<number, TailTable>();
  private readonly schemes = new Map<string, SchemeBlocks>();
  private readonly plainChains = new Map<string, { readonly chain: HashChain; schemes: number }>();
  /** Of the present query, in hashes of 64 tokens. */
  private hashesLeft = 0;
  private hashed: HashedPrompt | undefined = undefined;
  private readonly begun: HashChain[] = [];
  private readonly finds: Find[] = [];

  constructor(hasher: KeyedHasher, makeReader: PromptHashFactory) {
    this.makeReader = makeReader;
    this.hashKeys = new HashKeys(hasher);
    this.prefixKeys = new PromptKeys(hasher);
  }

  /** Counts one more block that a rank keeps; false = there are too many. */
  admit(): boolean {
    if (this.blocks >= LIMITS.unplacedBlocks.value) return false;
    this.blocks++;
    return true;
  }

  /** Counts one block less. */
  release(): void {
    this.blocks--;
    invariant(this.blocks >= 0, "no more blocks are let go than were kept");
  }

  /** A rank has this scheme. To be given back with `leave`. */
  join(scheme: HashScheme, lookaheadTokens: number): SchemeBlocks {
    const name = schemeName(scheme, lookaheadTokens);
    let blocks = this.schemes.get(name);
    if (blocks === undefined) {
      const plainChain = this.plainChain(scheme, lookaheadTokens);
      blocks = new SchemeBlocks({ name, scheme, lookaheadTokens, plainChain });
      this.schemes.set(name, blocks);
    }
    blocks.ranks++;
    return blocks;
  }

  /** A rank has this scheme no more; its blocks were taken out before. */
  leave(blocks: SchemeBlocks): void {
    blocks.ranks--;
    if (blocks.ranks > 0) return;
    invariant(blocks.isEmpty, "a scheme that no rank has searches nothing");
    this.schemes.delete(blocks.name);
    const name = plainSchemeName(blocks.scheme, blocks.lookaheadTokens);
    const shared = this.plainChains.get(name);
    invariant(shared !== undefined, "every scheme has a plain chain");
    shared.schemes--;
    if (shared.schemes === 0) this.plainChains.delete(name);
  }

  /** Searches a block from now on; false = refused. */
  add(block: UnplacedBlock, scheme: SchemeBlocks): boolean {
    const { unitTokens } = scheme.scheme;
    const table = this.tables.get(unitTokens) ?? new TailTable(unitTokens);
    if (!table.add(block, scheme)) return false;
    this.tables.set(unitTokens, table);
    scheme.add(block);
    return true;
  }

  /** Searches a block no more. */
  remove(block: UnplacedBlock, scheme: SchemeBlocks): void {
    const table = this.tables.get(scheme.scheme.unitTokens);
    invariant(table !== undefined, "a searched block is in a table");
    table.remove(block);
    scheme.remove(block);
    if (table.count === 0) this.tables.delete(table.unitTokens);
  }

  /**
   * Begins a query and tells the owners which blocks were found in its prompt, and which could be in it where it
   * cannot be hashed. Allocates nothing while no block is searched.
   */
  find(prompt: NamedPrompt): void {
    this.queryNumber++;
    if (this.tables.size === 0) return;
    this.hashesLeft = LIMITS.hashesPerQuery.value;
    for (const table of this.tables.values()) this.walk(table, prompt);
    for (const chain of this.begun) chain.release();
    this.begun.length = 0;
    this.hashed = undefined;
    if (this.finds.length > 0) this.tell(prompt);
  }

  /** Recounts, with the blocks of all ranks; throws InvariantViolation. For tests. */
  audit(ranks: readonly KeptBlocks[]): void {
    let [kept, searched] = [0, 0];
    for (const rank of ranks) {
      rank.audit();
      kept += rank.toldBlocks;
      searched += rank.searchedBlocks;
    }
    invariant(kept === this.blocks, "every block that a rank keeps is counted once");
    for (const table of this.tables.values()) {
      invariant(table.count > 0, "no table is empty");
      table.audit();
      searched -= table.count;
    }
    invariant(searched === 0, "what ranks search is in the tables, and nothing else");
    const schemes = [...this.schemes.values()];
    invariant(
      schemes.every((scheme) => scheme.ranks > 0),
      "no scheme is left over",
    );
    invariant(this.finds.length === 0 && this.begun.length === 0, "a query leaves nothing behind");
  }

  private walk(table: TailTable, prompt: NamedPrompt): void {
    const { tokens } = prompt;
    const { hashKeys } = this;
    const unit = table.unitTokens;
    for (let end = unit; end <= tokens.length; end += unit) {
      hashKeys.ofTail(tokens, end - unit, end);
      const tail = table.find(hashKeys.keyLow, hashKeys.keyHigh);
      if (tail !== undefined) this.meet(tail, end, prompt);
    }
  }

  /** The tail of the prompt at `end` is that of blocks. */
  private meet(tail: Tail, end: number, prompt: NamedPrompt): void {
    let next = tail.first;
    while (next !== undefined) {
      const blocks = next;
      next = blocks.next;
      const { scheme } = blocks;
      const positionTokens = end + scheme.lookaheadTokens;
      // Where one end is out of reach, later ones are.
      if (blocks.obstructedQuery === this.queryNumber) continue;
      if (positionTokens > prompt.tokens.length) continue;
      const hashKey = this.hashKeyAt(this.chainOf(scheme, prompt), end);
      if (hashKey === undefined) {
        this.obstruct(blocks);
        continue;
      }
      const found = this.take(blocks, hashKey);
      if (found.length === 0) this.tailsWithoutHash++;
      else this.finds.push({ blocks: found, endTokens: end, positionTokens });
    }
  }

  /** Undefined = the hash cannot be computed, or not within what a query may cost. */
  private hashKeyAt(chain: HashChain, end: number): string | undefined {
    const work = chain.workTo(end);
    if (work > this.hashesLeft) return undefined;
    this.hashesLeft -= work;
    return chain.hashKeyAt(end);
  }

  private obstruct(blocks: TailBlocks): void {
    blocks.obstructedQuery = this.queryNumber;
    let link = blocks.first;
    for (; link !== undefined; link = link.next) {
      link.block.owner.obstructed(link.block, this.queryNumber);
    }
  }

  /** Takes the blocks of a tail and a hash out of the search. */
  private take(tailBlocks: TailBlocks, hashKey: string): readonly UnplacedBlock[] {
    const found: UnplacedBlock[] = [];
    const { scheme } = tailBlocks;
    let next: BlockLink | undefined = scheme.find(hashKey)?.first;
    while (next !== undefined) {
      const { block } = next;
      next = next.next;
      // Equal hashes have equal tails; a block that says otherwise is not believed.
      if (block.tailLink?.list !== tailBlocks) continue;
      this.remove(block, scheme);
      found.push(block);
    }
    return found;
  }

  private tell(prompt: NamedPrompt): void {
    const { finds, prefixKeys } = this;
    finds.sort((a, b) => a.positionTokens - b.positionTokens);
    prefixKeys.begin(prompt);
    for (const { blocks, endTokens, positionTokens } of finds) {
      prefixKeys.seek(positionTokens);
      const prefixKey = new Uint8Array(8);
      writeKey(prefixKey, 0, prefixKeys.keyLow, prefixKeys.keyHigh);
      for (const block of blocks) block.owner.found(block, prefixKey, endTokens);
    }
    prefixKeys.release();
    finds.length = 0;
  }

  private chainOf(scheme: SchemeBlocks, prompt: NamedPrompt): HashChain {
    let chain = scheme.plainChain;
    if (prompt.loraName !== undefined) {
      scheme.loraChain ??= this.newChain(scheme.scheme, scheme.lookaheadTokens);
      chain = scheme.loraChain;
    }
    this.hashed ??= hashedPrompt(prompt);
    if (chain.begin(this.queryNumber, this.hashed)) this.begun.push(chain);
    return chain;
  }

  private plainChain(scheme: HashScheme, lookaheadTokens: number): HashChain {
    const name = plainSchemeName(scheme, lookaheadTokens);
    let shared = this.plainChains.get(name);
    if (shared === undefined) {
      shared = { chain: this.newChain(scheme, lookaheadTokens), schemes: 0 };
      this.plainChains.set(name, shared);
    }
    shared.schemes++;
    return shared.chain;
  }

  private newChain(scheme: HashScheme, lookaheadTokens: number): HashChain {
    const reader = this.makeReader(scheme, lookaheadTokens);
    return new HashChain(reader, scheme, lookaheadTokens, this.hashKeys);
  }
}
