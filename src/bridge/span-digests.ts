/**
 * What it is: the digests of the span that was walked last: the groups of an engine announce one span one after the other.
 * Owns: digests of one span, and what they depend on.
 * Refuses: a span that begins elsewhere, or that covers more than tokens: it is computed anew.
 * Does not do: hash. Where tokens differ from the span before, nothing after is taken from it.
 */
import type { BlockTokens } from "@kv-group-bridge/engine-hash";
import type { Digest } from "@kv-group-bridge/protocol";
import type { SpanInputs } from "./span-inputs.ts";
import type { StoreEvent } from "./vllm-event.ts";

/** What digests depend on, beside the tokens. */
export interface SpanOrigin {
  readonly event: StoreEvent;
  readonly inputs: SpanInputs;
  readonly digest: Digest | undefined;
  readonly lookaheadTokens: number;
  /** The span's tokens, and after them its look-ahead. */
  readonly ahead: Uint32Array;
}

const NO_TOKENS = new Uint32Array(0);

/** One a rank. Holds the tokens of one span, no longer than the next one needs. */
export class SpanDigests {
  /** Digests that were not computed because they were known. */
  savedHashes = 0;
  /** Digests that were computed. */
  computedHashes = 0;
  /** What walks have cost so far, in hashes of 64 tokens. */
  work = 0;
  private walked: SpanOrigin | undefined = undefined;
  private digests: Digest[] = [];
  private tokens: ArrayLike<number> = NO_TOKENS;
  private ahead: ArrayLike<number> = NO_TOKENS;
  private origin: string | undefined = undefined;
  /** Leading units of the span that is walked now whose digests are in the list. */
  private knownUnits = 0;
  private isEqual = false;

  /** A walk begins. */
  begin(span: SpanOrigin): void {
    const origin = originOf(span);
    this.walked = span;
    this.isEqual = origin !== undefined && origin === this.origin;
    this.knownUnits = 0;
    if (this.isEqual) return;
    this.forget(origin);
  }

  /** A walk goes on at a unit. Where another one came between, nothing is taken from the list or added to it. */
  resume(span: SpanOrigin, unit: number): void {
    if (this.walked === span) return;
    if (unit === 0) this.begin(span);
    else {
      this.forget(undefined);
      this.walked = span;
    }
  }

  /** The digest at the end of a unit, if the span before had the same tokens up to there. Units ascend. */
  find(unit: number, block: BlockTokens): Digest | undefined {
    if (!this.isEqual || unit !== this.knownUnits) return undefined;
    const digest = this.digests[unit];
    const isSame =
      digest !== undefined &&
      areEqual(this.tokens, block.tokens, block.from, block.to) &&
      areEqual(this.ahead, block.ahead, block.aheadFrom, block.aheadTo);
    if (!isSame) {
      // From here on it is another span.
      this.digests.length = unit;
      this.isEqual = false;
      this.tokens = block.tokens;
      this.ahead = block.ahead;
      return undefined;
    }
    this.knownUnits = unit + 1;
    this.savedHashes += 1;
    return digest;
  }

  /** The digest at the end of a unit of the span that is walked now, computed. */
  note(unit: number, block: BlockTokens, digest: Digest): void {
    this.computedHashes += 1;
    // A unit between that has no digest leaves what follows unproved.
    if (this.origin === undefined || unit !== this.knownUnits) return;
    this.isEqual = false;
    this.digests.length = unit;
    this.digests.push(digest);
    this.knownUnits = unit + 1;
    this.tokens = block.tokens;
    this.ahead = block.ahead;
  }

  /** Forgets the span: nothing of a prompt is kept longer than it is needed. */
  clear(): void {
    this.forget(undefined);
    this.walked = undefined;
  }

  /** Keeps what the walk that was interrupted has come to, and nothing of a span before it. */
  keepWalked(): void {
    const { walked } = this;
    if (walked === undefined || this.knownUnits === 0) {
      this.forget(this.origin);
      return;
    }
    this.digests.length = this.knownUnits;
    this.tokens = walked.event.tokens;
    this.ahead = walked.ahead;
    this.isEqual = false;
  }

  private forget(origin: string | undefined): void {
    this.origin = origin;
    this.digests = [];
    this.tokens = NO_TOKENS;
    this.ahead = NO_TOKENS;
    this.isEqual = false;
    this.knownUnits = 0;
  }
}

/** Spans with extra keys of single blocks are not kept. */
function originOf(span: SpanOrigin): string | undefined {
  const { event, inputs, digest, lookaheadTokens } = span;
  if (digest === undefined) return undefined;
  const isPlain = event.extraKeys?.every((keys) => keys === undefined) ?? true;
  if (!isPlain || event.loraName !== undefined || inputs.cacheSalt !== undefined) return undefined;
  return `${lookaheadTokens}/${digest}`;
}

function areEqual(a: ArrayLike<number>, b: ArrayLike<number>, from: number, to: number): boolean {
  if (a === b) return true;
  if (to > a.length) return false;
  for (let i = from; i < to; i++) if (a[i] !== b[i]) return false;
  return true;
}
