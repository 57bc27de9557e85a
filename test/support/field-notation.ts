/**
 * What it is: the short notation in which field cases are written (st, rm, CLEAR, "1..8"), and two
 * benches for them: one engine on the whole path, and a fleet of engines behind one gateway.
 * Owns: sequence numbers and time stamps of what is sent; every payload differs from every other.
 * Refuses: nothing; what is sent may be as wrong as the case wants.
 * Does not do: judge. But every answer is asked twice: a gateway that joins at that moment must say
 * the same.
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Projection, SubscribeResponseSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  type Checkpoint,
  type EngineConfig,
  FanOut,
  type GroupConfig,
  RankPipeline,
  type RankRepair,
  type Subscriber,
  toResponse,
  UNSTATED_ENGINE,
} from "../../src/bridge/dist/index.js";
import { InProcessPath } from "../../src/cli/dist/in-process-path.js";
import {
  createGateway,
  type Gateway,
  type Query,
  type RankAnswer,
} from "../../src/gateway/dist/index.js";
import { KeyedHasher, parseDpRank, parseEpoch } from "../../src/protocol/dist/index.js";
import { group } from "./typed-events.ts";
import { encodeWire, sequenceFrame, type WireFields } from "./wire-builder.ts";

/** The fleet's seed in field cases. */
export const FIELD_SEED = "field cases: a seed for tests";
const SEED = FIELD_SEED;
const TOPIC = new TextEncoder().encode("kv-events");

/** Token ids, or "1..8" for 1, 2, ..., 8. */
export type Prompt = string | readonly number[];
/** What a block hash may be on the wire. */
export type WireHash = number | bigint | Uint8Array;
/** The namespace of a query. */
export type Namespace = Omit<Query, "tokens">;

/** A store in short keys; absent ones are not sent. `more` sets fields by vLLM's names. */
export interface ShortStore {
  readonly h: readonly WireHash[];
  /** Default: null, the root. */
  readonly p?: WireHash | null;
  readonly t?: Prompt;
  readonly bs?: number;
  readonly g?: number;
  readonly k?: string;
  readonly w?: number;
  /** Default: "GPU". */
  readonly m?: string | null;
  readonly x?: unknown;
  readonly lora?: string;
  readonly more?: WireFields;
}

/** A removal in short keys. */
export type ShortRemoval = Pick<ShortStore, "h" | "g" | "m" | "more">;

const KINDS: Readonly<Record<string, string>> = {
  full: "full_attention",
  mla: "mla_attention",
  swa: "sliding_window",
};

