/**
 * What it is: who holds what of a chain: one sorted list of records per chain. A record is a holder
 * (medium, rank slot, group bit) with offsets first, first + 2^shift ... last; a holder's records do
 * not overlap as ranges.
 * Owns: the lists' memory; each rank's count of records by chain is kept in step.
 * Refuses: nothing; callers add only what is not held.
 * Does not do: count entries or holders of nodes; free nodes.
 */
import {
  baseOfChain,
  CHAIN_SHIFT,
  type ChainStore,
  LIST_ADDRESS,
  LIST_CLASS,
  LIST_COUNT,
} from "./chain-store.ts";
import { jointShift } from "./record.ts";
import { indexOf, RecordArena } from "./record-arena.ts";
import { chunkAt, word } from "./words.ts";

/** What changes when a list gains or loses a record. */
export interface RecordCounter {
  countRecord(slot: number, chain: number, change: 1 | -1): void;
}

/** The lists of all chains. */
export class HolderLists {
  readonly arena = new RecordArena();
  private readonly chains: ChainStore;
  private readonly counter: RecordCounter;
  /** Records of all chains. */
  recordCount = 0;
  /** Range that `locate` found the offset free in: up to, but without, this offset. */
  freeUntil = 0;
  /** The record that `locate` found to hold the offset. */
  heldFirst = 0;
  heldLast = 0;
  heldShift = 0;

  constructor(chains: ChainStore, counter: RecordCounter) {
    this.chains = chains;
    this.counter = counter;
  }

  /**
   * Looks an offset up: 1 = held (heldFirst, heldLast, heldShift are the record), 0 = free in a
   * range without records of the holder (up to freeUntil), -1 = free, in a gap of a record.
   */
  locate(chain: number, holder: number, offset: number): number {
    const index = this.upperBound(chain, holder, offset);
    const words = this.wordsOf(chain);
    const base = this.baseOf(chain);
    if (index > 0 && word(words, base + index * 2 - 2) >>> 3 === holder) {
      const range = word(words, base + index * 2 - 1);
      const last = range & 0xffff;
      if (last >= offset) {
        const shift = word(words, base + index * 2 - 2) & 7;
        const first = range >>> 16;
        if (((offset - first) & ((1 << shift) - 1)) !== 0) return -1;
        this.heldFirst = first;
        this.heldLast = last;
        this.heldShift = shift;
        return 1;
      }
    }
    this.freeUntil = 0x1_0000;
    if (index < this.countOf(chain) && word(words, base + index * 2) >>> 3 === holder) {
      this.freeUntil = word(words, base + index * 2 + 1) >>> 16;
    }
    return 0;
  }

  /** Whether a holder has an offset. */
  holds(chain: number, holder: number, offset: number): boolean {
    return this.locate(chain, holder, offset) === 1;
  }

  /** Adds one offset that is not held. */
  addOne(chain: number, holder: number, offset: number): void {
    if (this.locate(chain, holder, offset) === -1) this.splitAround(chain, holder, offset);
    this.addRange(chain, holder, offset, offset, 0);
  }

  /** Adds first, first + 2^shift ... last; the holder has no record that overlaps the range. */
  addRange(chain: number, holder: number, first: number, last: number, shift: number): void {
    const index = this.upperBound(chain, holder, first);
    const count = this.countOf(chain);
    const words = this.wordsOf(chain);
    const base = this.baseOf(chain);
    let from = first;
    let to = last;
    let power = first === last ? 0 : shift;
    let isJoined = false;
    const before = base + index * 2 - 2;
    if (index > 0 && word(words, before) >>> 3 === holder) {
      const range = word(words, before + 1);
      const joint = jointShift(
        range >>> 16,
        range & 0xffff,
        word(words, before) & 7,
        from,
        to,
        power,
      );
      if (joint >= 0) {
        from = range >>> 16;
        power = joint;
        isJoined = true;
      }
    }
    const after = base + index * 2;
    if (index < count && word(words, after) >>> 3 === holder) {
      const range = word(words, after + 1);
      const joint = jointShift(
        from,
        to,
        power,
        range >>> 16,
        range & 0xffff,
        word(words, after) & 7,
      );
      if (joint >= 0) {
        to = range & 0xffff;
        words[after] = (holder << 3) | joint;
        words[after + 1] = (from << 16) | to;
        if (isJoined) this.deleteAt(chain, index - 1);
        return;
      }
    }
    if (!isJoined) this.insertAt(chain, index, (holder << 3) | power, (from << 16) | to);
    else {
      words[before] = (holder << 3) | power;
      words[before + 1] = (from << 16) | to;
    }
  }

  /** Takes one offset away; false when the holder does not have it. */
  removeOne(chain: number, holder: number, offset: number): boolean {
    const index = this.upperBound(chain, holder, offset) - 1;
    if (index < 0) return false;
    const words = this.wordsOf(chain);
    const at = this.baseOf(chain) + index * 2;
    if (word(words, at) >>> 3 !== holder) return false;
    const shift = word(words, at) & 7;
    const stride = 1 << shift;
    const range = word(words, at + 1);
    const first = range >>> 16;
    const last = range & 0xffff;
    if (offset > last || ((offset - first) & (stride - 1)) !== 0) return false;
    if (first === last) this.deleteAt(chain, index);
    else if (offset === last) setRange(words, at, holder, first, last - stride, shift);
    else if (offset === first) setRange(words, at, holder, first + stride, last, shift);
    else {
      setRange(words, at, holder, first, offset - stride, shift);
      this.insertRange(chain, index + 1, holder, offset + stride, last, shift);
    }
    return true;
  }

