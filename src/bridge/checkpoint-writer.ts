/**
 * What it is: one cut of a mirror as bytes: piece by piece while the rank goes on, and consistent at its end.
 * Owns: an iterator over the mirror's blocks, the changes since they were written, and the checksum.
 * Invariant: for every block the last record says what it is at the moment of `finish`.
 * Refuses: nothing.
 * Does not do: keep the mirror still, keep time, or write to a file.
 */
import { createHash } from "node:crypto";
import { invariant } from "@kv-group-bridge/runtime";
import type { Block } from "./block.ts";
import { BlockChanges } from "./block-changes.ts";
import { ByteSink } from "./byte-sink.ts";
import {
  CHECKPOINT_MARK,
  CHECKPOINT_VERSION,
  CHECKSUM_BYTES,
  FOOTER_BYTES,
  PRELUDE_BYTES,
} from "./checkpoint-form.ts";
import { headText } from "./checkpoint-head.ts";
import { RecordWriter } from "./checkpoint-records.ts";
import type { CheckpointHead } from "./checkpoint-state.ts";
import type { Mirror } from "./mirror.ts";

/** One cut: `piece` until it gives undefined, then `finish`; or `abandon` at any time. */
export class CheckpointWriter {
  private readonly mirror: Mirror;
  private readonly changes = new BlockChanges();
  private readonly blocks: IterableIterator<Block>;
  private readonly sink = new ByteSink();
  private readonly records = new RecordWriter(this.sink);
  private readonly hash = createHash("sha256");
  private touchedFirst: IterableIterator<Block> | undefined = undefined;
  private hasVisitedAll = false;
  private isOver = false;
  private firstBlocks = 0;
  private repeatedBlocks = 0;
  private taken = 0;

  /** Begins the cut; the mirror notes changes until it is over. One cut of a mirror at a time. */
  constructor(mirror: Mirror) {
    this.mirror = mirror;
    mirror.beginCut(this.changes);
    this.blocks = mirror.all();
    this.sink.reserve(PRELUDE_BYTES);
    this.sink.latin1(CHECKPOINT_MARK);
    this.sink.uint32(CHECKPOINT_VERSION);
  }

  /** The mirror began anew: the cut can only be abandoned. */
  get isVoid(): boolean {
    return this.changes.isVoid;
  }

  /**
   * The next bytes, with up to `maxBlocks` blocks as they are now. Undefined = what is left is small enough for
   * `finish`, or the changes come as fast as they are written and `finish` must take them all.
   */
  piece(maxBlocks: number): Uint8Array | undefined {
    this.checkOpen();
    if (!this.hasVisitedAll) {
      this.visit(maxBlocks);
      return this.take();
    }
    const hasTime = this.repeatedBlocks < this.firstBlocks;
    if (this.changes.touched.size <= maxBlocks || !hasTime) return undefined;
    this.repeat(maxBlocks);
    return this.take();
  }

  /** The last bytes: what is left of the blocks, then the head, as of this moment. The cut is over. */
  finish(head: CheckpointHead): Uint8Array {
    this.checkOpen();
    if (!this.hasVisitedAll) this.visit(Number.POSITIVE_INFINITY);
    this.repeat(Number.POSITIVE_INFINITY);
    this.abandon();
    const text = Buffer.from(headText(head, this.mirror.allSlots()), "utf8");
    const { sink } = this;
    sink.reserve(text.length + FOOTER_BYTES);
    sink.raw(text);
    sink.uint32(text.length);
    sink.uint32(this.taken + sink.length + 4 + CHECKSUM_BYTES);
    const end = this.take();
    const checksum = this.hash.digest();
    this.taken += checksum.length;
    return Buffer.concat([end, checksum]);
  }

  /** Ends the cut; the mirror notes nothing more. May be called twice. */
  abandon(): void {
    this.isOver = true;
    this.mirror.endCut(this.changes);
  }

  private checkOpen(): void {
    invariant(!this.isOver, "a cut that is over gives nothing");
    invariant(!this.isVoid, "a cut of what is gone gives nothing");
  }

  private visit(maxBlocks: number): void {
    const slotCount = this.mirror.allSlots().length;
    for (let count = 0; count < maxBlocks; count++) {
      const step = this.blocks.next();
      if (step.done === true) {
        this.hasVisitedAll = true;
        return;
      }
      this.changes.touched.delete(step.value);
      this.records.block(step.value, slotCount);
      this.firstBlocks += 1;
    }
  }

  private repeat(maxBlocks: number): void {
    const slotCount = this.mirror.allSlots().length;
    const { touched, forgotten } = this.changes;
    let count = 0;
    while (count < maxBlocks) {
      // One iterator while it lasts: a new one would step over everything that was taken out before it.
      this.touchedFirst ??= touched.values();
      const step = this.touchedFirst.next();
      if (step.done === true) {
        this.touchedFirst = undefined;
        break;
      }
      touched.delete(step.value);
      this.records.block(step.value, slotCount);
      count += 1;
    }
    this.repeatedBlocks += count;
    for (const serial of forgotten) this.records.forgotten(serial);
    forgotten.length = 0;
  }

  private take(): Uint8Array {
    const bytes = this.sink.take();
    this.hash.update(bytes);
    this.taken += bytes.length;
    return bytes;
  }
}
