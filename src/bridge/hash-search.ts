/**
 * What it is: the search for the way in which an engine names its blocks: algorithm, seed and hash unit are tried on what
 * it publishes until one of them gives the very hash that was published.
 * Owns: the list of ways, how far it was tried, and how often.
 * Refuses: to take anything on trust: what is configured narrows the list, and is proved like everything else.
 * Does not do: keep on checking (recomputer.ts does), or read extra keys (its caller says what they are).
 */
import {
  BlockHasher,
  type BlockTokens,
  COMMON_SEED_TEXTS,
  DEFAULT_SEED_TEXT,
  hashWork,
  publishedHash,
  seedDigest,
} from "@kv-group-bridge/engine-hash";
import {
  type Digest,
  digestBytesOf,
  EXTRA_KEY_FORMS,
  type ExtraKeyForm,
  HASH_ALGORITHMS,
  type HashAlgorithm,
  isDigestOf,
  LIMITS,
  type SeedOrigin,
} from "@kv-group-bridge/protocol";
import type { HashingConfig } from "./engine-config.ts";
import { affordable, aheadOf, reachOf, type UnitHint, unitsOf } from "./search-units.ts";
import { INTEGER_BYTES, type SearchedStore } from "./searched-store.ts";
import { type SpanInputs, showsKeys } from "./span-inputs.ts";
import { lengthOf } from "./span-walk.ts";
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

type SortName = `${"root" | "below"}${"Shown" | "Hidden" | "Extra"}`;

/** What the search found, and under which form of extra keys. */
export interface Found {
  readonly way: FoundWay;
  readonly extraKeyForm: ExtraKeyForm;
}

/** Stores of one sort, and how often everything was tried on them. */
interface Sort {
  /** Of the seeds; where the next store goes on. */
  next: number;
  rounds: number;
  /** A store of this sort came. */
  isSeen: boolean;
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
  private readonly algorithms: readonly HashAlgorithm[];
  private readonly hashers = new Map<string, BlockHasher>();
  private readonly seeds: readonly Seed[];
  /** Where the stores show their extra keys, and where they do not: those of salted prompts fail every way. */
  private sorts: Readonly<Record<SortName, Sort>> = freshSorts();
  /** What this batch has cost, in hashes of 64 tokens. */
  private spent = 0;
  /** What this engine was found to do last: tried first when it begins anew. */
  private last: FoundWay | undefined = undefined;

  constructor(config: HashingConfig) {
    this.algorithms = config.algorithm === undefined ? HASH_ALGORITHMS : [config.algorithm];
    for (const algorithm of this.algorithms) {
      for (const form of EXTRA_KEY_FORMS) {
        this.hashers.set(`${algorithm}/${form}`, new BlockHasher(algorithm, form));
      }
    }
    this.seeds = this.algorithms.flatMap((algorithm) => seedsOf(algorithm, config.seedText));
    this.seeds = [...this.seeds].sort((a, b) => rankOf(a) - rankOf(b));
  }