  /** Index of the first record at or after a holder. */
  firstOf(chain: number, holder: number): number {
    return this.upperBound(chain, holder, -1);
  }

  /** Removes a record. */
  deleteAt(chain: number, index: number): void {
    const words = this.wordsOf(chain);
    const base = this.baseOf(chain);
    const count = this.countOf(chain) - 1;
    const slot = (word(words, base + index * 2) >>> 8) & 0xf_ffff;
    words.copyWithin(base + index * 2, base + index * 2 + 2, base + count * 2 + 2);
    this.chains.set(chain, LIST_COUNT, count);
    this.recordCount -= 1;
    const sizeClass = this.chains.get(chain, LIST_CLASS);
    if (count === 0) this.arena.give(this.chains.get(chain, LIST_ADDRESS), sizeClass);
    else if (sizeClass > 1 && count <= 1 << (sizeClass - 2)) this.moveTo(chain, sizeClass - 1);
    this.counter.countRecord(slot, chain, -1);
  }

  /** Records of a chain. */
  countOf(chain: number): number {
    return this.chains.get(chain, LIST_COUNT);
  }

  /** The array with a chain's records. */
  wordsOf(chain: number): Int32Array {
    return this.arena.chunkOf(this.chains.get(chain, LIST_ADDRESS));
  }

  /** Index of the first word of a chain's records. */
  baseOf(chain: number): number {
    return indexOf(this.chains.get(chain, LIST_ADDRESS));
  }

  /** The number of records up to (holder, offset), in order of holder and first offset. */
  private upperBound(chain: number, holder: number, offset: number): number {
    const facts = chunkAt(this.chains.chunks, chain >>> CHAIN_SHIFT);
    const at = baseOfChain(chain);
    const address = word(facts, at + LIST_ADDRESS);
    let high = word(facts, at + LIST_COUNT);
    let low = 0;
    if (high === 0) return 0;
    const words = this.arena.chunkOf(address);
    const base = indexOf(address);
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = word(words, base + middle * 2) >>> 3;
      if (
        other < holder ||
        (other === holder && word(words, base + middle * 2 + 1) >>> 16 <= offset)
      )
        low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Splits the record in whose gap an offset lies. */
  private splitAround(chain: number, holder: number, offset: number): void {
    const index = this.upperBound(chain, holder, offset) - 1;
    const words = this.wordsOf(chain);
    const at = this.baseOf(chain) + index * 2;
    const shift = word(words, at) & 7;
    const range = word(words, at + 1);
    const first = range >>> 16;
    const left = first + (((offset - first) >> shift) << shift);
    setRange(words, at, holder, first, left, shift);
    this.insertRange(chain, index + 1, holder, left + (1 << shift), range & 0xffff, shift);
  }

  private insertRange(
    chain: number,
    index: number,
    holder: number,
    first: number,
    last: number,
    shift: number,
  ): void {
    const power = first === last ? 0 : shift;
    this.insertAt(chain, index, (holder << 3) | power, (first << 16) | last);
  }

  private insertAt(chain: number, index: number, word0: number, word1: number): void {
    const count = this.countOf(chain);
    if (count === 0) {
      this.chains.set(chain, LIST_ADDRESS, this.arena.take(0));
      this.chains.set(chain, LIST_CLASS, 0);
    } else {
      const sizeClass = this.chains.get(chain, LIST_CLASS);
      if (count === 1 << sizeClass) this.moveTo(chain, sizeClass + 1);
    }
    const words = this.wordsOf(chain);
    const base = this.baseOf(chain);
    const at = base + index * 2;
    if (index < count) words.copyWithin(at + 2, at, base + count * 2);
    words[at] = word0;
    words[at + 1] = word1;
    this.chains.set(chain, LIST_COUNT, count + 1);
    this.recordCount += 1;
    this.counter.countRecord((word0 >>> 8) & 0xf_ffff, chain, 1);
  }

  private moveTo(chain: number, sizeClass: number): void {
    const from = this.chains.get(chain, LIST_ADDRESS);
    const to = this.arena.take(sizeClass);
    const source = this.arena.chunkOf(from);
    const target = this.arena.chunkOf(to);
    const words = this.countOf(chain) * 2;
    const [at, base] = [indexOf(to), indexOf(from)];
    for (let i = 0; i < words; i++) target[at + i] = word(source, base + i);
    this.arena.give(from, this.chains.get(chain, LIST_CLASS));
    this.chains.set(chain, LIST_ADDRESS, to);
    this.chains.set(chain, LIST_CLASS, sizeClass);
  }
}

function setRange(
  words: Int32Array,
  at: number,
  holder: number,
  first: number,
  last: number,
  shift: number,
): void {
  words[at] = (holder << 3) | (first === last ? 0 : shift);
  words[at + 1] = (first << 16) | last;
}
