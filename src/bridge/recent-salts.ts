/**
 * What it is: the salts of prompts that began lately, for stores of the same prompt that do not show theirs: a sparse
 * store says the salt only where the prompt's first block is kept.
 * Owns: a few salts for each begin, the oldest first. They are prompts' secrets: they go nowhere else.
 * Refuses: nothing; beyond the bounds the oldest is forgotten.
 * Does not do: say that a salt is right: only a reproduced hash does.
 */
import { LIMITS } from "@kv-group-bridge/protocol";

const NO_SALTS: readonly string[] = [];

/** One a rank. A begin is any text that stands for a prompt's first tokens. */
export class RecentSalts {
  private readonly byBegin = new Map<string, string[]>();

  /** Begins in it. */
  get size(): number {
    return this.byBegin.size;
  }

  /** A prompt that begins so was salted so. */
  note(begin: string, salt: string): void {
    const salts = this.byBegin.get(begin) ?? [];
    this.byBegin.delete(begin);
    this.byBegin.set(begin, salts);
    if (!salts.includes(salt)) salts.push(salt);
    if (salts.length > LIMITS.saltsPerPrompt.value) salts.shift();
    if (this.byBegin.size <= LIMITS.recentSalts.value) return;
    for (const oldest of this.byBegin.keys()) {
      this.byBegin.delete(oldest);
      break;
    }
  }

  /** Salts worth trying. */
  of(begin: string): readonly string[] {
    return this.byBegin.get(begin) ?? NO_SALTS;
  }

  /** Forgets everything. */
  clear(): void {
    this.byBegin.clear();
  }
}
