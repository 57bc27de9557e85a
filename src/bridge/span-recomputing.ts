/**
 * What it is: the recomputing of an engine's own hashes over the spans of its stores, and what follows from it: places of
 * the hashes that were reproduced.
 * Owns: spans that wait, the batch's budget, ends that no event names, salts seen lately.
 * Refuses: to place anything by a hash that was not reproduced.
 * Does not do: find out how an engine hashes (recomputer.ts does), or keep places (place-book.ts does).
 */
import { type BlockHash, type Digest, type KeyedHasher, LIMITS } from "@kv-group-bridge/protocol";
import type { Block } from "./block.ts";
import { FineEnds } from "./fine-ends.ts";
import { wholeDigest } from "./hash-search.ts";
import type { PlaceHost, RecomputeRules, RecomputingCost } from "./place-types.ts";
import { RecentSalts } from "./recent-salts.ts";
import { type JobHost, type ReachedEnd, RecomputeJob } from "./recompute-job.ts";
import type { ProvenWay } from "./recomputer.ts";
import { SpanDigests } from "./span-digests.ts";
import { shownSalt } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What it works with. */
export interface SpanRecomputingOptions extends RecomputeRules {
  readonly hasher: KeyedHasher;
  readonly host: PlaceHost;
}

/** One a mirror. */
export class SpanRecomputing implements JobHost {
  private droppedSpans = 0;
  private readonly options: SpanRecomputingOptions;
  private readonly fineEnds = new FineEnds();
  private readonly salts: RecentSalts;
  private readonly known = new SpanDigests();
  private readonly waiting: RecomputeJob[] = [];
  private waitingTokens = 0;
  private retries: StoreEvent[] = [];
  private budget: number = LIMITS.hashesPerBatch.value;

  constructor(options: SpanRecomputingOptions) {
    this.options = options;
    this.salts = new RecentSalts(options.hasher);
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
    return this.options.recomputer.unitTokens;
  }

  /** Gives spans that told nothing a second try: the batch may have told more since. To be called at its end. */
  endBatch(lookaheadTokens: number): void {
    this.work();
    const { retries } = this;
    this.retries = [];
    const unit = this.options.recomputer.unitTokens;
    if (unit !== undefined) for (const event of retries) this.noteSalt(event, unit);
    for (const event of retries) {
      if (event.hashes.some((hash) => this.options.host.find(hash)?.isPlaced === false)) {
        this.begin(event, lookaheadTokens);
      }
    }
    this.work();
    this.budget = LIMITS.hashesPerBatch.value;
    this.options.recomputer.wipe();
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
    const form = recomputer.proven?.form;
    const known = host.find(hash);
    if (known === undefined && !isListed) {
      const unit = recomputer.unitTokens ?? 0;
      if (isLast || this.options.keepsFineEnds(job.event, unit))
        this.addFineEnd(hash, digest, walk, job);
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
    const way = this.options.recomputer.proven;
    return block === undefined || way === undefined ? undefined : digestOf(block, way);
  }

  /** A store, after its own word was heard. */
  store(event: StoreEvent, lookaheadTokens: number): void {
    const { recomputer, needsRecomputing } = this.options;
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
    const way = recomputer.proven;
    if (way === undefined) return;
    if (!this.options.needsRecomputing(way.unitTokens)) return;
    const parent = event.parent === undefined ? undefined : this.placed(event.parent);
    const job = new RecomputeJob({
      event,
      parent,
      parentDigest: parent === undefined ? undefined : digestOf(parent, way),
      lookaheadTokens,
      salts: event.parent === undefined ? this.salts.of(event.tokens, way.unitTokens) : [],
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

  private addFineEnd(
    hash: BlockHash,
    digest: Digest,
    walk: RecomputeWalk,
    job: RecomputeJob,
  ): void {
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
    if (salt !== undefined) this.salts.note(event.tokens, unitTokens, salt);
  }
}

/** The part of a walk that records need. */
type RecomputeWalk = ReachedEnd["walk"];

/** A block's whole digest; undefined = not known. */
function digestOf(block: Block, way: ProvenWay): Digest | undefined {
  return way.form === "bytes" ? wholeDigest(block.hash, way.algorithm) : block.digest;
}
