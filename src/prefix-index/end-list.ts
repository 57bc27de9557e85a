/**
 * What it is: lists of ends, the only form in which the reuse rules see a cache.
 * Owns: growing buffers that are reused between queries.
 * Refuses: nothing; callers append ascending ends.
 * Does not do: sorting, removal.
 */

/**
 * Ends of one group in one prompt, in tokens: tokens[0 ... count - 1], ascending, without
 * duplicates.
 */
export interface EndList {
  readonly tokens: Uint32Array;
  readonly count: number;
}

const FIRST_CAPACITY = 64;

/** A reusable list. `tokens` is replaced when it grows and never shrinks. */
export class GrowingEndList implements EndList {
  tokens = new Uint32Array(0);
  count = 0;

  /** Makes room for `capacity` ends; keeps the present ones. */
  reserve(capacity: number): void {
    if (capacity <= this.tokens.length) return;
    const next = new Uint32Array(Math.max(FIRST_CAPACITY, capacity, this.tokens.length * 2));
    next.set(this.tokens);
    this.tokens = next;
  }
}

/**
 * The ends of one group of one rank while a prompt is walked. A full-attention group keeps only
 * what its rule can read: the unbroken chain from the root and the block after it.
 */
export class GroupEnds extends GrowingEndList {
  /** Block size in tokens when the chain counts, else 0. */
  private readonly chainBlockTokens: number;
  /** End of the unbroken chain of full blocks from the root, in tokens. */
  chainEndTokens = 0;

  constructor(chainBlockTokens: number) {
    super();
    this.chainBlockTokens = chainBlockTokens;
  }

  /** Forgets the ends, keeps the buffer. */
  restart(): void {
    this.count = 0;
    this.chainEndTokens = 0;
  }

  /** Takes first, first + unit ... last, all larger than what is held. */
  recordRun(firstEndTokens: number, lastEndTokens: number, unitTokens: number): void {
    this.reserve(this.count + (lastEndTokens - firstEndTokens) / unitTokens + 1);
    const { tokens, chainBlockTokens } = this;
    let { count, chainEndTokens } = this;
    for (let end = firstEndTokens; end <= lastEndTokens; end += unitTokens) {
      if (chainBlockTokens > 0) {
        const next = chainEndTokens + chainBlockTokens;
        if (end > next) break;
        if (end === next) chainEndTokens = next;
      }
      tokens[count] = end;
      count += 1;
    }
    this.count = count;
    this.chainEndTokens = chainEndTokens;
  }

  /** Whether an end at `endTokens` continues the unbroken chain or lies inside its next block. */
  isInReach(endTokens: number): boolean {
    return endTokens <= this.chainEndTokens + this.chainBlockTokens;
  }
}
