/**
 * What it is: the tail keys of blocks that are searched, of all ranks whose engines hash in one unit.
 * Owns: the lists of blocks by tail key and scheme. Invariant: no list and no tail is empty.
 * Refuses: a tail key where too many have the same low half (undefined; the caller drops the block).
 * Does not do: hash; a tail that is met says only that a prompt's chain is worth computing.
 */
import { LIMITS } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { SchemeBlocks } from "./scheme-blocks.ts";
import { BlockList, type UnplacedBlock } from "./unplaced-block.ts";

/** The blocks of one tail key and one scheme. */
export class TailBlocks extends BlockList {
  readonly scheme: SchemeBlocks;
  readonly tail: Tail;
  next: TailBlocks | undefined;
  /** The last query that could not be hashed as far as an end with this tail. */
  obstructedQuery = -1;

  constructor(scheme: SchemeBlocks, tail: Tail, next: TailBlocks | undefined) {
    super();
    this.scheme = scheme;
    this.tail = tail;
    this.next = next;
  }
}

/** One tail key. */
export interface Tail {
  readonly low: number;
  readonly high: number;
  /** Another one with the same low half. */
  next: Tail | undefined;
  first: TailBlocks | undefined;
}

/** See the file header. A look-up allocates nothing. */
export class TailTable {
  /** H. */
  readonly unitTokens: number;
  /** Blocks. */
  count = 0;
  /** By the low half as a signed number: such keys are no objects. */
  private readonly tails = new Map<number, Tail>();

  constructor(unitTokens: number) {
    this.unitTokens = unitTokens;
  }

  /** The tail of a key, both halves; undefined = no block has it. */
  find(low: number, high: number): Tail | undefined {
    let tail = this.tails.get(low | 0);
    while (tail !== undefined && tail.high !== high) tail = tail.next;
    return tail;
  }

  /** Adds a block that is in no table; false = refused. */
  add(block: UnplacedBlock, scheme: SchemeBlocks): boolean {
    const tail = this.find(block.tailLow, block.tailHigh) ?? this.newTail(block);
    if (tail === undefined) return false;
    let blocks = tail.first;
    while (blocks !== undefined && blocks.scheme !== scheme) blocks = blocks.next;
    if (blocks === undefined) {
      blocks = new TailBlocks(scheme, tail, tail.first);
      tail.first = blocks;
    }
    block.tailLink = blocks.add(block);
    this.count++;
    return true;
  }

  /** Takes out a block that `add` took. */
  remove(block: UnplacedBlock): void {
    const link = block.tailLink;
    const blocks = link?.list;
    invariant(link !== undefined && blocks instanceof TailBlocks, "a searched block has a tail");
    block.tailLink = undefined;
    blocks.remove(link);
    this.count--;
    if (blocks.first === undefined) this.drop(blocks);
  }

  /** Recounts; throws InvariantViolation. For tests. */
  audit(): void {
    let count = 0;
    for (const [low, first] of this.tails) {
      for (let tail: Tail | undefined = first; tail !== undefined; tail = tail.next) {
        invariant((tail.low | 0) === low, "a tail stands under its low half");
        invariant(tail.first !== undefined, "no tail is empty");
        for (let blocks: TailBlocks | undefined = tail.first; blocks; blocks = blocks.next) {
          invariant(blocks.first !== undefined, "no list of blocks is empty");
          for (let link = blocks.first; link !== undefined; ) {
            invariant(link.block.tailLink === link, "a block knows its link");
            count++;
            if (link.next === undefined) break;
            link = link.next;
          }
        }
      }
    }
    invariant(count === this.count, "every searched block is counted once");
  }

  private newTail(block: UnplacedBlock): Tail | undefined {
    const { tailLow: low, tailHigh: high } = block;
    const first = this.tails.get(low | 0);
    let alike = 0;
    for (let tail = first; tail !== undefined; tail = tail.next) alike++;
    if (alike >= LIMITS.tailsPerBucket.value) return undefined;
    const tail: Tail = { low, high, next: first, first: undefined };
    this.tails.set(low | 0, tail);
    return tail;
  }

  private drop(blocks: TailBlocks): void {
    const { tail } = blocks;
    if (tail.first === blocks) tail.first = blocks.next;
    else {
      let before = tail.first;
      while (before !== undefined && before.next !== blocks) before = before.next;
      if (before !== undefined) before.next = blocks.next;
    }
    if (tail.first !== undefined) return;
    const first = this.tails.get(tail.low | 0);
    if (first === tail) {
      if (tail.next === undefined) this.tails.delete(tail.low | 0);
      else this.tails.set(tail.low | 0, tail.next);
      return;
    }
    let before = first;
    while (before !== undefined && before.next !== tail) before = before.next;
    if (before !== undefined) before.next = tail.next;
  }
}
