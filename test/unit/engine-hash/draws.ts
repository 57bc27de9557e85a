/**
 * What it is: the prompts that test/fixtures/make-engine-hash-vectors.py draws, drawn again in the same order.
 * Owns: the generator's state.
 * Refuses: nothing.
 * Does not do: hash.
 */
import type { HashedPrompt, PromptItem } from "../../../src/engine-hash/dist/index.js";

/** A prompt and how it is hashed. */
export interface DrawnPrompt extends HashedPrompt {
  readonly unitTokens: number;
  readonly lookaheadTokens: number;
  readonly loraPath: string | undefined;
}

const UNITS = [1, 2, 3, 4, 5, 16, 32, 64];
const LIMITS = [200, 256, 65_536, 2 ** 31, 2 ** 32];
const TAGS = ["lora", "cache_salt", "ā"];

/** xorshift32, as in the script. */
export class Draws {
  private state: number;

  constructor(seed: number) {
    this.state = seed;
  }

  prompt(lookaheads: readonly number[]): DrawnPrompt {
    const unitTokens = UNITS[this.below(8)] ?? 1;
    const tokens = this.tokens(this.below(5 * unitTokens + 12));
    const isLora = this.below(4) === 0;
    const loraName = isLora ? this.text() : undefined;
    const loraPath = isLora ? this.text() : undefined;
    const cacheSalt = this.below(4) === 0 ? this.text() : undefined;
    const items = this.items(unitTokens);
    const lookaheadTokens = lookaheads[this.below(lookaheads.length)] ?? 0;
    return { unitTokens, lookaheadTokens, tokens, loraName, loraPath, cacheSalt, items };
  }

  private next(): number {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x;
    return x >>> 0;
  }

  private below(count: number): number {
    return this.next() % count;
  }

  private text(): string {
    switch (this.below(9)) {
      case 0:
        return "";
      case 1:
        return String.fromCharCode(97 + this.below(3));
      case 2:
        return "é";
      case 3:
        return "mm";
      case 4:
        return "日本\u{1f600}";
      case 5:
        return "ab".repeat(32) + String(this.below(3));
      case 6:
        return "x".repeat(250 + this.below(12));
      case 7:
        return TAGS[this.below(3)] ?? "";
      default:
        return "é".repeat(120 + this.below(16));
    }
  }

  private tokens(count: number): number[] {
    const kind = this.below(5);
    return Array.from({ length: count }, () => {
      const id = this.next();
      return id % (LIMITS[kind === 4 ? this.below(5) : kind] ?? 1);
    });
  }

  private items(unitTokens: number): PromptItem[] {
    const count = this.below(3) === 0 ? 0 : this.below(6);
    const isOverlapping = this.below(4) === 0;
    const items: { identifier: string; offset: number; length: number }[] = [];
    let end = 0;
    for (let i = 0; i < count; i++) {
      const offset = isOverlapping
        ? this.below(4 * unitTokens + 4)
        : end + this.below(unitTokens + 2);
      const length = this.below(2 * unitTokens + 2);
      end = offset + length;
      items.push({ identifier: this.text(), offset, length });
    }
    return items;
  }
}
