/**
 * What it is: an engine's block hashes for tests: SHA-256 over all that a prefix is, written out. No chain, nothing kept.
 * Owns: the root, the unit and the look-ahead of that engine.
 * Refuses: ends out of order or beyond reach (a bug of who asks).
 * Does not do: hash as vLLM does (test/unit/engine-hash is about that).
 */
import { createHash } from "node:crypto";
import type { HashedPrompt } from "../../../src/engine-hash/dist/index.js";
import type { PromptHashReader } from "../../../src/gateway/dist/hash-chain.js";
import { digestOf, type HashScheme } from "../../../src/protocol/dist/index.js";

/** A scheme as a bridge may tell it. */
export function fakeScheme(more: Partial<HashScheme> = {}): HashScheme {
  return {
    algorithm: "sha256",
    seedOrigin: "default",
    rootDigest: digestOf(new Uint8Array(32).fill(7)),
    unitTokens: 4,
    extraKeyForm: "tagged",
    loraPaths: new Map(),
    ...more,
  };
}

const NO_PROMPT: HashedPrompt = {
  tokens: [],
  loraName: undefined,
  cacheSalt: undefined,
  items: [],
};

/** The hash of a block that ends there, whatever can be computed by others. */
export function fakeHash(
  { rootDigest, loraPaths }: HashScheme,
  lookaheadTokens: number,
  prompt: HashedPrompt,
  endTokens: number,
): string {
  const hashedTo = endTokens + lookaheadTokens;
  const lora =
    prompt.loraName === undefined ? [] : [prompt.loraName, loraPaths.get(prompt.loraName)];
  const items = prompt.items.filter(({ offset }) => offset < hashedTo);
  const parts = [
    rootDigest,
    lora,
    prompt.cacheSalt ?? "",
    items.map(({ identifier, offset }) => [identifier, offset]),
    Array.from(prompt.tokens).slice(0, hashedTo),
    endTokens,
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("binary");
}

/** See the file header. */
export class FakeHashes implements PromptHashReader {
  reachTokens = 0;
  /** Prompts begun and digests asked. */
  prompts = 0;
  digests = 0;
  private readonly scheme: HashScheme;
  private readonly lookaheadTokens: number;
  private prompt = NO_PROMPT;
  private lastEnd = 0;

  constructor(scheme: HashScheme, lookaheadTokens = 0) {
    this.scheme = scheme;
    this.lookaheadTokens = lookaheadTokens;
  }

  /** Tokens of the prompt that is held. */
  get heldTokens(): number {
    return this.prompt.tokens.length;
  }

  reset(prompt: HashedPrompt): void {
    const { rootDigest, unitTokens, extraKeyForm, loraPaths } = this.scheme;
    if (prompt.tokens.length > 0) this.prompts++;
    this.prompt = prompt;
    this.lastEnd = 0;
    let known = prompt.tokens.length;
    const isLora = prompt.loraName !== undefined;
    const hasExtras = isLora || (prompt.cacheSalt ?? "") !== "";
    if (rootDigest === undefined || (hasExtras && extraKeyForm === undefined)) known = 0;
    if (isLora && !loraPaths.has(prompt.loraName ?? "")) known = 0;
    for (const { offset, length } of prompt.items) {
      if (length === undefined || extraKeyForm === undefined) known = Math.min(known, offset);
    }
    const units = Math.floor((known - this.lookaheadTokens) / unitTokens);
    this.reachTokens = Math.max(0, units * unitTokens);
  }

  digestAt(endTokens: number): string {
    const isSound =
      endTokens > this.lastEnd &&
      endTokens <= this.reachTokens &&
      endTokens % this.scheme.unitTokens === 0;
    if (!isSound) throw new RangeError("ends ascend, in units and within reach");
    this.lastEnd = endTokens;
    this.digests++;
    return fakeHash(this.scheme, this.lookaheadTokens, this.prompt, endTokens);
  }
}
