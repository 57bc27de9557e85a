/**
 * What it is: the search for the way in which an engine names its blocks: algorithm, seed and hash unit are tried on what
 * it publishes until one of them gives the very hash that was published.
 * Owns: the list of ways, how far it was tried, and how often.
 * Refuses: to take anything on trust: what is configured narrows the list, and is proved like everything else.
 * Does not do: keep on checking (recomputer.ts does), or handle extra keys: plain stores alone are looked at.
 */
import {
  BlockHasher,
  type BlockTokens,
  COMMON_SEED_TEXTS,
  DEFAULT_SEED_TEXT,
  type PublishedForm,
  publishedHash,
  seedDigest,
} from "@kv-group-bridge/engine-hash";
import {
  type Digest,
  digestBytesOf,
  HASH_ALGORITHMS,
  type HashAlgorithm,
  isDigestOf,
  LIMITS,
  type SeedOrigin,
} from "@kv-group-bridge/protocol";
import type { HashingConfig } from "./engine-config.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** A way to name blocks that gave a published hash. */
export interface FoundWay {
  readonly algorithm: HashAlgorithm;
  readonly seedOrigin: SeedOrigin;
  /** Undefined = the seed is not known; only what has a parent can be computed, where parents are whole digests. */
  readonly rootDigest: Digest | undefined;
  readonly unitTokens: number;
}

interface Seed {
  readonly origin: SeedOrigin;
  readonly algorithm: HashAlgorithm;
  readonly digest: Digest;
}

/** What is known of an engine's hash unit before anything was reproduced. */
export interface UnitHint {
  /** Stated H; undefined = not stated. */
  readonly statedTokens: number | undefined;
}

const NO_TOKENS = new Uint32Array(0);
const NO_BLOCK: BlockTokens = {
  tokens: NO_TOKENS,
  from: 0,
  to: 0,
  ahead: NO_TOKENS,
  aheadFrom: 0,
  aheadTo: 0,
};

/** One a rank. */
export class HashSearch {
  /** Digests computed for it. */
  hashes = 0;
  private readonly hashers = new Map<HashAlgorithm, BlockHasher>();
  private readonly seeds: readonly Seed[];
  /** Of `seeds`; where the next store goes on. */
  private next = 0;
  private rounds = 0;
  /** What this engine was found to do last: tried first when it begins anew. */
  private last: FoundWay | undefined = undefined;

  constructor(config: HashingConfig) {
    const algorithms = config.algorithm === undefined ? HASH_ALGORITHMS : [config.algorithm];
    for (const algorithm of algorithms) {
      this.hashers.set(algorithm, new BlockHasher(algorithm, "tagged"));
    }
    this.seeds = algorithms.flatMap((algorithm) => seedsOf(algorithm, config.seedText));
    this.seeds = [...this.seeds].sort((a, b) => rankOf(a) - rankOf(b));
  }

  /** Everything was tried often enough. */
  get isExhausted(): boolean {
    return this.rounds >= LIMITS.hashSearchRounds.value;
  }

  /** Leaves nothing of a prompt in any buffer. */
  wipe(): void {
    for (const hasher of this.hashers.values()) hasher.wipe();
  }

  /** Begins anew: the engine is another one. */
  restart(): void {
    this.next = 0;
    this.rounds = 0;
  }

  /** Tries a plain store that begins a prompt; undefined = none of the ways tried gives its first hash. */
  tryRoot(
    event: StoreEvent,
    form: PublishedForm,
    hint: UnitHint,
    lookaheadTokens: number,
  ): FoundWay | undefined {
    const units = unitsOf(event, hint);
    const until = this.hashes + LIMITS.hashSearchHashes.value;
    if (this.last !== undefined && this.fits(this.last.algorithm, event)) {
      const { last } = this;
      const isSame =
        last.rootDigest !== undefined &&
        this.gives(last.algorithm, last.rootDigest, last.unitTokens, event, form, lookaheadTokens);
      if (isSame) return last;
    }
    while (!this.isExhausted && this.hashes < until) {
      const seed = this.seeds[this.next];
      if (seed === undefined) {
        this.next = 0;
        this.rounds += 1;
        return undefined;
      }
      this.next += 1;
      if (!this.fits(seed.algorithm, event)) continue;
      const { algorithm, digest } = seed;
      const unitTokens = units.find((unit) =>
        this.gives(algorithm, digest, unit, event, form, lookaheadTokens),
      );
      if (unitTokens === undefined) continue;
      this.next = 0;
      return this.found({ algorithm, seedOrigin: seed.origin, rootDigest: digest, unitTokens });
    }
    return undefined;
  }

  /** Tries a plain store whose parent was published as a whole digest: the seed does not matter there. */
  tryBelow(event: StoreEvent, hint: UnitHint, lookaheadTokens: number): FoundWay | undefined {
    const { parent } = event;
    if (parent === undefined) return undefined;
    for (const algorithm of this.hashers.keys()) {
      const digest = wholeDigest(parent, algorithm);
      if (digest === undefined) continue;
      for (const unitTokens of unitsOf(event, hint)) {
        if (!this.gives(algorithm, digest, unitTokens, event, "bytes", lookaheadTokens)) continue;
        return this.found({ algorithm, seedOrigin: "unknown", rootDigest: undefined, unitTokens });
      }
    }
    return undefined;
  }

