/**
 * What it is: `kvgroup block-hashes`: given these tokens, an engine of this configuration would name its blocks so. The aid for
 * checking an engine's configuration by hand.
 * Owns: nothing.
 * Refuses: options that do not make a scheme, tokens that are no token ids; no message holds a token.
 * Does not do: talk to an engine.
 */
import { readFileSync } from "node:fs";
import {
  type BlockDigest,
  blockHashes,
  DEFAULT_SEED_TEXT,
  publishedHash,
  seedDigest,
} from "@kv-group-bridge/engine-hash";
import {
  HASH_ALGORITHMS,
  type HashAlgorithm,
  type HashScheme,
  isUint32,
  KvEventsError,
} from "@kv-group-bridge/protocol";
import { z } from "zod";
import type { BlockHashesFlags } from "./block-hashes-flags.ts";

const NO_BLOCK = "no block: the tokens fill none, look-ahead included\n";

/** Prints the blocks; throws KvEventsError("config_invalid"). */
export function blockHashesCommand(flags: BlockHashesFlags): void {
  const lines = blockHashLines(flags, (path) => readFileSync(path === "-" ? 0 : path, "utf8"));
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
  // Said apart from what a program reads: nothing is a right answer.
  if (lines.length === 0) process.stderr.write(NO_BLOCK);
}

/** The lines to print. `readText` reads a file, "-" being standard input. Throws KvEventsError("config_invalid"). */
export function blockHashLines(
  flags: BlockHashesFlags,
  readText: (path: string) => string,
): readonly string[] {
  const scheme = schemeOf(flags);
  const lookaheadTokens = wholeNumber("--lookahead", flags.lookahead, 0);
  const tokens = tokensOf(flags, readText);
  const prompt = { tokens, loraName: flags.lora, cacheSalt: flags.salt, items: [] };
  const digests = blockHashes(prompt, scheme, lookaheadTokens);
  const blocks = Math.floor((tokens.length - lookaheadTokens) / scheme.unitTokens);
  if (digests.length < blocks) {
    throw invalid("a block cannot be computed: a text is not Unicode, or a block over 64 KiB");
  }
  return digests.map(flags.json === true ? jsonLine : textLine);
}

function textLine(block: BlockDigest): string {
  const { end, integer, hex } = formsOf(block);
  return `${String(end).padStart(8)}  ${integer.padStart(20)}  ${hex}`;
}

/** The integer is a text: it does not fit in a JSON number. */
function jsonLine(block: BlockDigest): string {
  return JSON.stringify(formsOf(block));
}

function formsOf({ endTokens, digest }: BlockDigest): {
  readonly end: number;
  readonly integer: string;
  readonly hex: string;
} {
  const low = Buffer.from(publishedHash(digest, "integer"), "latin1");
  const hex = Buffer.from(publishedHash(digest, "bytes"), "latin1").toString("hex");
  return { end: endTokens, integer: low.readBigUInt64BE().toString(), hex };
}

function schemeOf(flags: BlockHashesFlags): HashScheme {
  const algorithm = HASH_ALGORITHMS.find((name) => name === flags.algorithm);
  if (algorithm === undefined)
    throw invalid(`--algorithm: not one of ${HASH_ALGORITHMS.join(", ")}`);
  const isTagged = flags.untagged !== true;
  const { lora, loraPath } = flags;
  if (lora === undefined && loraPath !== undefined) throw invalid("--lora-path needs --lora");
  if (!isTagged && loraPath !== undefined)
    throw invalid("--lora-path: not part of an --untagged hash");
  if (isTagged && lora !== undefined && loraPath === undefined)
    throw invalid("--lora needs --lora-path, which is part of the hash (or --untagged)");
  const isPathGiven = lora !== undefined && loraPath !== undefined;
  return {
    algorithm,
    seedOrigin: "configured",
    rootDigest: rootOf(algorithm, flags.seed),
    unitTokens: wholeNumber("--block-size", flags.blockSize, 1),
    extraKeyForm: isTagged ? "tagged" : "untagged",
    loraPaths: new Map(isPathGiven ? [[lora, loraPath]] : []),
  };
}

function rootOf(algorithm: HashAlgorithm, seed: string | undefined): HashScheme["rootDigest"] {
  if (seed === undefined && algorithm.startsWith("xxhash"))
    throw invalid(
      `--seed: ${algorithm} begins with random bytes unless PYTHONHASHSEED is set: give it`,
    );
  const digest = seedDigest(algorithm, seed ?? DEFAULT_SEED_TEXT);
  if (digest === undefined) throw invalid("--seed: not Unicode, or over 64 KiB");
  return digest;
}

const tokenList = z.array(z.custom<number>(isUint32));

function tokensOf(
  { tokens, tokensFile }: BlockHashesFlags,
  readText: (path: string) => string,
): readonly number[] {
  if ((tokens === undefined) === (tokensFile === undefined))
    throw invalid("give --tokens or --tokens-file, one of them");
  const text = tokensFile === undefined ? `[${tokens}]` : readTokens(tokensFile, readText);
  const list = tokenList.safeParse(parseJson(text));
  if (list.success) return list.data;
  const flag = tokensFile === undefined ? "--tokens" : "--tokens-file";
  throw invalid(`${flag}: not a list of whole numbers up to 4294967295`);
}

function readTokens(path: string, readText: (path: string) => string): string {
  try {
    return readText(path);
  } catch (cause) {
    throw new KvEventsError("config_invalid", "--tokens-file: cannot be read", { cause });
  }
}

/** Undefined for what is no JSON; its error would show a piece of the text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function wholeNumber(flag: string, text: string, least: number): number {
  const value = /^\d{1,7}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least) return value;
  throw invalid(`${flag}: not a whole number from ${least} to 9999999`);
}

function invalid(message: string): KvEventsError {
  return new KvEventsError("config_invalid", message);
}
