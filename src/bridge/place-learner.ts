/**
 * What it is: the learning of places from stores: from what an event says by itself, and from the engine's own hashes
 * computed over its span.
 * Owns: spans that wait to be recomputed, ends that no event names, salts seen lately.
 * Refuses: a second place for a hash (place_contradicts). Nothing is placed by a hash that was not reproduced.
 * Does not do: count copies or tell the stream (the mirror does), or find out how an engine hashes (recomputer.ts does).
 */
import {
  type BlockHash,
  type Digest,
  type KeyedHasher,
  LIMITS,
  PLAIN,
  PrefixState,
  type RefusalReason,
} from "@kv-group-bridge/protocol";
import { type Block, keyText } from "./block.ts";
import { FineEnds } from "./fine-ends.ts";
import { wholeDigest } from "./hash-search.ts";
import type { Placement } from "./placement.ts";
import { RecentSalts } from "./recent-salts.ts";
import { type JobHost, type ReachedEnd, RecomputeJob } from "./recompute-job.ts";
import type { ProvenWay, Recomputer } from "./recomputer.ts";
import { SpanDigests } from "./span-digests.ts";
import { shownSalt } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** How a place was learnt. */
export type PlacedBy = "dense" | "recomputed";

/** A place to give. */
export interface NewPlace {
  readonly state: PrefixState;
  readonly keyLow: number;
  readonly keyHigh: number;
  /** The block before it. */
  readonly before: Block | undefined;
  readonly loraName: string | undefined;
  readonly isPlain: boolean;
  readonly blockSizeTokens: number;
  readonly by: PlacedBy;
}

/** The mirror, as far as places concern it. */
export interface PlaceHost {
  /** A known block. */
  find(hash: BlockHash): Block | undefined;
  /** A block, known or new. */
  obtain(hash: BlockHash): Block;
  /** The block under a prefix key. */
  under(keyLow: number, keyHigh: number): Block | undefined;
  /** A block gets its place; it had none. */
  givePlace(block: Block, place: NewPlace): void;
  /** A block's digest is known now. */
  giveDigest(block: Block, digest: Digest): void;
  refused(reason: RefusalReason): void;
}

/** What recomputing costs, in total and now. */
export interface RecomputingCost {
  /** Digests computed for places. */
  readonly hashes: number;
  /** Digests that the span before had in common. */
  readonly savedHashes: number;
  /** Spans that were not recomputed because too much waited. */
  readonly droppedSpans: number;
  /** Tokens of spans that wait. */
  readonly backlogTokens: number;
}

/** When an engine's hashes are recomputed. */
export interface RecomputeRules {
  readonly recomputer: Recomputer;
  /** Whether sparse stores of this engine may hold what no dense store places, given H. */
  readonly needsRecomputing: (unitTokens: number) => boolean;
  /** Whether ends inside blocks may be named as parents: partial entries and spans of groups without a dense one. */
  readonly keepsFineEnds: (event: StoreEvent, unitTokens: number) => boolean;
}

/** What a learner works with. */
export interface PlaceLearnerOptions extends Omit<RecomputeRules, "recomputer"> {
  readonly placement: Placement;
  readonly hasher: KeyedHasher;
  readonly host: PlaceHost;
  /** Undefined = nothing is recomputed. */
  readonly recomputer: Recomputer | undefined;
}

/** What one store's event told by itself. */
export interface LearntPlaces {
  /** Hashes, from the first on, that contradict no place. */
  readonly soundCount: number;
  /** Hashes, from the first on, that the event itself placed, now or before. */
  readonly denseCount: number;
}

/** One a mirror. */
export class PlaceLearner implements JobHost {
  private droppedSpans = 0;
  private readonly options: PlaceLearnerOptions;
  private readonly fineEnds = new FineEnds();
  private readonly salts = new RecentSalts();
  private readonly known = new SpanDigests();
  private readonly plainRoot: Uint32Array;
  private readonly beginState = new PrefixState();
  private readonly waiting: RecomputeJob[] = [];
  private waitingTokens = 0;
  private retries: StoreEvent[] = [];
  private budget: number = LIMITS.hashesPerBatch.value;

  constructor(options: PlaceLearnerOptions) {
    this.options = options;
    this.plainRoot = options.hasher.rootWords(PLAIN);
  }

