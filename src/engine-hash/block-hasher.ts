/**
 * What it is: the digest of one block as vLLM computes it, from its parent's digest, its tokens and its extra keys.
 * Owns: one buffer, used again.
 * Refuses: shapes that cannot be reproduced (undefined).
 * Does not do: walk chains or prompts (prompt-hashes.ts does), or compare with what an engine published.
 */
import type { Digest, ExtraKeyForm, HashAlgorithm } from "@kv-group-bridge/protocol";
import type { BlockTokens, HashedExtras } from "./block-content.ts";
import { ByteWriter, hasUtf8Form } from "./byte-writer.ts";
import { CborForm } from "./cbor-form.ts";
import { digestOfBytes } from "./digests.ts";
import { hashedValueOf } from "./hashed-value.ts";
import { PickleForm } from "./pickle-form.ts";

/** One algorithm and extra key form. Not re-entrant. */
export class BlockHasher {
  readonly algorithm: HashAlgorithm;
  readonly extraKeyForm: ExtraKeyForm;
  private readonly isCbor: boolean;
  private readonly writer = new ByteWriter();
  private readonly pickle = new PickleForm(this.writer);
  private readonly cbor = new CborForm(this.writer);

  constructor(algorithm: HashAlgorithm, extraKeyForm: ExtraKeyForm) {
    this.algorithm = algorithm;
    this.extraKeyForm = extraKeyForm;
    this.isCbor = algorithm.endsWith("_cbor");
  }

  /**
   * The block's digest. `extras` undefined = nothing but tokens. Undefined = this shape cannot be reproduced: a tagged LoRA
   * adapter without its path, a text without a UTF-8 form, or a pickle of more than one frame (64 KiB).
   */
  digest(parent: Digest, block: BlockTokens, extras: HashedExtras | undefined): Digest | undefined {
    const extra = hashedValueOf(this.extraKeyForm, block, extras);
    if (extra === undefined) return undefined;
    if (this.isCbor) this.cbor.block(parent, block, extra);
    else if (!this.pickle.block(parent, block, extra)) return undefined;
    return this.written();
  }

  /** Leaves nothing of the blocks hashed so far in the buffer. */
  wipe(): void {
    this.writer.wipe();
  }

  /** The digest of a text alone: how vLLM makes the digest before the first block. Undefined as above. */
  textDigest(text: string): Digest | undefined {
    if (!hasUtf8Form(text)) return undefined;
    if (this.isCbor) this.cbor.text(text);
    else if (!this.pickle.text(text)) return undefined;
    return this.written();
  }

  private written(): Digest {
    const { bytes, length } = this.writer;
    return digestOfBytes(this.algorithm, bytes.subarray(0, length));
  }
}
