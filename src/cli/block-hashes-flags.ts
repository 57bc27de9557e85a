/**
 * What it is: the options of `kvgroup block-hashes`, and the help that teaches them.
 * Owns: nothing.
 * Refuses: nothing (the command judges values).
 * Does not do: load what hashes.
 */
import { HASH_ALGORITHMS } from "@kv-group-bridge/protocol";
import type { Command } from "commander";

/** The command's options as given. */
export interface BlockHashesFlags {
  readonly algorithm: string;
  readonly seed?: string;
  readonly blockSize: string;
  readonly tokens?: string;
  readonly tokensFile?: string;
  readonly lora?: string;
  readonly loraPath?: string;
  readonly salt?: string;
  readonly untagged?: boolean;
  readonly lookahead: string;
  readonly json?: boolean;
}

const HELP = `
What comes out, one line for each whole block of --block-size tokens: where it ends, the hash as
an integer (what vLLM publishes by default), and the whole digest (what it publishes with
VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0). A block whose look-ahead tokens are not given has no line.

What to give:
  --algorithm   vLLM's --prefix-caching-hash-algo
  --seed        PYTHONHASHSEED as the engine sees it; left out for an engine without it. Engines
                before vLLM 0.29, and the xxhash algorithms, draw random bytes then: their hashes
                cannot be computed
  --block-size  H, the tokens of one hash: the block size of an engine with one cache group; with
                several their greatest common divisor, or --prefix-match-unit
  --lora-path   belongs to the hash from vLLM 0.31 on, though no event shows it
  --untagged    vLLM 0.19 to 0.30: extra keys without their tags; no --lora-path then
  --lookahead   tokens after a block that its hash covers as well: 1 for EAGLE and MTP from vLLM
                0.33 on, the number of draft tokens for an MTP of several modules

Example: the first block of an engine in its default configuration
  kvgroup block-hashes --block-size 4 --tokens 1,2,3,4`;

/** Adds the options and the longer help. */
export function addBlockHashesFlags(command: Command): void {
  command
    .option("--algorithm <name>", HASH_ALGORITHMS.join(", "), "sha256")
    .option("--seed <text>", "the engine's PYTHONHASHSEED; without it, as an engine without one")
    .requiredOption("--block-size <tokens>", "tokens of one hash")
    .option("--tokens <ids>", "token ids, with commas")
    .option("--tokens-file <file>", 'token ids as a JSON list; "-" = standard input')
    .option("--lora <name>", "LoRA adapter")
    .option("--lora-path <path>", "the path the engine loaded it from")
    .option("--salt <text>", "cache salt")
    .option("--untagged", "extra keys as before vLLM 0.31")
    .option("--lookahead <tokens>", "tokens of look-ahead hashing", "0")
    .option("--json", "one JSON object a block")
    .addHelpText("after", HELP);
}
