/**
 * What it is: where a view stands in its rank's history, and whether a stream may go on from there.
 * Owns: the cursor, the bridge process that led to it, and what the present stream was asked.
 * Refuses: nothing.
 * Does not do: read messages, or know what the view holds.
 */
import type { Cursor, ResumePoint, SequenceNumber } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

/** One rank's place. Made without one; a start gives it. */
export class ViewCursor {
  private cursor: Cursor | undefined = undefined;
  /** The bridge process that led here; 0 = it did not say. */
  private instance = 0n;
  /** Where the stream was asked to go on, until its start has come. */
  private askedCursor: Cursor | undefined = undefined;
  /** Something was taken back after the batch at the cursor. */
  private isPassed = false;
  private isForgotten = false;

  /** Undefined before the first start. */
  get current(): Cursor | undefined {
    return this.cursor;
  }

  /** Where the present stream was asked to go on; undefined = it was not, or its start has come. */
  get asked(): Cursor | undefined {
    return this.askedCursor;
  }

  /** Where a new stream may go on, for a view that is whole. */
  get resumePoint(): ResumePoint | undefined {
    const { cursor, instance } = this;
    // Another process may not know of a withdrawal at that cursor, and so count the blocks as sent.
    if (cursor === undefined || instance === 0n || this.isPassed || this.isForgotten) {
      return undefined;
    }
    return { cursor, instance };
  }

  /** A new stream is asked to go on from there. */
  ask(resume: ResumePoint | undefined): void {
    this.askedCursor = resume?.cursor;
  }

  /** A start came. Without `isResumed` a snapshot at `cursor` follows, and the place is a new one. */
  start(cursor: Cursor, instance: bigint, isResumed: boolean): void {
    this.askedCursor = undefined;
    this.instance = instance;
    if (isResumed) return;
    this.cursor = cursor;
    this.isPassed = false;
    this.isForgotten = false;
  }

  /** A batch was applied. */
  advance(sequence: SequenceNumber): void {
    invariant(this.cursor !== undefined, "a start sets the cursor");
    this.cursor = { epoch: this.cursor.epoch, sequence };
    this.isPassed = false;
  }

  /** Something was taken back that no batch has said. */
  pass(): void {
    this.isPassed = true;
  }

  /** No stream goes on from here until a start has set another place. */
  forget(): void {
    this.isForgotten = true;
  }
}