  /** Whether a way gives the first hash of a plain store. `digest`: before its span. */
  agrees(
    way: FoundWay,
    digest: Digest,
    event: StoreEvent,
    form: PublishedForm,
    lookaheadTokens: number,
  ): boolean {
    return this.gives(way.algorithm, digest, way.unitTokens, event, form, lookaheadTokens);
  }

  private found(way: FoundWay): FoundWay {
    this.last = way;
    return way;
  }

  /** Whether hashes of this event can be digests of the algorithm at all. */
  private fits(algorithm: HashAlgorithm, event: StoreEvent): boolean {
    const length = event.hashes[0]?.length ?? 0;
    return length === INTEGER_BYTES || length === digestBytesOf(algorithm);
  }

  /** Whether the first listed hash stands at an end of the span where this way gives it. */
  private gives(
    algorithm: HashAlgorithm,
    parent: Digest,
    unitTokens: number,
    event: StoreEvent,
    form: PublishedForm,
    lookaheadTokens: number,
  ): boolean {
    const { tokens, hashes, blockSizeTokens } = event;
    const hasher = this.hashers.get(algorithm);
    const first = hashes[0];
    if (hasher === undefined || first === undefined) return false;
    const isDense = hashes.length * blockSizeTokens === tokens.length;
    const reach = isDense ? blockSizeTokens : tokens.length;
    const most = Math.min(reach / unitTokens, LIMITS.hashSearchHashes.value);
    const ahead = lookaheadOf(event, isDense, reach);
    // Its own, not a scratch: no prompt outlives the call.
    const block: BlockTokens = { ...NO_BLOCK, tokens };
    let digest = parent;
    for (let unit = 0; unit < most; unit++) {
      block.from = unit * unitTokens;
      block.to = block.from + unitTokens;
      const isInside = block.to + lookaheadTokens <= tokens.length;
      block.ahead = isInside ? tokens : ahead;
      block.aheadFrom = isInside ? block.to : block.to - reach;
      block.aheadTo = block.aheadFrom + lookaheadTokens;
      if (block.aheadFrom < 0 || block.aheadTo > block.ahead.length) break;
      const computed = hasher.digest(digest, block, undefined);
      this.hashes += 1;
      if (computed === undefined) break;
      digest = computed;
      if (block.to % blockSizeTokens === 0 && publishedHash(digest, form) === first) return true;
    }
    return false;
  }
}

const INTEGER_BYTES = 8;

/** The form in which an event publishes hashes; undefined = it has none. */
export function publishedFormOf(event: StoreEvent): PublishedForm | undefined {
  const hash = event.hashes[0] ?? event.parent;
  if (hash === undefined) return undefined;
  return hash.length === INTEGER_BYTES ? "integer" : "bytes";
}

/** A published hash as a whole digest of an algorithm; undefined = it is not one. */
export function wholeDigest(hash: string, algorithm: HashAlgorithm): Digest | undefined {
  return isDigestOf(hash, algorithm) ? hash : undefined;
}

function lookaheadOf(event: StoreEvent, isDense: boolean, reach: number): ArrayLike<number> {
  const index = isDense ? reach / event.blockSizeTokens - 1 : event.hashes.length - 1;
  return event.lookaheadTokens?.[index] ?? NO_TOKENS;
}

/** More hash units than any engine has in one block: 256 / 4 in DeepSeek-V4, 1600 / 16 in large recurrent blocks. */
const MOST_UNITS_PER_BLOCK = 512;

/** Units worth trying: the stated one, or the divisors of the block size, the largest first. */
function unitsOf(event: StoreEvent, hint: UnitHint): readonly number[] {
  const { blockSizeTokens } = event;
  const { statedTokens } = hint;
  if (statedTokens !== undefined) {
    const perBlock = blockSizeTokens / statedTokens;
    return Number.isInteger(perBlock) && perBlock <= MOST_UNITS_PER_BLOCK ? [statedTokens] : [];
  }
  const units: number[] = [];
  for (let perBlock = 1; perBlock <= MOST_UNITS_PER_BLOCK; perBlock++) {
    if (blockSizeTokens % perBlock === 0) units.push(blockSizeTokens / perBlock);
  }
  return units;
}

function seedsOf(algorithm: HashAlgorithm, configured: string | undefined): readonly Seed[] {
  const seeds: Seed[] = [];
  const add = (origin: SeedOrigin, text: string): void => {
    const digest = seedDigest(algorithm, text);
    if (digest !== undefined) seeds.push({ origin, algorithm, digest });
  };
  if (configured !== undefined) {
    add("configured", configured);
    return seeds;
  }
  if (algorithm.startsWith("sha256")) add("default", DEFAULT_SEED_TEXT);
  for (const text of COMMON_SEED_TEXTS) add("common", text);
  return seeds;
}

function rankOf(seed: Seed): number {
  return seed.origin === "common" ? 1 : 0;
}
