/**
 * What it is: one store's span to be recomputed, under each of the assumptions that its event leaves open, one after the
 * other, in steps.
 * Owns: the assumptions, which of them is being walked, what was reproduced.
 * Refuses: a span without an anchor: it is done at once.
 * Does not do: record places (its host does), or decide when it runs.
 */
import {
  type BlockHash,
  type Digest,
  EXTRA_KEY_FORMS,
  type ExtraKeyForm,
  type KeyedHasher,
  LIMITS,
} from "@kv-group-bridge/protocol";
import type { Block } from "./block.ts";
import type { ProvenWay, Recomputer } from "./recomputer.ts";
import { isLocalGpu } from "./slot-table.ts";
import type { SpanDigests } from "./span-digests.ts";
import { shownSalt, showsKeys, spanInputs } from "./span-inputs.ts";
import { SpanWalk, type WalkTarget } from "./span-walk.ts";
import { hasExtraKeys, isPlainStore } from "./store-extras.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** An end that was computed. */
export interface ReachedEnd {
  readonly hash: BlockHash;
  readonly digest: Digest;
  readonly walk: SpanWalk;
  readonly isListed: boolean;
  /** The span ends here. */
  readonly isLast: boolean;
}

/** What a job works on. */
export interface JobHost {
  /** A computed end; `job.before` is the last block before it on the way. */
  reached(end: ReachedEnd, job: RecomputeJob): void;
  /** The digest of the block under a prefix key; undefined = none is known. */
  digestAt(keyLow: number, keyHigh: number): Digest | undefined;
}

/** What a job is made of. */
export interface JobOptions {
  readonly event: StoreEvent;
  /** The block of the event's parent hash, with its place; undefined = none is known. */
  readonly parent: Block | undefined;
  /** Its digest; undefined = not known. */
  readonly parentDigest: Digest | undefined;
  readonly lookaheadTokens: number;
  /** Salts that the prompt may have, when the event begins one and does not show it. */
  readonly salts: readonly string[];
  readonly way: ProvenWay;
  readonly recomputer: Recomputer;
  readonly hasher: KeyedHasher;
  readonly known: SpanDigests;
  readonly host: JobHost;
}

/** What is assumed of a span. */
interface Assumption {
  readonly form: ExtraKeyForm;
  readonly salt: string | undefined;
}

/** One store's recomputation. */
export class RecomputeJob implements WalkTarget {
  readonly event: StoreEvent;
  /** Last block of the mirror on the way: parent of what is reached next. */
  before: Block | undefined;
  /** As far as the event and its parent say, nothing but tokens is hashed. */
  private readonly isPlainAsShown: boolean;
  private readonly options: JobOptions;
  /** The parent's place as it was when the job began, of one moment with its digest. */
  private readonly parentWords: Uint32Array | undefined;
  private readonly startTokens: number;
  private readonly assumptions: readonly Assumption[];
  private readonly listed: ReadonlySet<BlockHash>;
  private at = 0;
  private walk: SpanWalk | undefined = undefined;
  private isWhole = false;
  private reproduced = 0;
  /** A listed hash was reproduced. */
  isReproduced = false;

  constructor(options: JobOptions) {
    const { event, parent } = options;
    this.options = options;
    this.event = event;
    this.before = parent;
    this.isPlainAsShown =
      (event.parent === undefined || parent?.isPlain === true) && isPlainStore(event);
    this.parentWords = parent?.stateWords?.slice();
    this.startTokens = event.parent === undefined ? 0 : (parent?.endTokens ?? 0);
    this.listed = new Set(event.hashes);
    this.assumptions = assumptionsOf(options);
    this.open();
  }

  /** Nothing is left to do. */
  get isDone(): boolean {
    return this.walk === undefined;
  }

  /** The salt under which it is walked now. */
  get cacheSalt(): string | undefined {
    return shownSalt(this.event) ?? this.assumptions[this.at]?.salt;
  }

  /** Nothing but tokens is hashed, under the assumption at hand. */
  get isPlain(): boolean {
    return this.isPlainAsShown && this.cacheSalt === undefined;
  }

  /** Goes on until `known.work` has come to `untilWork`. */
  step(untilWork: number): void {
    const { known } = this.options;
    while (this.walk !== undefined && known.work < untilWork) {
      this.walk.step(untilWork);
      if (this.walk.isDone) this.close(this.walk);
    }
  }

