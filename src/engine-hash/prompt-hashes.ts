/**
 * What it is: the block digests of one prompt, as an engine of a given scheme computes them.
 * Owns: the chain's last digest and its end.
 * Refuses: nothing; what cannot be computed is out of reach.
 * Does not do: find schemes, or compare with what an engine published.
 */
import type { Digest, HashScheme } from "@kv-group-bridge/protocol";
import { invariant } from "@kv-group-bridge/runtime";
import type { BlockTokens, HashedExtras } from "./block-content.ts";
import { BlockHasher } from "./block-hasher.ts";
import { ItemWalk, type PromptItem } from "./item-walk.ts";

/** A prompt with all that goes into its hashes. */
export interface HashedPrompt {
  readonly tokens: ArrayLike<number>;
  /** Undefined = base model. */
  readonly loraName: string | undefined;
  /** "" and undefined = none, as in vLLM. */
  readonly cacheSalt: string | undefined;
  readonly items: readonly PromptItem[];
}

/** A block's end and its digest. */
export interface BlockDigest {
  readonly endTokens: number;
  readonly digest: Digest;
}

const NO_PROMPT: HashedPrompt = {
  tokens: [],
  loraName: undefined,
  cacheSalt: undefined,
  items: [],
};

/** Computes digests of one prompt after the other. Not re-entrant. */
export class PromptHashes {
  /** The last end whose digest is computable, a multiple of the unit; 0 = none. */
  reachTokens = 0;
  private readonly scheme: HashScheme;
  private readonly lookaheadTokens: number;
  private readonly hasher: BlockHasher;
  private readonly walk = new ItemWalk();
  private readonly block: BlockTokens = {
    tokens: [],
    from: 0,
    to: 0,
    ahead: [],
    aheadFrom: 0,
    aheadTo: 0,
  };
  private prompt = NO_PROMPT;
  private loraPath: string | undefined;
  private digest: Digest | undefined;
  private endTokens = 0;

  constructor(scheme: HashScheme, lookaheadTokens: number) {
    this.scheme = scheme;
    this.lookaheadTokens = lookaheadTokens;
    // Without extra keys both forms are the same.
    this.hasher = new BlockHasher(scheme.algorithm, scheme.extraKeyForm ?? "tagged");
  }

  /** Begins a prompt and says how far its digests can be computed (`reachTokens`). Keeps the prompt, copies nothing. */
  reset(prompt: HashedPrompt): void {
    const { scheme, block } = this;
    this.prompt = prompt;
    this.walk.reset(prompt.items);
    this.loraPath =
      prompt.loraName === undefined ? undefined : scheme.loraPaths.get(prompt.loraName);
    this.digest = scheme.rootDigest;
    this.endTokens = 0;
    block.tokens = prompt.tokens;
    block.ahead = prompt.tokens;
    this.reachTokens = this.reachOf(prompt);
  }

  /**
   * The digest of the prefix that ends at `endTokens`: a multiple of the unit, not below the one asked before, not beyond
   * the reach. Undefined = a block on the way cannot be reproduced (`BlockHasher.digest` says which); none after it can.
   */
  digestAt(endTokens: number): Digest | undefined {
    const { unitTokens } = this.scheme;
    invariant(
      endTokens % unitTokens === 0 && endTokens > 0 && endTokens <= this.reachTokens,
      "an end is a multiple of the unit within reach",
    );
    invariant(endTokens >= this.endTokens, "ends are asked in their order");
    while (this.endTokens < endTokens && this.digest !== undefined) this.step(this.digest);
    return this.digest;
  }

  private step(parent: Digest): void {
    const { block, prompt } = this;
    const from = this.endTokens;
    const to = from + this.scheme.unitTokens;
    const hashedTo = to + this.lookaheadTokens;
    block.from = from;
    block.to = to;
    block.aheadFrom = to;
    block.aheadTo = hashedTo;
    const items = this.walk.next(from, to, hashedTo);
    const cacheSalt = from === 0 ? saltOf(prompt) : undefined;
    const isPlain = items.length === 0 && cacheSalt === undefined && prompt.loraName === undefined;
    const extras: HashedExtras | undefined = isPlain
      ? undefined
      : { loraName: prompt.loraName, loraPath: this.loraPath, items, cacheSalt };
    this.digest = this.hasher.digest(parent, block, extras);
    this.endTokens = to;
  }

  private reachOf(prompt: HashedPrompt): number {
    const { extraKeyForm, rootDigest, unitTokens } = this.scheme;
    const isFormUnknown = extraKeyForm === undefined;
    const isLora = prompt.loraName !== undefined;
    const isPathMissing = isLora && extraKeyForm === "tagged" && this.loraPath === undefined;
    const isUnknownAtOnce = isFormUnknown && (isLora || saltOf(prompt) !== undefined);
    if (rootDigest === undefined || isPathMissing || isUnknownAtOnce) return 0;
    let known = prompt.tokens.length;
    for (const { offset, length } of prompt.items) {
      if (isFormUnknown || length === undefined) known = Math.min(known, offset);
    }
    const units = Math.floor((known - this.lookaheadTokens) / unitTokens);
    return Math.max(0, units * unitTokens);
  }
}

function saltOf(prompt: HashedPrompt): string | undefined {
  return prompt.cacheSalt === "" ? undefined : prompt.cacheSalt;
}

/**
 * Given a prompt, the digests that an engine of this scheme has for its blocks of H tokens, from the first on, as far as they
 * can be computed. A block needs its look-ahead to be there.
 */
export function blockHashes(
  prompt: HashedPrompt,
  scheme: HashScheme,
  lookaheadTokens: number,
): readonly BlockDigest[] {
  const hashes = new PromptHashes(scheme, lookaheadTokens);
  hashes.reset(prompt);
  const digests: BlockDigest[] = [];
  for (let end = scheme.unitTokens; end <= hashes.reachTokens; end += scheme.unitTokens) {
    const digest = hashes.digestAt(end);
    if (digest === undefined) break;
    digests.push({ endTokens: end, digest });
  }
  return digests;
}