  /** Everything was tried often enough on every sort of stores that came. */
  get isExhausted(): boolean {
    const seen = Object.values(this.sorts).filter(({ isSeen }) => isSeen);
    return seen.length > 0 && seen.every(isExhausted);
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

  /** Tries a store that begins a prompt; undefined = none of the ways tried gives its first hash. */
  tryRoot(store: SearchedStore, hint: UnitHint): Found | undefined {
    const { event, lookaheadTokens } = store;
    const units = affordable(unitsOf(event, hint), event, lookaheadTokens);
    if (units.length === 0 || !this.hasTime) return undefined;
    const { last } = this;
    if (last?.rootDigest !== undefined && units.includes(last.unitTokens)) {
      const extraKeyForm = this.gives(last.algorithm, last.rootDigest, last.unitTokens, store);
      if (extraKeyForm !== undefined) return { way: last, extraKeyForm };
    }
    const sort = this.sortOf(store);
    while (!isExhausted(sort) && this.hasTime) {
      const seed = this.seeds[sort.next];
      if (seed === undefined) {
        sort.next = 0;
        sort.rounds += 1;
        return undefined;
      }
      sort.next += 1;
      const { algorithm, digest, origin: seedOrigin } = seed;
      for (const unitTokens of units) {
        const extraKeyForm = this.gives(algorithm, digest, unitTokens, store);
        if (extraKeyForm === undefined) continue;
        sort.next = 0;
        return this.found({ algorithm, seedOrigin, rootDigest: digest, unitTokens }, extraKeyForm);
      }
    }
    return undefined;
  }

  /** Tries a store whose parent was published as a whole digest: the seed does not matter there. */
  tryBelow(store: SearchedStore, hint: UnitHint): Found | undefined {
    const { event, lookaheadTokens } = store;
    const { parent } = event;
    const sort = this.sortOf(store);
    if (parent === undefined || isExhausted(sort) || !this.hasTime) return undefined;
    const units = affordable(unitsOf(event, hint), event, lookaheadTokens);
    if (units.length === 0) return undefined;
    for (const algorithm of this.algorithms) {
      const digest = wholeDigest(parent, algorithm);
      if (digest === undefined) continue;
      for (const unitTokens of units) {
        const extraKeyForm = this.gives(algorithm, digest, unitTokens, store);
        if (extraKeyForm === undefined) continue;
        const seed = { seedOrigin: "unknown", rootDigest: undefined } as const;
        return this.found({ algorithm, ...seed, unitTokens }, extraKeyForm);
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

  /** Whether a way gives the first hash of a store. `digest`: before its span. */
  agrees(way: FoundWay, digest: Digest, store: SearchedStore): boolean {
    return this.gives(way.algorithm, digest, way.unitTokens, store) !== undefined;
  }

  private get hasTime(): boolean {
    return this.spent < LIMITS.hashSearchHashes.value;
  }

  private found(way: FoundWay, extraKeyForm: ExtraKeyForm): Found {
    this.last = way;
    return { way, extraKeyForm };
  }

  private sortOf({ event, extraKeyForms }: SearchedStore): Sort {
    const where = event.parent === undefined ? "root" : "below";
    const what = extraKeyForms.length > 1 ? "Extra" : showsKeys(event) ? "Shown" : "Hidden";
    const sort = this.sorts[`${where}${what}`];
    sort.isSeen = true;
    return sort;
  }

  /** The form of extra keys under which a way gives the first listed hash; undefined = none does. */
  private gives(
    algorithm: HashAlgorithm,
    parent: Digest,
    unitTokens: number,
    store: SearchedStore,
  ): ExtraKeyForm | undefined {
    const length = store.event.hashes[0]?.length ?? 0;
    if (length !== INTEGER_BYTES && length !== digestBytesOf(algorithm)) return undefined;
    return store.extraKeyForms.find((extraKeyForm) => {
      const hasher = this.hashers.get(`${algorithm}/${extraKeyForm}`);
      const inputs = store.inputs(extraKeyForm, unitTokens);
      if (hasher === undefined || inputs === undefined) return false;
      return this.reaches(hasher, parent, unitTokens, store, inputs);
    });
  }

  /** Whether the first listed hash stands at an end of the span where the digests from `parent` on lead to it. */
  private reaches(
    hasher: BlockHasher,
    parent: Digest,
    unitTokens: number,
    store: SearchedStore,
    inputs: SpanInputs,
  ): boolean {
    const { event, form, lookaheadTokens } = store;
    const { tokens, hashes, blockSizeTokens } = event;
    const reach = reachOf(event);
    const ahead = aheadOf(event, reach, lookaheadTokens);
    // Its own, not a scratch: no prompt outlives the call.
    const block: BlockTokens = { ...NO_BLOCK, tokens, ahead };
    let digest = parent;
    let to = unitTokens;
    for (let unit = 0; to + lookaheadTokens <= ahead.length && to <= reach; unit++) {
      block.from = to - unitTokens;
      block.to = to;
      block.aheadFrom = to;
      block.aheadTo = to + lookaheadTokens;
      const read = inputs.at(unit);
      const computed = read === undefined ? undefined : hasher.digest(digest, block, read.extras);
      this.hashes += 1;
      const extra = read === undefined ? 0 : lengthOf(read);
      this.spent += hashWork(unitTokens + lookaheadTokens + extra);
      // A check, which begins in time and costs no more than a batch may, is never cut short.
      if (this.spent >= 2 * LIMITS.hashSearchHashes.value) break;
      if (computed === undefined) break;
      digest = computed;
      if (to % blockSizeTokens === 0 && publishedHash(digest, form) === hashes[0]) return true;
      to += unitTokens;
    }
    return false;
  }
}

/** A published hash as a whole digest of an algorithm; undefined = it is not one. */
export function wholeDigest(hash: string, algorithm: HashAlgorithm): Digest | undefined {
  return isDigestOf(hash, algorithm) ? hash : undefined;
}

function freshSorts(): Readonly<Record<SortName, Sort>> {
  const fresh = (): Sort => ({ next: 0, rounds: 0, isSeen: false });
  return {
    rootShown: fresh(),
    rootHidden: fresh(),
    rootExtra: fresh(),
    belowShown: fresh(),
    belowHidden: fresh(),
    belowExtra: fresh(),
  };
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
