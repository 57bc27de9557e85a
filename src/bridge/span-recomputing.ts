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
import { isComputable, type JobHost, type ReachedEnd, RecomputeJob } from "./recompute-job.ts";
import type { ProvenWay } from "./recomputer.ts";
import { SpanDigests } from "./span-digests.ts";
import { shownSalt } from "./span-inputs.ts";
import { type RetryHost, SpanQueue, SpanRetries, type WaitingSpan } from "./span-queue.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What it works with. */
export interface SpanRecomputingOptions extends RecomputeRules {
  readonly hasher: KeyedHasher;
  readonly host: PlaceHost;
}

/** What it costs to begin with a span, in hashes, and how many listed hashes cost as much as one. */
const BEGIN_WORK = 1;
const LISTED_PER_WORK = 32;
/** What it costs to note an end that no event names. */
const END_WORK = 0.5;

/** One a mirror. */
export class SpanRecomputing implements JobHost, RetryHost {
  private droppedSpans = 0;
  private readonly options: SpanRecomputingOptions;
  private readonly fineEnds = new FineEnds();
  private readonly salts: RecentSalts;
  private readonly known = new SpanDigests();
  private readonly waiting = new SpanQueue();
  /** Of the first one that waits; undefined = it was not begun. */
  private job: RecomputeJob | undefined = undefined;
  private readonly retries = new SpanRetries();
  private untilWork: number = LIMITS.hashesPerBatch.value;
  /** The job that ended last has reproduced a listed hash. */
  private isReproduced = false;
  /** Grows with every place, end, digest and salt. */
  private learnt = 0;

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
      backlogTokens: this.waiting.tokens,
    };
  }

  /** H as proven; undefined = nothing is proven. */
  get unitTokens(): number | undefined {
    return this.options.recomputer.unitTokens;
  }

  /** Gives spans that told nothing a second try: the batch may have told more since. To be called at its end. */
  endBatch(): void {
    this.work();
    this.retry();
    this.retries.clear();
    this.untilWork = this.known.work + LIMITS.hashesPerBatch.value;
    this.options.recomputer.endBatch();
    this.waiting.trim();
    if (this.job === undefined) this.known.clear();
    else this.known.keepWalked();
  }

  /** Begins anew. `keepsPlaces`: the engine is the same one. */
  reset(keepsPlaces: boolean): void {
    this.drop();
    this.retries.clear();
    if (keepsPlaces) return;
    this.fineEnds.clear();
    this.salts.clear();
  }

  reached(end: ReachedEnd, job: RecomputeJob): void {
    const { host, recomputer } = this.options;
    const { hash, digest, walk, isListed, isLast } = end;
    const form = recomputer.proven?.form;
    // The place that a dense store claimed may be another one: what is proved here must not be mixed with it.
    const known = host.find(hash);
    if (known === undefined && !isListed) {
      const unit = recomputer.unitTokens ?? 0;
      if (isLast || this.options.keepsFineEnds(job.event, unit))
        this.addFineEnd(hash, digest, walk, job);
      return;
    }
    const block = known ?? host.obtain(hash);
    walk.finishKey();
    if (block.isPlaced) {
      if (!isPlaceOf(block, walk)) return;
    } else {
      this.fineEnds.delete(hash);
      this.learnt += 1;
      host.givePlace(block, {
        state: walk.state,
        keyLow: walk.keyLow,
        keyHigh: walk.keyHigh,
        before: job.before,
        loraName: job.event.loraName,
        isPlain: job.isPlain,
        blockSizeTokens: job.event.blockSizeTokens,
        by: "recomputed",
      });
    }
    if (form === "integer" && block.digest === undefined) {
      this.learnt += 1;
      host.giveDigest(block, digest);
    }
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
    if (unit !== undefined && !needsRecomputing(unit)) return;
    const span = { event, lookaheadTokens };
    if (unit !== undefined) {
      this.noteSalt(event, unit);
      this.isReproduced = false;
      this.add(span);
      this.work();
      // It comes to its turn with all that is known by then.
      if (this.waiting.first !== undefined) return;
    }
    const isTried =
      unit !== undefined && (event.parent === undefined || this.isAnchor(event.parent));
    this.retries.add(span, {
      isReproduced: isTried && this.isReproduced,
      salts: isTried ? this.saltsOf(event) : -1,
    });
  }

  saltsOf(event: StoreEvent): number {
    const unit = this.options.recomputer.unitTokens;
    if (unit === undefined || event.parent !== undefined) return 0;
    return this.salts.of(event.tokens, unit).length;
  }

  isUnplaced(hash: BlockHash): boolean {
    return this.options.host.find(hash)?.isPlaced === false;
  }

  isAnchor(hash: BlockHash): boolean {
    return this.placed(hash) !== undefined;
  }

  private retry(): void {
    const unit = this.options.recomputer.unitTokens;
    if (unit === undefined || !this.options.needsRecomputing(unit)) return;
    for (const event of this.retries.events) this.noteSalt(event, unit);
    for (let round = 0; round < LIMITS.hashRetryRounds.value; round++) {
      const due = this.retries.due(this.learnt, this);
      // Where something waits, there is no time for more.
      if (due.length === 0 || this.waiting.first !== undefined) return;
      for (const span of due) this.add(span);
      this.work();
    }
  }

  /** Puts a span in line. */
  private add({ event, lookaheadTokens }: WaitingSpan): void {
    const way = this.options.recomputer.proven;
    if (way === undefined || !isComputable(event, way.unitTokens, lookaheadTokens)) return;
    if (!this.waiting.push({ event, lookaheadTokens })) this.droppedSpans += 1;
  }

  private begin({ event, lookaheadTokens }: WaitingSpan, way: ProvenWay): RecomputeJob {
    const { recomputer, hasher } = this.options;
    const parent = event.parent === undefined ? undefined : this.placed(event.parent);
    this.known.work += BEGIN_WORK + event.hashes.length / LISTED_PER_WORK;
    return new RecomputeJob({
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
  }

  /** Goes on with what waits, in order, until the batch's budget is spent. */
  private work(): void {
    while (this.waiting.first !== undefined && this.known.work < this.untilWork) {
      const span = this.waiting.first;
      const way = this.options.recomputer.proven;
      if (way === undefined) {
        this.drop();
        return;
      }
      const job = this.job ?? this.begin(span, way);
      this.job = job;
      job.step(this.untilWork);
      if (!job.isDone) continue;
      this.job = undefined;
      this.isReproduced = job.isReproduced;
      this.waiting.shift();
    }
  }

  /** Nothing waits. */
  private drop(): void {
    this.waiting.clear();
    this.job = undefined;
    this.known.clear();
  }

  /** The block of a hash with its place: the mirror's, or an end that no event names. */
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
    if (this.fineEnds.has(hash)) return;
    this.learnt += 1;
    this.known.work += END_WORK;
    walk.finishKey();
    const { state, keyLow, keyHigh } = walk;
    const { loraName } = job.event;
    this.fineEnds.add(hash, { state, keyLow, keyHigh, digest, loraName, isPlain: job.isPlain });
  }

  private noteSalt(event: StoreEvent, unitTokens: number): void {
    const salt = event.parent === undefined ? shownSalt(event) : undefined;
    if (salt === undefined) return;
    if (this.salts.note(event.tokens, unitTokens, salt)) this.learnt += 1;
  }
}

/** The part of a walk that records need. */
type RecomputeWalk = ReachedEnd["walk"];

/** The end that a walk has reached is the block's place. */
function isPlaceOf(block: Block, { state, keyLow, keyHigh }: RecomputeWalk): boolean {
  return (
    block.endTokens === state.endTokens && block.keyLow === keyLow && block.keyHigh === keyHigh
  );
}

/** A block's whole digest; undefined = not known. */
function digestOf(block: Block, way: ProvenWay): Digest | undefined {
  return way.form === "bytes" ? wholeDigest(block.hash, way.algorithm) : block.digest;
}
