/**
 * What it is: the salts of prompts that began lately, for stores of the same prompt that do not show theirs: a sparse
 * store says the salt only where the prompt's first block is kept.
 * Owns: a few salts for each begin, the oldest first. They are prompts' secrets: they go nowhere else.
 * Refuses: nothing; beyond the bounds the oldest is forgotten.
 * Does not do: say that a salt is right: only a reproduced hash does.
 */
import { type KeyedHasher, LIMITS, PLAIN, PrefixState } from "@kv-group-bridge/protocol";
import { keyText } from "./block.ts";

const NO_SALTS: readonly string[] = [];

/** One a rank. A begin is the key of a prompt's first H tokens. */
export class RecentSalts {
  private readonly byBegin = new Map<string, string[]>();
  private readonly plainRoot: Uint32Array;
  private readonly state = new PrefixState();

  constructor(hasher: KeyedHasher) {
    this.plainRoot = hasher.rootWords(PLAIN);
  }

  /** Begins in it. */
  get size(): number {
    return this.byBegin.size;
  }

  /** A prompt that begins with these tokens was salted so; true = that is news. */
  note(tokens: Uint32Array, unitTokens: number, salt: string): boolean {
    const begin = this.beginOf(tokens, unitTokens);
    const salts = this.byBegin.get(begin) ?? [];
    this.byBegin.delete(begin);
    this.byBegin.set(begin, salts);
    const isNews = !salts.includes(salt);
    if (isNews) salts.push(salt);
    if (salts.length > LIMITS.saltsPerPrompt.value) salts.shift();
    if (this.byBegin.size > LIMITS.recentSalts.value) {
      for (const oldest of this.byBegin.keys()) {
        this.byBegin.delete(oldest);
        break;
      }
    }
    return isNews;
  }

  /** Salts worth trying for a prompt that begins with these tokens. */
  of(tokens: Uint32Array, unitTokens: number): readonly string[] {
    if (this.byBegin.size === 0) return NO_SALTS;
    return this.byBegin.get(this.beginOf(tokens, unitTokens)) ?? NO_SALTS;
  }

  /** Forgets everything. */
  clear(): void {
    this.byBegin.clear();
  }

  private beginOf(tokens: Uint32Array, unitTokens: number): string {
    const { state } = this;
    state.load(this.plainRoot, 0, 0);
    state.absorb(tokens, 0, Math.min(unitTokens, tokens.length));
    state.finish();
    return keyText(state.keyLow, state.keyHigh);
  }
}
