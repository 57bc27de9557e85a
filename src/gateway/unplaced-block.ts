/**
 * What it is: one block that a bridge told without a place, and lists of such blocks.
 * Owns: links between blocks, so that one is taken out of a list without a search.
 * Refuses: nothing.
 * Does not do: keep a prompt; what is kept are keys.
 */
import { writeKey } from "@kv-group-bridge/protocol";

/** Who was told a block. */
export interface BlockOwner {
  /** The block ends at `endTokens` of a prompt; `prefixKey` is the prompt's there, look-ahead included. */
  found(block: UnplacedBlock, prefixKey: Uint8Array, endTokens: number): void;
  /** In this query the block may be in the prompt, but the prompt cannot be hashed that far. */
  obstructed(block: UnplacedBlock, queryNumber: number): void;
}

/** See the file header. Found exactly when `prefixKey` is there; searched exactly when `tailLink` is. */
export class UnplacedBlock {
  readonly owner: BlockOwner;
  readonly groupId: number;
  readonly mediumId: number;
  readonly blockSizeTokens: number;
  /** See `keyText`. */
  readonly hashKey: string;
  readonly tailLow: number;
  readonly tailHigh: number;
  /** Where it was found: 8 bytes as on the wire. Shared; not to be written. */
  prefixKey: Uint8Array | undefined = undefined;
  /** The index holds an entry that is there because of this block alone. */
  ownsEntry = false;
  /** Its links among blocks of one tail and of one hash while it is searched. */
  tailLink: BlockLink | undefined = undefined;
  hashLink: BlockLink | undefined = undefined;

  constructor(
    block: Pick<
      UnplacedBlock,
      "owner" | "groupId" | "mediumId" | "blockSizeTokens" | "hashKey" | "tailLow" | "tailHigh"
    >,
  ) {
    this.owner = block.owner;
    this.groupId = block.groupId;
    this.mediumId = block.mediumId;
    this.blockSizeTokens = block.blockSizeTokens;
    this.hashKey = block.hashKey;
    this.tailLow = block.tailLow;
    this.tailHigh = block.tailHigh;
  }
}

/** A block's membership in one list. */
export interface BlockLink {
  readonly block: UnplacedBlock;
  readonly list: BlockList;
  next: BlockLink | undefined;
  previous: BlockLink | undefined;
}

/** A list of blocks in no promised order. */
export class BlockList {
  first: BlockLink | undefined = undefined;

  /** Adds a block that is not in the list. */
  add(block: UnplacedBlock): BlockLink {
    const link: BlockLink = { block, list: this, next: this.first, previous: undefined };
    if (this.first !== undefined) this.first.previous = link;
    this.first = link;
    return link;
  }

  /** Takes out what `add` returned, once. */
  remove(link: BlockLink): void {
    if (link.previous === undefined) this.first = link.next;
    else link.previous.next = link.next;
    if (link.next !== undefined) link.next.previous = link.previous;
  }
}

/** A key as a name: its 8 bytes on the wire, one char each. */
export function keyText(low: number, high: number): string {
  const bytes = new Uint8Array(8);
  writeKey(bytes, 0, low, high);
  return keyTextAt(bytes, 0);
}

/** As `keyText`, of the key at a byte of a list of keys. */
export function keyTextAt(keys: Uint8Array, at: number): string {
  return Buffer.from(keys.buffer, keys.byteOffset + at, 8).toString("latin1");
}