  /** What it has cost. */
  get cost(): RecomputingCost {
    return {
      hashes: this.known.computedHashes,
      savedHashes: this.known.savedHashes,
      droppedSpans: this.droppedSpans,
      backlogTokens: this.waitingTokens,
    };
  }

  /** H as proven; undefined = nothing is proven. */
  get unitTokens(): number | undefined {
    return this.options.recomputer?.unitTokens;
  }

  /** Learns what a store tells. `parent`: the mirror's block of its parent hash. */
  learn(event: StoreEvent, parent: Block | undefined, lookaheadTokens: number, isPlain: boolean): LearntPlaces {
    const learnt = this.readDense(event, parent, lookaheadTokens, isPlain);
    this.recompute(event, lookaheadTokens);
    return learnt;
  }

  /** Gives spans that told nothing a second try: the batch may have told more since. To be called at its end. */
  endBatch(lookaheadTokens: number): void {
    this.work();
    const { retries } = this;
    this.retries = [];
    const unit = this.options.recomputer?.unitTokens;
    if (unit !== undefined) for (const event of retries) this.noteSalt(event, unit);
    for (const event of retries) {
      if (event.hashes.some((hash) => this.options.host.find(hash)?.isPlaced === false)) {
        this.begin(event, lookaheadTokens);
      }
    }
    this.work();
    this.budget = LIMITS.hashesPerBatch.value;
    if (this.waiting.length === 0) this.known.clear();
  }

  /** Begins anew. `keepsPlaces`: the engine is the same one. */
  reset(keepsPlaces: boolean): void {
    this.waiting.length = 0;
    this.waitingTokens = 0;
    this.retries = [];
    this.known.clear();
    if (keepsPlaces) return;
    this.fineEnds.clear();
    this.salts.clear();
  }

  reached(end: ReachedEnd, job: RecomputeJob): void {
    const { host, recomputer } = this.options;
    const { hash, digest, walk, isListed, isLast } = end;
    const form = recomputer?.proven?.form;
    const known = host.find(hash);
    if (known === undefined && !isListed) {
      const unit = recomputer?.unitTokens ?? 0;
      if (isLast || this.options.keepsFineEnds(job.event, unit)) this.addFineEnd(hash, digest, walk, job);
      return;
    }
    const block = known ?? host.obtain(hash);
    if (block.isPlaced) {
      if (block.endTokens !== walk.state.endTokens) return;
    } else {
      this.fineEnds.delete(hash);
      walk.finishKey();
      host.givePlace(block, {
        state: walk.state,
        keyLow: walk.keyLow,
        keyHigh: walk.keyHigh,
        before: job.before,
        loraName: job.event.loraName,
        isPlain: this.isPlain(job),
        blockSizeTokens: job.event.blockSizeTokens,
        by: "recomputed",
      });
    }
    if (form === "integer" && block.digest === undefined) host.giveDigest(block, digest);
    job.before = block;
  }

  digestAt(keyLow: number, keyHigh: number): Digest | undefined {
    const block = this.options.host.under(keyLow, keyHigh);
    const way = this.options.recomputer?.proven;
    return block === undefined || way === undefined ? undefined : digestOf(block, way);
  }

  /** Records the places that a dense store tells by itself. */
  private readDense(
    event: StoreEvent,
    parent: Block | undefined,
    lookaheadTokens: number,
    isPlain: boolean,
  ): LearntPlaces {
    const { placement, host } = this.options;
    let soundCount = event.hashes.length;
    let denseCount = 0;
    let before = parent;
    placement.walk(event, parent, lookaheadTokens, (index, state, keyLow, keyHigh) => {
      const hash = event.hashes[index];
      if (hash === undefined) return false;
      const block = host.obtain(hash);
      if (block.isPlaced) {
        const isSame =
          block.endTokens === state.endTokens &&
          block.keyLow === keyLow &&
          block.keyHigh === keyHigh;
        if (isSame) denseCount = index + 1;
        else {
          host.refused("place_contradicts");
          soundCount = index;
        }
        before = block;
        return isSame;
      }
      const { loraName, blockSizeTokens } = event;
      host.givePlace(block, { state, keyLow, keyHigh, before, loraName, isPlain, blockSizeTokens, by: "dense" });
      denseCount = index + 1;
      before = block;
      return true;
    });
    return { soundCount, denseCount };
  }