  reached(hash: BlockHash, digest: Digest, walk: SpanWalk, isLast: boolean): void {
    const isListed = this.listed.has(hash);
    if (isListed) this.reproduced += 1;
    this.options.host.reached({ hash, digest, walk, isListed, isLast }, this);
  }

  digestAt(keyLow: number, keyHigh: number): Digest | undefined {
    return this.options.host.digestAt(keyLow, keyHigh);
  }

  /** Begins the walk under the assumption at hand, or under the next one that can be walked. */
  private open(): void {
    this.walk = undefined;
    while (this.at < this.assumptions.length && this.walk === undefined) {
      this.walk = this.walkUnder(this.assumptions[this.at]);
      if (this.walk === undefined) this.at += 1;
    }
  }

  private close(walk: SpanWalk): void {
    const { recomputer, event } = this.options;
    const assumption = this.assumptions[this.at];
    if (this.reproduced > 0 && assumption !== undefined && hasExtras(event, assumption.salt)) {
      recomputer.extraKeysReproduced(assumption.form, event.loraName);
    }
    const isJudged = this.assumptions.length === 1 && this.isWhole && walk.isUnbroken;
    if (isJudged && this.reproduced < this.listed.size) recomputer.contradicted(event);
    this.isReproduced ||= this.reproduced > 0;
    this.at = this.reproduced > 0 ? this.assumptions.length : this.at + 1;
    this.reproduced = 0;
    this.before = this.options.parent;
    this.open();
  }

  private walkUnder(assumption: Assumption | undefined): SpanWalk | undefined {
    if (assumption === undefined) return undefined;
    const { event, way, recomputer, hasher, known, lookaheadTokens } = this.options;
    const { startTokens } = this;
    const { loraName } = event;
    const inputs = spanInputs(event, {
      startTokens,
      unitTokens: way.unitTokens,
      lookaheadTokens,
      form: assumption.form,
      loraPath: loraName === undefined ? undefined : recomputer.loraPath(loraName),
      assumedSalt: assumption.salt,
    });
    if (inputs === undefined) return undefined;
    const words =
      event.parent === undefined
        ? hasher.rootWords({ loraName, cacheSalt: inputs.cacheSalt })
        : this.parentWords;
    if (words === undefined) return undefined;
    // What other caches and other producers call their blocks says nothing of the engine's own way.
    this.isWhole = inputs.isWhole && isLocalGpu(event);
    return new SpanWalk({
      event,
      inputs,
      blockHasher: recomputer.hasher(way.algorithm, assumption.form),
      hasher,
      form: way.form,
      unitTokens: way.unitTokens,
      lookaheadTokens,
      words,
      startTokens,
      digest: event.parent === undefined ? way.rootDigest : this.options.parentDigest,
      known,
      target: this,
    });
  }
}

function hasExtras(event: StoreEvent, salt: string | undefined): boolean {
  return salt !== undefined || event.loraName !== undefined || hasExtraKeys(event);
}

/** Whether a span can be told by hashes of H tokens at all. */
export function isComputable(
  event: StoreEvent,
  unitTokens: number,
  lookaheadTokens: number,
): boolean {
  return (
    event.tokens.length >= unitTokens &&
    event.blockSizeTokens % unitTokens === 0 &&
    unitTokens + lookaheadTokens <= LIMITS.hashTokens.value
  );
}

/** Every combination worth trying; none when the span has no anchor. */
function assumptionsOf(options: JobOptions): readonly Assumption[] {
  const { event, parent, way, salts } = options;
  if (!isComputable(event, way.unitTokens, options.lookaheadTokens)) return [];
  if (event.parent !== undefined && parent?.isPlaced !== true) return [];
  // A prompt has one adapter from its first token on.
  if (parent !== undefined && parent.loraName !== event.loraName) return [];
  const mayBeSalted =
    event.parent === undefined && !showsKeys(event) && shownSalt(event) === undefined;
  const assumptions: Assumption[] = [];
  const open: readonly (string | undefined)[] = mayBeSalted ? [undefined, ...salts] : [undefined];
  for (const salt of open.slice(0, 1 + LIMITS.saltsPerPrompt.value)) {
    for (const form of formsOf(way, hasExtras(event, salt))) assumptions.push({ form, salt });
  }
  return assumptions;
}

function formsOf(way: ProvenWay, isNeeded: boolean): readonly ExtraKeyForm[] {
  if (!isNeeded) return ["tagged"];
  if (way.extraKeyForm !== undefined) return [way.extraKeyForm];
  return way.isExtraKeyFormRefuted ? [] : EXTRA_KEY_FORMS;
}
