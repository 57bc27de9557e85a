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

/** A store of the batch at hand that may get more places. */
interface Retry {
  readonly span: WaitingSpan;
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
}

/** The stores of one batch that are tried again at its end. */
export class SpanRetries {
  private retries: Retry[] = [];

  /** A store is to be tried again; beyond the bound it is not. */
  add(span: WaitingSpan): void {
    if (this.retries.length >= LIMITS.hashRetryStores.value) return;
    this.retries.push({ span, at: 0, learnt: -1 });
  }

  /** Every store. */
  get events(): readonly StoreEvent[] {
    return this.retries.map(({ span }) => span.event);
  }

  /** Those that may get more places than when they were tried last. `learnt` grows with everything that was learnt. */
  due(learnt: number, host: RetryHost): readonly WaitingSpan[] {
    const due: WaitingSpan[] = [];
    const open: Retry[] = [];
    for (const retry of this.retries) {
      const { event } = retry.span;
      const isEmpty = event.hashes.length === 0;
      const hasAnchor = event.parent === undefined || host.isAnchor(event.parent);
      if (isEmpty && hasAnchor) due.push(retry.span);
      if (!isEmpty && isFinished(retry, host)) continue;
      if (!(isEmpty && hasAnchor)) open.push(retry);
      if (isEmpty || !hasAnchor || retry.learnt === learnt) continue;
      retry.learnt = learnt;
      due.push(retry.span);
    }
    this.retries = open;
    return due;
  }

  /** Forgets all of them. */
  clear(): void {
    this.retries = [];
  }
}

function isFinished(retry: Retry, host: RetryHost): boolean {
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
