/**
 * What it is: the rules of the seed of prefix keys, the same for bridge and gateway: where it comes
 * from, how long it must be, and what is read from a file.
 * Owns: the public seed.
 * Refuses: a short seed, and two sources at once. The seed itself never stands in a message.
 * Does not do: read files (the caller passes the text), or hash.
 */
import type { Result } from "./errors.ts";

/** For trials: everyone knows it, so keys under it are plain hashes of prompts. */
export const PUBLIC_SEED = "kvgroup-public-default-seed";

/** Characters. Shorter text is guessed too easily; 16 random bytes in hexadecimal have 32. */
export const SEED_MIN_CHARACTERS = 16;

/** What a program was given. */
export interface SeedSources {
  /** Written in the configuration. */
  readonly seed: string | undefined;
  /** Text of the file that the configuration names. */
  readonly fileText: string | undefined;
}

/** The seed, and whether it is the public one by default: worth a warning. */
export interface ChosenSeed {
  readonly seed: string;
  readonly isDefaulted: boolean;
}

/**
 * The seed. Of a file, one newline at its end (LF or CRLF) is not part of it: editors and `echo`
 * add one, secrets made otherwise have none, and both must give one key. No source at all gives the
 * public seed. The error is a sentence.
 */
export function chooseSeed(sources: SeedSources): Result<ChosenSeed, string> {
  if (sources.seed !== undefined && sources.fileText !== undefined) {
    return { ok: false, error: "keys.seed and keys.seed_file are both given" };
  }
  const seed = sources.seed ?? sources.fileText?.replace(/\r?\n$/, "");
  if (seed === undefined) return { ok: true, value: { seed: PUBLIC_SEED, isDefaulted: true } };
  if (seed.length < SEED_MIN_CHARACTERS) {
    const source = sources.seed === undefined ? "keys.seed_file" : "keys.seed";
    return { ok: false, error: `${source} has fewer than ${SEED_MIN_CHARACTERS} characters` };
  }
  return { ok: true, value: { seed, isDefaulted: false } };
}
