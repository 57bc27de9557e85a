/**
 * What it is: the notation of a neighbouring gateway's group-cache cases, played as vLLM events:
 * keys are 8-byte numbers, R a root store, C one block below a parent, rem a removal.
 * Owns: one engine rank, its bridge and a gateway in one process per SmgWorker.
 * Refuses: nothing; cases send broken events on purpose.
 * Does not do: judge. Every batch and every question audits mirror and index, and a gateway that
 * joins at that moment must give the same number.
 */
import {
  type EngineConfig,
  RankPipeline,
  type RankPipelineOptions,
  UNSTATED_ENGINE,
} from "../../src/bridge/dist/index.js";
import { InProcessPath } from "../../src/cli/dist/in-process-path.js";
import type { Query, RankAnswer } from "../../src/gateway/dist/index.js";
import { type Epoch, KeyedHasher, parseDpRank, parseEpoch } from "../../src/protocol/dist/index.js";
import { encodeWire, sequenceFrame, tokens, type WireFields } from "./wire-builder.ts";

export const SMG_SEED = "neighbour's cases: a seed";
const TOPIC = new TextEncoder().encode("kv-events");

/** vLLM's kinds by the short names of the cases; other names stand for themselves. */
const KINDS: Readonly<Record<string, string>> = {
  full: "full_attention",
  mla: "mla_attention",
  swa: "sliding_window",
};

/** What a key may be on the wire. */
export type WireHash = number | bigint | Uint8Array;

/** The key of the end e: 8 bytes big-endian, as vLLM's integer hashes are read. */
export function key(end: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(end));
  return bytes;
}

/** first … last, both included. */
export function span(first: number, last: number): readonly number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
}

/** first, first + step … last. */
export function every(step: number, last: number, first = step): readonly number[] {
  return span(0, Math.floor((last - first) / step)).map((index) => first + index * step);
}

function blockStored(
  [group, kind, window]: readonly [group: number, kind: string, window: number],
  fields: WireFields,
): WireFields {
  return {
    type: "BlockStored",
    parent_block_hash: null,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    group_idx: group,
    kv_cache_spec_kind: KINDS[kind] ?? kind,
    kv_cache_spec_sliding_window: window === 0 ? null : window,
    ...fields,
  };
}

/** R(g, kind, w, span, ends, through): a store from the root; sparse unless ends x span = through. */
export function R(
  group: number,
  kind: string,
  window: number,
  size: number,
  ends: readonly number[],
  through: number,
  more: WireFields = {},
): WireFields {
  return blockStored([group, kind, window], {
    block_hashes: ends.map(key),
    token_ids: tokens(through),
    block_size: size,
    ...more,
  });
}

/** C(g, kind, w, s, e): the block s+1 … e below key(s); s = 0 is the root. */
export function C(
  group: number,
  kind: string,
  window: number,
  start: number,
  end: number,
  more: WireFields = {},
): WireFields {
  return blockStored([group, kind, window], {
    block_hashes: [key(end)],
    parent_block_hash: start === 0 ? null : key(start),
    token_ids: span(start + 1, end),
    block_size: end - start,
    ...more,
  });
}

/** A removal in one group. */
export function rem(group: number, ends: readonly number[], more: WireFields = {}): WireFields {
  return {
    type: "BlockRemoved",
    block_hashes: ends.map(key),
    medium: "GPU",
    group_idx: group,
    ...more,
  };
}

/** AllBlocksCleared. */
export const CLEAR: WireFields = { type: "AllBlocksCleared" };

/** What becomes INVALID at the neighbour: a store that cannot be read. */
export const INVALID: WireFields = R(-1, "full", 0, 2, [2], 2);

/** 1 … n, the question q(n). */
export const q = tokens;

let stamps = 0;

/** A batch as vLLM sends it; the time stamp never repeats, so that payloads differ. */
export function batchOf(events: readonly unknown[], dpRank: unknown = 0): readonly unknown[] {
  stamps += 1;
  return [stamps + 0.25, events, dpRank];
}

/** One multipart as received. */
export function framesOf(sequence: number | bigint, value: unknown): readonly Uint8Array[] {
  return [TOPIC, sequenceFrame(BigInt(sequence)), encodeWire(value)];
}

/** The data-parallel rank of a number. */
export function rankOf(value: number): NonNullable<ReturnType<typeof parseDpRank>> {
  const rank = parseDpRank(value);
  if (rank === undefined) throw new RangeError("not a rank");
  return rank;
}

/** Epochs 1, 2, 3 … */
export function epochMint(): () => Epoch {
  let minted = 0n;
  return () => {
    minted += 1n;
    const epoch = parseEpoch(minted);
    if (epoch === undefined) throw new RangeError("not an epoch");
    return epoch;
  };
}

/** A pipeline by itself, nothing stated, rank 0. */
export function pipelineOf(options: Partial<RankPipelineOptions> = {}): RankPipeline {
  return new RankPipeline({
    dpRank: rankOf(0),
    engine: UNSTATED_ENGINE,
    hasher: new KeyedHasher(SMG_SEED),
    topic: undefined,
    isEngineProjectionAllowed: false,
    mintEpoch: epochMint(),
    emit: () => {},
    ...options,
  });
}

/** One worker of the cases: an engine of which nothing is stated. */
export class SmgWorker {
  readonly path: InProcessPath;

  constructor(engine: EngineConfig = UNSTATED_ENGINE, dpRank = 0) {
    this.path = new InProcessPath({ dpRank: rankOf(dpRank), engine, seed: SMG_SEED });
  }

  /** One batch with the engine's number. */
  batch(sequence: number | bigint, ...events: readonly unknown[]): void {
    this.frames(framesOf(sequence, batchOf(events)));
  }

  /** One multipart. */
  frames(frames: readonly Uint8Array[]): void {
    this.path.receive(frames);
    this.path.pipeline.audit();
    this.path.gateway.audit();
  }

  /** Reusable tokens of a prompt. Throws when a gateway that joins now says another number. */
  score(prompt: readonly number[], namespace: Omit<Query, "tokens"> = {}): number {
    return this.answer(prompt, namespace).reusableTokens;
  }

  /** The whole answer. */
  answer(prompt: readonly number[], namespace: Omit<Query, "tokens"> = {}): RankAnswer {
    const query = { tokens: prompt, ...namespace };
    const answer = this.path.score(query);
    const late = this.path.join();
    late.drain();
    const lateTokens = late.score(query).reusableTokens;
    late.gateway.close();
    if (lateTokens !== answer.reusableTokens) {
      throw new Error(`late ${lateTokens}, from the start ${answer.reusableTokens}`);
    }
    return answer;
  }

  /** q(n): reusable tokens of 1 … n. */
  q(length: number): number {
    return this.score(tokens(length));
  }

  counter(name: string): number {
    return this.path.pipeline.counters().get(name) ?? 0;
  }

  /** Blocks held whose place is not known. */
  get unplaced(): number {
    return Number(this.path.pipeline.describe(0).unplacedBlocks);
  }

  /** Blocks held whose place is known, one per group and medium. */
  get placed(): number {
    return Number(this.path.pipeline.describe(0).placedBlocks);
  }
}

/** Runs `action` and counts the calls of a method that is the unit of some work. */
export function callsOf<K extends string>(
  prototype: { [name in K]: (...args: never[]) => unknown },
  name: K,
  action: () => void,
): number {
  const own = prototype[name];
  let calls = 0;
  prototype[name] = function counted(this: unknown, ...args: never[]): unknown {
    calls += 1;
    return own.apply(this, args);
  };
  try {
    action();
  } finally {
    prototype[name] = own;
  }
  return calls;
}