/** The numbers of a prompt. */
export function tokenList(prompt: Prompt): readonly number[] {
  if (typeof prompt !== "string") return prompt;
  const [first = Number.NaN, last = Number.NaN] = prompt.split("..").map(Number);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** BlockStored as a map. */
export function st(short: ShortStore): WireFields {
  return {
    type: "BlockStored",
    block_hashes: short.h,
    parent_block_hash: short.p === undefined ? null : short.p,
    token_ids: tokenList(short.t ?? []),
    block_size: short.bs ?? 4,
    lora_id: null,
    medium: short.m === undefined ? "GPU" : short.m,
    lora_name: short.lora ?? null,
    ...(short.x === undefined ? {} : { extra_keys: short.x }),
    ...(short.g === undefined ? {} : { group_idx: short.g }),
    ...(short.k === undefined ? {} : { kv_cache_spec_kind: KINDS[short.k] ?? short.k }),
    ...(short.w === undefined ? {} : { kv_cache_spec_sliding_window: short.w }),
    ...short.more,
  };
}

/** BlockRemoved as a map. */
export function rm(short: ShortRemoval): WireFields {
  return {
    type: "BlockRemoved",
    block_hashes: short.h,
    medium: short.m === undefined ? "GPU" : short.m,
    ...(short.g === undefined ? {} : { group_idx: short.g }),
    ...short.more,
  };
}

/** AllBlocksCleared as a map. */
export const CLEAR: WireFields = { type: "AllBlocksCleared" };

/** One group as an operator states it. */
export function statedGroup(groupId: number, more: Partial<GroupConfig> = {}): GroupConfig {
  return {
    groupId: group(groupId),
    kind: "full_attention",
    blockSizeTokens: 4,
    windowTokens: undefined,
    chunkTokens: undefined,
    isPrivate: false,
    dropsBlock: false,
    specClass: undefined,
    ...more,
  };
}

/** An engine of which everything is stated, so that a whole view is "exact". */
export function statedEngine(
  groups: readonly GroupConfig[],
  more: Partial<EngineConfig> = {},
): EngineConfig {
  return {
    ...UNSTATED_ENGINE,
    groups,
    isRosterComplete: true,
    schedulerBlockSizeTokens: 4,
    hashBlockSizeTokens: 4,
    isFine: false,
    lookaheadTokens: 0,
    ...more,
  };
}

let stamps = 0;

/** A batch as vLLM sends it; the time stamp never repeats. */
export function batchOf(events: readonly unknown[], dpRank: unknown = 0): unknown {
  stamps += 1;
  return [stamps + 0.5, events, dpRank];
}

/** One engine, one bridge rank, one gateway: the shipped path in one process. */
export class FieldTrial {
  readonly path: InProcessPath;
  private next = 0n;

  constructor(engine: EngineConfig = UNSTATED_ENGINE, options: { topic?: string } = {}) {
    this.path = new InProcessPath({ dpRank: rankOf(0), engine, seed: SEED, ...options });
  }

  /** One batch with the next number. */
  send(...events: readonly unknown[]): void {
    this.batch(this.next, ...events);
  }

  /** One batch with this number; later ones follow it. */
  batch(sequence: number | bigint, ...events: readonly unknown[]): void {
    this.payload(sequence, batchOf(events));
  }

  /** Any value as payload. */
  payload(sequence: number | bigint, value: unknown): void {
    this.next = BigInt(sequence) + 1n;
    this.path.receive([TOPIC, sequenceFrame(BigInt(sequence)), encodeWire(value)]);
  }

  /** Q: reusable tokens of a prompt. */
  q(prompt: Prompt, namespace: Namespace = {}): number {
    return this.answer(prompt, namespace).reusableTokens;
  }

  /** The whole answer. Throws when a gateway that joins now would answer otherwise. */
  answer(prompt: Prompt, namespace: Namespace = {}): RankAnswer {
    const query = { tokens: tokenList(prompt), ...namespace };
    const answer = this.path.score(query);
    this.path.pipeline.audit();
    this.path.gateway.audit();
    const late = lateAnswer(this.path.pipeline, query);
    const isSame = JSON.stringify(late) === JSON.stringify({ ...answer, worker: "late" });
    if (!isSame) throw new Error(`late: ${JSON.stringify(late)}, now: ${JSON.stringify(answer)}`);
    return answer;
  }

  counter(name: string): number {
    return this.path.pipeline.counters().get(name) ?? 0;
  }

  refused(reason: string): number {
    return this.counter(`refused.${reason}`);
  }

  /** Blocks held with a place, one per group and medium. */
  get placed(): number {
    return Number(this.path.pipeline.describe(0).placedBlocks);
  }

  get unplaced(): number {
    return Number(this.path.pipeline.describe(0).unplacedBlocks);
  }

  /** The ids of the groups that the bridge tells. */
  get groupIds(): readonly number[] {
    return this.path.pipeline.describe(0).engine?.groups.map((told) => told.groupId) ?? [];
  }
}

function rankOf(value: number): NonNullable<ReturnType<typeof parseDpRank>> {
  const rank = parseDpRank(value);
  if (rank === undefined) throw new RangeError("not a rank");
  return rank;
}

/** What a gateway answers that subscribes only now. */
function lateAnswer(pipeline: RankPipeline, query: Query): RankAnswer {
  const rank = new FieldRank("late", 0, pipeline);
  const gateway = gatewayOf([rank]);
  rank.drain();
  const answer = gateway.score(query)[0];
  gateway.close();
  if (answer === undefined) throw new Error("the late gateway has no rank");
  return answer;
}

/** What a report of the pipeline holds. */
export interface Report {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** One rank of a fleet. */
export class FieldRank {
  readonly worker: string;
  readonly dpRank: number;
  readonly pipeline: RankPipeline;
  readonly fanOut: FanOut;
  /** Every message that went to gateways, as bytes. */
  readonly sent: Uint8Array[] = [];
  readonly reports: Report[] = [];
  /** True: gateways read nothing for now. */
  isHeldBack = false;
  private readonly streams: { subscriber: Subscriber; deliver: (bytes: Uint8Array) => void }[] = [];
  private next = 0n;

  /**
   * `queueBytes`: how far a gateway may fall behind. `maxHistory`: places of removed blocks. `resumeRingBytes`: the ring.
   * `repair`: a replay socket. `checkpoint`: what an earlier process of the bridge knew.
   */
  constructor(
    worker: string,
    dpRank: number,
    from: RankPipeline | EngineConfig = UNSTATED_ENGINE,
    bounds: {
      queueBytes?: number;
      maxHistory?: number;
      resumeRingBytes?: number;
      repair?: RankRepair;
      checkpoint?: Checkpoint | undefined;
    } = {},
  ) {
    this.worker = worker;
    this.dpRank = dpRank;
    let minted = bounds.checkpoint?.head.epoch ?? 0n;
    this.pipeline =
      from instanceof RankPipeline
        ? from
        : new RankPipeline({
            dpRank: rankOf(dpRank),
            engine: from,
            hasher: new KeyedHasher(SEED),
            topic: undefined,
            isEngineProjectionAllowed: true,
            mintEpoch: () => {
              minted += 1n;
              const epoch = parseEpoch(minted);
              if (epoch === undefined) throw new RangeError("not an epoch");
              return epoch;
            },
            emit: (output) => this.fanOut.publish(output),
            report: (message, fields) => this.reports.push({ message, fields }),
            ...(bounds.repair === undefined ? {} : { repair: bounds.repair }),
            checkpoint: bounds.checkpoint,
            mirror: bounds.maxHistory === undefined ? {} : { maxHistory: bounds.maxHistory },
          });
    this.fanOut = new FanOut({
      instance: 1n,
      view: this.pipeline,
      ...(bounds.queueBytes === undefined ? {} : { queueBytes: bounds.queueBytes }),
      ...(bounds.resumeRingBytes === undefined ? {} : { resumeRingBytes: bounds.resumeRingBytes }),
    });
    if (this.pipeline !== from) this.pipeline.setConnected(true);
  }

  /** One batch with the next number. */
  send(...events: readonly unknown[]): void {
    this.payload(this.next, batchOf(events, this.dpRank));
  }

  /** Any value as payload. */
  payload(sequence: number | bigint, value: unknown): void {
    this.next = BigInt(sequence) + 1n;
    this.pipeline.receive([TOPIC, sequenceFrame(BigInt(sequence)), encodeWire(value)], 0);
    this.drain();
  }

  /** A batch of an engine, as the live socket brings it. */
  live(batch: { readonly sequence: bigint; readonly payload: Uint8Array }): void {
    this.pipeline.receive([TOPIC, sequenceFrame(batch.sequence), batch.payload], 0);
    this.drain();
  }

  /** A stream of one gateway; the returned function ends it. */
  open(projection: Projection, deliver: (bytes: Uint8Array) => void): () => void {
    const subscriber = this.fanOut.subscribe({ projection, onWake: () => {} });
    if (subscriber === undefined) throw new Error("subscription refused");
    const stream = { subscriber, deliver };
    this.streams.push(stream);
    return () => {
      subscriber.close();
      this.streams.splice(this.streams.indexOf(stream), 1);
    };
  }

  /** Gives every stream all that is queued for it. */
  drain(): void {
    if (this.isHeldBack) return;
    for (const { subscriber, deliver } of Array.from(this.streams)) {
      for (let item = subscriber.next(); item !== undefined; item = subscriber.next()) {
        const bytes = toBinary(SubscribeResponseSchema, toResponse(item, false));
        this.sent.push(bytes);
        deliver(bytes);
      }
    }
  }
}

/** One gateway that follows ranks; ranks of one name are one worker, whose url names it. */
export function gatewayOf(ranks: readonly FieldRank[]): Gateway {
  const openings: (() => void)[] = [];
  const gateway = createGateway({
    seed: SEED,
    clock: { nowMs: () => 0, monotonicMs: () => 0 },
    timers: { after: () => () => {}, every: () => () => {} },
    randomness: { uint32: () => 0, uint64: () => 0n, fraction: () => 0 },
    sourceFactory: (address) => ({
      open: (dpRank, handlers) => {
        const name = new URL(address.url).hostname;
        const rank = ranks.find((one) => one.worker === name && one.dpRank === dpRank);
        if (rank === undefined) return () => {};
        openings.push(() => handlers.onOpened());
        return rank.open(Projection.PREFIX_KEYS, (bytes) =>
          handlers.onMessage(fromBinary(SubscribeResponseSchema, bytes)),
        );
      },
      close: () => {},
    }),
  });
  for (const name of new Set(ranks.map((rank) => rank.worker))) {
    const dpRanks = ranks.filter((rank) => rank.worker === name).map((rank) => rank.dpRank);
    gateway.addWorker({ name, url: `http://${name}`, dpRanks });
  }
  for (const opened of openings) opened();
  for (const rank of ranks) rank.drain();
  return gateway;
}
