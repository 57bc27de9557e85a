/**
 * What it is: what a checkpoint saves of one rank (mirror, facts, grouping), with a record of everything it says.
 * Owns: one mirror, its facts and its applier.
 * Refuses: nothing.
 * Does not do: order, epochs or sockets.
 */
import { toBinary, toJson, toJsonString } from "@bufbuild/protobuf";
import {
  type KvGroupEvent,
  KvGroupEventSchema,
  type UnplacedBlocks,
  UnplacedBlocksSchema,
} from "../../gen/es/kvgroup/v1/event_pb.js";
import { BatchWriter } from "../../src/bridge/dist/batch-writer.js";
import type { CheckpointHead } from "../../src/bridge/dist/checkpoint-state.js";
import { Counters } from "../../src/bridge/dist/counters.js";
import type { EngineConfig } from "../../src/bridge/dist/engine-config.js";
import { EngineFacts } from "../../src/bridge/dist/engine-facts.js";
import { EventApplier } from "../../src/bridge/dist/event-applier.js";
import { MIRROR_DEFAULTS, Mirror, type MirrorOptions } from "../../src/bridge/dist/mirror.js";
import { recomputeRules } from "../../src/bridge/dist/recompute-rules.js";
import { Recomputer } from "../../src/bridge/dist/recomputer.js";
import { MirrorSnapshot } from "../../src/bridge/dist/snapshot.js";
import type { VllmEvent } from "../../src/bridge/dist/vllm-event.js";
import {
  HashKeys,
  KeyedHasher,
  parseDpRank,
  parseEpoch,
  parseSequenceNumber,
} from "../../src/protocol/dist/index.js";

const hasher = new KeyedHasher("sixteen characters");
const hashKeys = new HashKeys(hasher);

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new RangeError("out of range");
  return value;
}

/** A head that says nothing but what it must. */
export function headOf(more: Partial<CheckpointHead> = {}): CheckpointHead {
  const last = must(parseSequenceNumber(9n));
  return {
    fingerprint: "print",
    dpRank: must(parseDpRank(0)),
    epoch: must(parseEpoch(7n)),
    gate: { last, digests: [[last, "digest"]] },
    isComplete: true,
    facts: { groups: [], lookaheadTokens: undefined, unitTokens: 0, hasTooManyGroups: false },
    grouping: "unknown",
    hashing: {
      state: "searching",
      way: undefined,
      form: "integer",
      extraKeyForm: undefined,
      isExtraKeyFormRefuted: false,
    },
    instance: 7n,
    writtenAtMs: 1_700_000_000_000,
    ...more,
  };
}

/** One rank in one process. */
export class PlayedRank {
  readonly facts: EngineFacts;
  readonly mirror: Mirror;
  readonly applier: EventApplier;
  readonly recomputer: Recomputer;
  readonly counters = new Counters();
  /** What was reported of hashing. */
  readonly reports: string[] = [];
  private readonly writer: BatchWriter;
  private said: string[] = [];

  constructor(engine: EngineConfig, options: Partial<MirrorOptions> = {}) {
    this.facts = new EngineFacts(engine);
    this.writer = new BatchWriter(
      (groupId) => this.facts.group(groupId),
      true,
      (reason) => this.said.push(reason),
      hashKeys,
    );
    this.recomputer = new Recomputer({
      config: engine.hashing,
      statedUnitTokens: engine.hashBlockSizeTokens,
      counters: this.counters,
      refuse: (reason) => this.said.push(reason),
      report: (message) => this.reports.push(message),
      onLoraPathWanted: undefined,
    });
    const bounds = { ...MIRROR_DEFAULTS, removalRule: engine.removalRule, ...options };
    const rules = recomputeRules(this.facts, this.recomputer);
    this.mirror = new Mirror(hasher, this.writer, bounds, rules);
    this.applier = new EventApplier({
      facts: this.facts,
      mirror: this.mirror,
      writer: this.writer,
      counters: this.counters,
      refuse: ({ reason }) => this.said.push(reason),
      withdraw: (reason, groupId, medium) => {
        this.mirror.clear(groupId, medium);
        this.said.push(`withdraw ${reason} ${groupId} ${medium}`);
      },
    });
  }

  /** Applies one batch; gives everything that was said of it, in order. */
  apply(events: readonly VllmEvent[]): readonly string[] {
    this.said = [];
    for (const event of events) this.applier.apply(event);
    this.mirror.endBatch();
    const { said } = this;
    said.push(...this.writer.takeKeyEvents().map(text));
    said.push(...(this.writer.takeEngineEvents() ?? []).map(text));
    const { stored, removed } = this.writer.takeUnplaced();
    said.push(...removed.map((blocks) => `no more ${unplacedText(blocks)}`));
    said.push(...stored.map(unplacedText));
    said.push(
      JSON.stringify(this.facts.describe(this.recomputer.unitTokens)),
      this.recomputer.proven === undefined ? "" : "proven",
    );
    said.push(`${this.mirror.placed} ${this.mirror.unplaced} ${this.mirror.told}`);
    return said;
  }

  /** Everything that is held, as a late subscriber gets it. */
  snapshot(): readonly string[] {
    const reader = new MirrorSnapshot(this.mirror, hashKeys, (groupId) =>
      this.facts.group(groupId),
    );
    const pieces: string[] = [];
    for (let piece = reader.next(50); piece !== undefined; piece = reader.next(50)) {
      pieces.push(...piece.events.map(text), ...piece.unplaced.map(unplacedText));
    }
    return pieces;
  }

  /** Another engine process. */
  begin(): void {
    this.mirror.reset(false);
    this.facts.forget();
    this.recomputer.forget();
    this.applier.forget();
  }

  /** What a checkpoint says of it beside the blocks. */
  head(): CheckpointHead {
    const { facts, applier, recomputer } = this;
    const hashing = recomputer.memory();
    return headOf({ facts: facts.memory(), grouping: applier.grouping, hashing });
  }
}

/** Also as bytes, as the stream would have it: a number beyond its field throws. */
function text(event: KvGroupEvent): string {
  toBinary(KvGroupEventSchema, event);
  return JSON.stringify(toJson(KvGroupEventSchema, event));
}

function unplacedText(blocks: UnplacedBlocks): string {
  return toJsonString(UnplacedBlocksSchema, blocks);
}
