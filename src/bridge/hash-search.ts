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
import { affordable, aheadOf, reachOf, type UnitHint, unitsOf } from "./search-units.ts";
import { showsKeys } from "./span-inputs.ts";
import { hashWork } from "./span-walk.ts";
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

type SortName = "rootShown" | "rootHidden" | "belowShown" | "belowHidden";

/** Stores of one sort, and how often everything was tried on them. */
interface Sort {
  /** Of the seeds; where the next store goes on. */
  next: number;
  rounds: number;
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
  /** Where the stores show their extra keys, and where they do not: those of salted prompts fail every way. */
  private sorts: Readonly<Record<SortName, Sort>> = freshSorts();
  /** What this batch has cost, in hashes of 64 tokens. */
  private spent = 0;
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

  /** Everything was tried often enough on one sort of stores. */
  get isExhausted(): boolean {
    return Object.values(this.sorts).some(isExhausted);
  }

  /** Leaves nothing of a prompt in any buffer, and the next batch may cost as much again. */
  endBatch(): void {
    this.spent = 0;
    for (const hasher of this.hashers.values()) hasher.wipe();
  }

  /** Begins anew: the engine is another one. */
  restart(): void {
    this.sorts = freshSorts();
  }

  /** Tries a plain store that begins a prompt; undefined = none of the ways tried gives its first hash. */
  tryRoot(
    event: StoreEvent,
    form: PublishedForm,
    hint: UnitHint,
    lookaheadTokens: number,
  ): FoundWay | undefined {
    const units = affordable(unitsOf(event, hint), event, lookaheadTokens);
    if (units.length === 0 || !this.hasTime) return undefined;
    const { last } = this;
    if (last?.rootDigest !== undefined && units.includes(last.unitTokens)) {
      const { algorithm, rootDigest, unitTokens } = last;
      const isSame =
        this.fits(algorithm, event) &&
        this.gives(algorithm, rootDigest, unitTokens, event, form, lookaheadTokens);
      if (isSame) return last;
    }
    const sort = this.sorts[showsKeys(event) ? "rootShown" : "rootHidden"];
    while (!isExhausted(sort) && this.hasTime) {
      const seed = this.seeds[sort.next];
      if (seed === undefined) {
        sort.next = 0;
        sort.rounds += 1;
        return undefined;
      }
      sort.next += 1;
      if (!this.fits(seed.algorithm, event)) continue;
      const { algorithm, digest } = seed;
      const unitTokens = units.find((unit) =>
        this.gives(algorithm, digest, unit, event, form, lookaheadTokens),
      );
      if (unitTokens === undefined) continue;
      sort.next = 0;
      return this.found({ algorithm, seedOrigin: seed.origin, rootDigest: digest, unitTokens });
    }
    return undefined;
  }

  /** Tries a plain store whose parent was published as a whole digest: the seed does not matter there. */
  tryBelow(event: StoreEvent, hint: UnitHint, lookaheadTokens: number): FoundWay | undefined {
    const { parent } = event;
    const sort = this.sorts[showsKeys(event) ? "belowShown" : "belowHidden"];
    if (parent === undefined || isExhausted(sort) || !this.hasTime) return undefined;
    const units = affordable(unitsOf(event, hint), event, lookaheadTokens);
    if (units.length === 0) return undefined;
    for (const algorithm of this.hashers.keys()) {
      const digest = wholeDigest(parent, algorithm);
      if (digest === undefined) continue;
      for (const unitTokens of units) {
        if (!this.gives(algorithm, digest, unitTokens, event, "bytes", lookaheadTokens)) continue;
        return this.found({ algorithm, seedOrigin: "unknown", rootDigest: undefined, unitTokens });
      }
    }
    sort.rounds += 1;
    return undefined;
  }

  /** Whether a dense store can tell if a way is right, and there is time for it in this batch. */
  canCheck(way: FoundWay, event: StoreEvent, lookaheadTokens: number): boolean {
    const { unitTokens } = way;
    if (!this.hasTime || event.blockSizeTokens % unitTokens !== 0) return false;
    return affordable([unitTokens], event, lookaheadTokens).length > 0;
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

  private get hasTime(): boolean {
    return this.spent < LIMITS.hashSearchHashes.value;
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
    const reach = reachOf(event);
    const ahead = aheadOf(event, reach, lookaheadTokens);
    // Its own, not a scratch: no prompt outlives the call.
    const block: BlockTokens = { ...NO_BLOCK, tokens, ahead };
    let digest = parent;
    for (
      let to = unitTokens;
      to + lookaheadTokens <= ahead.length && to <= reach;
      to += unitTokens
    ) {
      block.from = to - unitTokens;
      block.to = to;
      block.aheadFrom = to;
      block.aheadTo = to + lookaheadTokens;
      const computed = hasher.digest(digest, block, undefined);
      this.hashes += 1;
      this.spent += hashWork(unitTokens + lookaheadTokens);
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

function freshSorts(): Readonly<Record<SortName, Sort>> {
  const fresh = (): Sort => ({ next: 0, rounds: 0 });
  return { rootShown: fresh(), rootHidden: fresh(), belowShown: fresh(), belowHidden: fresh() };
}

function isExhausted(sort: Sort): boolean {
  return sort.rounds >= LIMITS.hashSearchRounds.value;
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
