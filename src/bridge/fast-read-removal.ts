/**
 * What it is: one BlockRemoved straight from the bytes.
 * Owns: nothing.
 * Refuses: by giving up: every removal that cannot be read whole, and fields that no release sends.
 * Does not do: tell what is left of a removal that cannot be read.
 */
import type { BlockHash } from "@kv-group-bridge/protocol";
import type { FastCursor } from "./fast-read-cursor.ts";
import type { FastHashes } from "./fast-read-hashes.ts";
import { FIELD } from "./fast-read-names.ts";
import { FastScope } from "./fast-read-scope.ts";
import type { RemoveEvent } from "./vllm-event.ts";

/** Reads one removal, field by field in any order. */
export class FastRemoval {
  private readonly cursor: FastCursor;
  private readonly reader: FastHashes;
  private readonly scope = new FastScope();
  private hashes: readonly BlockHash[] = [];

  constructor(cursor: FastCursor, reader: FastHashes) {
    this.cursor = cursor;
    this.reader = reader;
  }

  /** Reads the value of a field. */
  read(field: number): void {
    if (field === FIELD.block_hashes) this.hashes = this.reader.list();
    else this.scope.read(this.cursor, field);
  }

  /** The removal; `seen`: a bit for each field that was read. Undefined = the other reader must judge it. */
  finish(seen: number): RemoveEvent | undefined {
    if (this.cursor.isLost || (seen & (1 << FIELD.block_hashes)) === 0) return undefined;
    const { scope, hashes } = this;
    return {
      type: "removed",
      medium: scope.medium,
      locality: scope.locality,
      ownership: scope.ownership,
      groupId: scope.groupId,
      hashes,
      remainingCopies: undefined,
      notes: [],
    };
  }
}
