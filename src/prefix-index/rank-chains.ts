/**
 * What it is: for one rank, chain -> how many records of the chain are the rank's, by open
 * addressing. It lists all chains a rank has a part of.
 * Owns: slots of two words (chain + 1, records). Load <= 0.7, no tombstones; shrinks as it empties.
 * Refuses: taking a record away that was not counted (our bug).
 * Does not do: know records.
 */
import { invariant } from "@kv-group-bridge/runtime";
import { word } from "./words.ts";

const FIRST_SLOTS = 4;

/** Chains of one rank. */
export class RankChains {
  private slots = new Int32Array(FIRST_SLOTS * 2);
  private slotMask = FIRST_SLOTS - 1;
  /** Chains with at least one record. */
  count = 0;

  /** Bytes of the slots. */
  get sizeBytes(): number {
    return this.slots.byteLength;
  }

  /** Records in a chain; 0 for an unknown one. */
  recordsOf(chain: number): number {
    return word(this.slots, this.find(chain) * 2 + 1);
  }

  /** Counts one record more. */
  add(chain: number): void {
    let slot = this.find(chain);
    if (word(this.slots, slot * 2) === 0) {
      if ((this.count + 1) * 10 > (this.slotMask + 1) * 7) {
        this.resize((this.slotMask + 1) * 2);
        slot = this.find(chain);
      }
      this.slots[slot * 2] = chain + 1;
      this.count += 1;
    }
    this.slots[slot * 2 + 1] = word(this.slots, slot * 2 + 1) + 1;
  }

  /** Counts one record less. */
  remove(chain: number): void {
    const slot = this.find(chain);
    const records = word(this.slots, slot * 2 + 1);
    invariant(records > 0, "a record that goes was counted");
    this.slots[slot * 2 + 1] = records - 1;
    if (records === 1) this.delete(slot);
  }

  /** The chains now. Allocates. */
  list(): Int32Array {
    const chains = new Int32Array(this.count);
    let count = 0;
    for (let slot = 0; slot <= this.slotMask; slot++) {
      const entry = word(this.slots, slot * 2);
      if (entry === 0) continue;
      chains[count] = entry - 1;
      count += 1;
    }
    return chains;
  }

  /** Checks that every chain is found and counted. For tests and checkpoints. */
  audit(): void {
    let seen = 0;
    for (let slot = 0; slot <= this.slotMask; slot++) {
      const entry = word(this.slots, slot * 2);
      if (entry === 0) continue;
      invariant(this.find(entry - 1) === slot, "a rank's chain is found where it stands");
      invariant(word(this.slots, slot * 2 + 1) > 0, "a rank's chain has a record");
      seen += 1;
    }
    invariant(seen === this.count, "a rank's chain count is right");
  }

  private delete(gone: number): void {
    const { slots, slotMask } = this;
    let hole = gone;
    let slot = (hole + 1) & slotMask;
    while (word(slots, slot * 2) !== 0) {
      const home = homeOf(word(slots, slot * 2) - 1) & slotMask;
      if (((slot - home) & slotMask) >= ((slot - hole) & slotMask)) {
        slots[hole * 2] = word(slots, slot * 2);
        slots[hole * 2 + 1] = word(slots, slot * 2 + 1);
        hole = slot;
      }
      slot = (slot + 1) & slotMask;
    }
    slots[hole * 2] = 0;
    slots[hole * 2 + 1] = 0;
    this.count -= 1;
    const slotCount = slotMask + 1;
    if (slotCount > FIRST_SLOTS && this.count * 4 < slotCount) this.resize(slotCount / 2);
  }

  /** The slot of a chain, or the empty slot where it would go. */
  private find(chain: number): number {
    const { slots, slotMask } = this;
    let slot = homeOf(chain) & slotMask;
    for (;;) {
      const entry = word(slots, slot * 2);
      if (entry === 0 || entry === chain + 1) return slot;
      slot = (slot + 1) & slotMask;
    }
  }

  private resize(slotCount: number): void {
    const old = this.slots;
    this.slots = new Int32Array(slotCount * 2);
    this.slotMask = slotCount - 1;
    for (let at = 0; at < old.length; at += 2) {
      const entry = word(old, at);
      if (entry === 0) continue;
      const slot = this.find(entry - 1);
      this.slots[slot * 2] = entry;
      this.slots[slot * 2 + 1] = word(old, at + 1);
    }
  }
}

/** Chain ids are dense, so their bits are mixed. */
function homeOf(chain: number): number {
  const product = Math.imul(chain, 0x9e37_79b1);
  return product ^ (product >>> 15);
}