  private recompute(event: StoreEvent, lookaheadTokens: number): void {
    const { recomputer, needsRecomputing } = this.options;
    if (recomputer === undefined) return;
    const unitBefore = recomputer.unitTokens;
    const isNeeded = unitBefore !== undefined && needsRecomputing(unitBefore);
    recomputer.see(event, lookaheadTokens, isNeeded);
    if (event.tokens.length === 0) return;
    const unit = recomputer.unitTokens;
    if (unit === undefined) {
      this.retryLater(event);
      return;
    }
    if (!needsRecomputing(unit)) return;
    this.noteSalt(event, unit);
    this.begin(event, lookaheadTokens);
    this.work();
    this.retryLater(event);
  }

  /** What is still without a place may have one when the batch is read. */
  private retryLater(event: StoreEvent): void {
    if (event.hashes.length === 0 || this.retries.length >= LIMITS.hashRetryStores.value) return;
    this.retries.push(event);
  }

  private begin(event: StoreEvent, lookaheadTokens: number): void {
    const { recomputer, hasher } = this.options;
    const way = recomputer?.proven;
    if (recomputer === undefined || way === undefined) return;
    if (!this.options.needsRecomputing(way.unitTokens)) return;
    const parent = event.parent === undefined ? undefined : this.placed(event.parent);
    const job = new RecomputeJob({
      event,
      parent,
      parentDigest: parent === undefined ? undefined : digestOf(parent, way),
      lookaheadTokens,
      salts: this.saltsOf(event, way.unitTokens),
      way,
      recomputer,
      hasher,
      known: this.known,
      host: this,
    });
    if (job.isDone) return;
    if (this.waitingTokens + event.tokens.length > LIMITS.hashBacklogTokens.value) {
      this.droppedSpans += 1;
      return;
    }
    this.waiting.push(job);
    this.waitingTokens += event.tokens.length;
  }

  /** Goes on with what waits, in order, until the batch's budget is spent. */
  private work(): void {
    while (this.budget > 0) {
      const job = this.waiting[0];
      if (job === undefined) return;
      const before = this.known.computedHashes;
      job.step(this.budget);
      this.budget -= this.known.computedHashes - before;
      if (!job.isDone) continue;
      this.waiting.shift();
      this.waitingTokens -= job.event.tokens.length;
    }
  }

  private placed(hash: BlockHash): Block | undefined {
    const block = this.options.host.find(hash);
    return block?.isPlaced === true ? block : this.fineEnds.find(hash);
  }

  private addFineEnd(hash: BlockHash, digest: Digest, walk: RecomputeWalk, job: RecomputeJob): void {
    const block = this.fineEnds.add(hash);
    if (block.isPlaced) return;
    walk.finishKey();
    block.place(walk.state, walk.keyLow, walk.keyHigh, job.event.loraName);
    block.isPlain = this.isPlain(job);
    block.digest = digest;
  }

  private isPlain(job: RecomputeJob): boolean {
    const { event } = job;
    return (
      job.isPlainSoFar &&
      event.loraId === undefined &&
      event.loraName === undefined &&
      job.cacheSalt === undefined &&
      (event.lookaheadTokens?.length ?? 0) === 0 &&
      (event.extraKeys?.every((keys) => keys === undefined) ?? true)
    );
  }

  private noteSalt(event: StoreEvent, unitTokens: number): void {
    const salt = event.parent === undefined ? shownSalt(event) : undefined;
    if (salt !== undefined) this.salts.note(this.beginOf(event, unitTokens), salt);
  }

  private saltsOf(event: StoreEvent, unitTokens: number): readonly string[] {
    if (event.parent !== undefined || this.salts.size === 0) return [];
    return this.salts.of(this.beginOf(event, unitTokens));
  }

  private beginOf(event: StoreEvent, unitTokens: number): string {
    const { beginState } = this;
    beginState.load(this.plainRoot, 0, 0);
    beginState.absorb(event.tokens, 0, Math.min(unitTokens, event.tokens.length));
    beginState.finish();
    return keyText(beginState.keyLow, beginState.keyHigh);
  }
}

/** The part of a walk that records need. */
type RecomputeWalk = ReachedEnd["walk"];

/** A block's whole digest; undefined = not known. */
function digestOf(block: Block, way: ProvenWay): Digest | undefined {
  return way.form === "bytes" ? wholeDigest(block.hash, way.algorithm) : block.digest;
}
