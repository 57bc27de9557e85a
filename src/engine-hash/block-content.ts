/**
 * What it is: what one block's hash covers, as its caller gives it.
 * Owns: types only.
 * Refuses: nothing.
 * Does not do: say how it is written (hashed-value.ts and the forms do).
 */

/** A multimodal item as it goes into a block's hash. */
export interface HashedItem {
  readonly identifier: string;
  /** First placeholder token, relative to the block's first; negative = it began before the block. */
  readonly offset: number;
}

/** What a block's hash covers beside tokens. */
export interface HashedExtras {
  /** Undefined = base model. */
  readonly loraName: string | undefined;
  /** Hashed in the tagged form alone. */
  readonly loraPath: string | undefined;
  /** Every item that overlaps the block or its look-ahead, in the prompt's order. */
  readonly items: readonly HashedItem[];
  /** In the first block of a prompt alone. */
  readonly cacheSalt: string | undefined;
}

/** The tokens of one block: tokens[from … to − 1], and the look-ahead ahead[aheadFrom … aheadTo − 1]. */
export interface BlockTokens {
  tokens: ArrayLike<number>;
  from: number;
  to: number;
  /** May be `tokens` itself. Equal bounds = no look-ahead hashing. */
  ahead: ArrayLike<number>;
  aheadFrom: number;
  aheadTo: number;
}
