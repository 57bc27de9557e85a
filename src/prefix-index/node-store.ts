/**
 * What it is: the nodes of an index: a key, its position in the prompt, its holders.
 * Owns: the key table, the positions, the holder records. A node without a holder does not stay.
 * Refuses: more nodes than the ceiling (`hold` says so by -1).
 * Does not do: know ranks beyond the tag that is stored for them.
 */
import { HolderArena } from "./holder-arena.ts";
import { grown, KeyTable } from "./key-table.ts";

/** Nodes by dense id. Public arrays are for reading; they are replaced when they grow. */
export class NodeStore {
  readonly keys = new KeyTable();
  readonly holders = new HolderArena();
  /**
   * Position of each node in tokens from the root: the end of an entry plus its rank's look-ahead.
   */
  positions = new Uint32Array(64);
  readonly maxNodes: number;

  constructor(maxNodes: number) {
    this.maxNodes = maxNodes;
  }

  /** A new node, or -1 at the ceiling. The caller gives it a holder at once. */
  create(keyLow: number, keyHigh: number, positionTokens: number): number {
    if (this.keys.count >= this.maxNodes) return -1;
    const node = this.keys.insert(keyLow, keyHigh);
    while (node >= this.positions.length) this.positions = grown(this.positions);
    this.positions[node] = positionTokens;
    return node;
  }

  /** Removes a holder record (see `HolderArena.remove`), and the node when it was the last one. */
  removeHolder(node: number, index: number): number {
    const moved = this.holders.remove(node, index);
    if ((this.holders.counts[node] as number) === 0) this.keys.delete(node);
    return moved;
  }

  /** Bytes of all arrays. */
  get sizeBytes(): number {
    return this.keys.sizeBytes + this.holders.sizeBytes + this.positions.byteLength;
  }
}
