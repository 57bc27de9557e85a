/**
 * What it is: spans that wait to be recomputed, in the order in which they came, and those of one batch that are worth a
 * second try at its end.
 * Owns: the events of both, and how much waits.
 * Refuses: a span when too much waits; one more to be tried again at the bound. The caller counts.
 * Does not do: recompute.
 */
import { type BlockHash, LIMITS } from "@kv-group-bridge/protocol";
import type { StoreEvent } from "./vllm-event.ts";

/** A span with what its hashes depend on beside it. */
export interface WaitingSpan {
  readonly event: StoreEvent;
  /** L. */
  readonly lookaheadTokens: number;
}

/** What a span costs beside its tokens, in tokens: many short ones must not wait for nothing. */
const SPAN_TOKENS = 256;
const TOKENS_PER_HASH = 16;

/** First in, first out; the first one stays until it is done. */
export class SpanQueue {
  /** What waits, in tokens. */
  tokens = 0;
  private spans: WaitingSpan[] = [];
  private head = 0;
  private readonly maxTokens: number;

  constructor(maxTokens: number = LIMITS.hashBacklogTokens.value) {
    this.maxTokens = maxTokens;
  }

  /** The one whose turn it is. */
  get first(): WaitingSpan | undefined {
    return this.spans[this.head];
  }

  /** Puts a span at the end; false = too much waits. An empty queue takes every span. */
  push(span: WaitingSpan): boolean {
    const tokens = sizeOf(span.event);
    if (this.tokens > 0 && this.tokens + tokens > this.maxTokens) return false;
    this.tokens += tokens;
    this.spans.push(span);
    return true;
  }

  /** The first one is done. */
  shift(): void {
    const { first } = this;
    if (first === undefined) return;
    this.tokens -= sizeOf(first.event);
    this.head += 1;
    if (this.head < this.spans.length) return;
    this.spans = [];
    this.head = 0;
  }

  /** A batch ends: what is done is let go. */
  trim(): void {
    if (this.head === 0) return;
    this.spans = this.spans.slice(this.head);
    this.head = 0;
  }

  /** Nothing waits. */
  clear(): void {
    this.spans = [];
    this.head = 0;
    this.tokens = 0;
  }
}

/** What came of the first try. */
export interface FirstTry {
  /** A listed hash was reproduced: what was assumed of the span is right, and all of it was walked. */
  readonly isReproduced: boolean;
  /** Salts that were known for its begin; -1 = nothing could be tried. */
  readonly salts: number;
}

/** A store of the batch at hand that may tell more. */
interface Retry {
  readonly span: WaitingSpan;
  readonly isReproduced: boolean;
  salts: number;
  /** Its hashes before this one have their places. */
  at: number;
  /** What had been learnt when it was tried last. */
  learnt: number;
}

/** What a retry is judged by. */
export interface RetryHost {
  /** The hash is known and has no place. */
  isUnplaced(hash: BlockHash): boolean;
  /** The end of the hash is known, whether anything is held or not. */
  isAnchor(hash: BlockHash): boolean;
  /** How many salts a span that begins a prompt may have. */
  saltsOf(event: StoreEvent): number;
}

/** The stores of one batch that are tried again at its end. */
export class SpanRetries {
  private retries: Retry[] = [];

  /** A store is to be tried again; beyond the bound it is not. */
  add(span: WaitingSpan, first: FirstTry): void {
    if (this.retries.length >= LIMITS.hashRetryStores.value) return;
    this.retries.push({ span, ...first, at: 0, learnt: -1 });
  }

  /** Every store. */
  get events(): readonly StoreEvent[] {
    return this.retries.map(({ span }) => span.event);
  }

  /** Those that may tell more than when they were tried last. `learnt` grows with everything that was learnt. */
  due(learnt: number, host: RetryHost): readonly WaitingSpan[] {
    this.retries = this.retries.filter(
      (retry) => !retry.isReproduced || !hasAllPlaces(retry, host),
    );
    return this.retries.filter((retry) => isDue(retry, learnt, host)).map(({ span }) => span);
  }

  /** Forgets all of them. */
  clear(): void {
    this.retries = [];
  }
}

/** Notes the try as well. */
function isDue(retry: Retry, learnt: number, host: RetryHost): boolean {
  const { event } = retry.span;
  if (event.parent !== undefined && !host.isAnchor(event.parent)) return false;
  const salts = event.parent === undefined ? host.saltsOf(event) : 0;
  // A store without hashes confirms nothing: it is walked anew only under salts that were not known.
  const isNews = event.hashes.length === 0 ? salts > retry.salts : learnt !== retry.learnt;
  retry.salts = salts;
  retry.learnt = learnt;
  return isNews;
}

function hasAllPlaces(retry: Retry, host: RetryHost): boolean {
  const { hashes } = retry.span.event;
  for (; retry.at < hashes.length; retry.at++) {
    const hash = hashes[retry.at];
    if (hash !== undefined && host.isUnplaced(hash)) return false;
  }
  return true;
}

/** What keeping an event costs, in tokens. */
function sizeOf(event: StoreEvent): number {
  let characters = 0;
  for (const keys of event.extraKeys ?? []) {
    for (const key of keys ?? []) {
      if (key.type === "text") characters += key.value.length;
      else if (key.type === "item") characters += key.identifier.length;
      characters += TOKENS_PER_HASH;
    }
  }
  const { tokens, hashes, lookaheadTokens } = event;
  const ahead = (lookaheadTokens?.[0]?.length ?? 0) * hashes.length;
  return SPAN_TOKENS + tokens.length + ahead + TOKENS_PER_HASH * hashes.length + characters;
}
