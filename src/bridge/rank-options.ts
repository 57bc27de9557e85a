/**
 * What it is: what one rank's synchronous core is given.
 * Owns: the type, and what follows from it for the parts that may be missing.
 * Refuses: nothing.
 * Does not do: anything with it (rank-pipeline.ts does).
 */
import { type DpRank, type Epoch, type KeyedHasher, LIMITS } from "@kv-group-bridge/protocol";
import type { Checkpoint } from "./checkpoint-reader.ts";
import type { EngineConfig } from "./engine-config.ts";
import { EngineWords } from "./engine-words.ts";
import type { RankRepair } from "./gate-runner.ts";
import type { MirrorOptions } from "./mirror.ts";
import type { RankOutput } from "./rank-output.ts";
import { Recomputer, type RecomputerOptions } from "./recomputer.ts";

/** Takes a message for the log, with fields that never hold token ids or hashes. */
export type Report = (message: string, fields: Readonly<Record<string, unknown>>) => void;

/** What a rank needs from outside. */
export interface RankPipelineOptions {
  readonly dpRank: DpRank;
  readonly engine: EngineConfig;
  readonly hasher: KeyedHasher;
  /** Exact topic; undefined or "" = every topic. */
  readonly topic: string | undefined;
  readonly isEngineProjectionAllowed: boolean;
  /** Tokens are kept so that ENGINE has snapshots too; means nothing where ENGINE is not allowed. Default false. */
  readonly hasEngineSnapshot?: boolean | undefined;
  /** Bound of what is kept for that; default `LIMITS.engineWordsBytes`. */
  readonly engineWordsBytes?: number | undefined;
  readonly mintEpoch: () => Epoch;
  readonly emit: (output: RankOutput) => void;
  /** Told of every refusal, withdrawal and epoch, never with token ids; the caller limits the rate. */
  readonly report?: Report;
  /** Bounds of the mirror; default MIRROR_DEFAULTS with the engine's removal rule. */
  readonly mirror?: Partial<MirrorOptions>;
  /** Absent: no replay, and nothing waits. */
  readonly repair?: RankRepair;
  /** What an earlier process knew; it is taken up when the engine proves to be the same. */
  readonly checkpoint?: Checkpoint | undefined;
  /** False: this process stood still and does not know yet what its sockets have to tell. Default: always true. */
  readonly isAwake?: () => boolean;
  /** A store names a LoRA adapter whose path is not known. May be called often. */
  readonly onLoraPathWanted?: (loraName: string) => void;
  /** What a heartbeat says of engine and view has changed: subscribers should learn it now. */
  readonly onStatus?: () => void;
}

/** The engine's words that are kept for ENGINE snapshots; undefined = none are. */
export function engineWords(options: RankPipelineOptions): EngineWords | undefined {
  if (!options.isEngineProjectionAllowed || options.hasEngineSnapshot !== true) return undefined;
  return new EngineWords(options.engineWordsBytes ?? LIMITS.engineWordsBytes.value);
}

/** What finds out how the rank's engine names its blocks. */
export function makeRecomputer(
  options: RankPipelineOptions,
  parts: Pick<RecomputerOptions, "counters" | "refuse" | "report">,
): Recomputer {
  return new Recomputer({
    ...parts,
    config: options.engine.hashing,
    statedUnitTokens: options.engine.hashBlockSizeTokens,
    onLoraPathWanted: options.onLoraPathWanted,
  });
}
