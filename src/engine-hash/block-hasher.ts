/**
 * What it is: the digest of one block as vLLM computes it, from its parent's digest, its tokens and its extra keys.
 * Owns: one buffer, used again.
 * Refuses: nothing.
 * Does not do: walk chains or prompts (prompt-hashes.ts does), or compare with what an engine published.
 */
import type { Digest, ExtraKeyForm, HashAlgorithm } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";

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

/** One algorithm and extra key form. Not re-entrant. */
export class BlockHasher {
  readonly algorithm: HashAlgorithm;
  readonly extraKeyForm: ExtraKeyForm;

  constructor(algorithm: HashAlgorithm, extraKeyForm: ExtraKeyForm) {
    this.algorithm = algorithm;
    this.extraKeyForm = extraKeyForm;
  }

  /** The block's digest. `extras` undefined = nothing but tokens. Undefined = this shape cannot be reproduced. */
  digest(
    _parent: Digest,
    _block: BlockTokens,
    _extras: HashedExtras | undefined,
  ): Digest | undefined {
    invariant(false, "not built yet");
  }
}
