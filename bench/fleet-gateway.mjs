// What it is: a gateway that follows the workers of a fleet without sockets, and the stream messages that fill it.
// Owns: a source for each worker, driven by hand, and a clock that stands still.
// Refuses: a worker whose answers would not be exact: the bench would not measure what it says.
// Does not do: measure.
import { create, toBinary } from "@bufbuild/protobuf";
import {
  Completeness,
  Projection,
  SubscribeResponseSchema,
} from "../gen/es/kvgroup/v1/bridge_pb.js";
import { Certainty } from "../gen/es/kvgroup/v1/engine_pb.js";
import { KvGroupEvent_Operation as Operation } from "../gen/es/kvgroup/v1/event_pb.js";
import { AnswerBuffer, createGateway } from "../src/gateway/dist/index.js";
import { KEY_SCHEME_ID, KeyedHasher } from "../src/protocol/dist/index.js";
import { KEY_SEED, layoutOf } from "./workloads/fleet.mjs";

const EPOCH = 7n;
const KINDS = { full: "full_attention", mamba: "mamba", sliding_window: "sliding_window" };

/** The scheme of the keys of all workloads. */
export const KEY_SCHEME = {
  id: KEY_SCHEME_ID,
  checkValue: new KeyedHasher(KEY_SEED).checkValue(),
};

/** A variant's layout as a bridge describes an engine. */
export function engineOf(variant, options) {
  const layout = layoutOf(variant, options);
  return {
    groups: layout.groups.map((group) => ({
      groupId: group.groupId,
      kind: KINDS[group.rule],
      blockSize: group.blockSizeTokens,
      slidingWindow: group.windowTokens,
      certainty: Certainty.CONFIGURED,
      isSeen: true,
    })),
    isRosterComplete: true,
    schedulerBlockSize: layout.schedulerBlockSizeTokens,
    hashBlockSize: layout.hashBlockSizeTokens,
    isFine: layout.isFine,
    layoutCertainty: Certainty.CONFIGURED,
  };
}

const message = (name, value) =>
  create(SubscribeResponseSchema, { message: { case: name, value } });

/** The messages after which a rank is live and holds nothing. */
export function liveMessages(engine) {
  const start = {
    dpRank: 0,
    cursor: { epoch: EPOCH },
    completeness: Completeness.COMPLETE,
    engine,
    keyScheme: KEY_SCHEME,
    projection: Projection.PREFIX_KEYS,
    isEngineConnected: true,
    heartbeatIntervalMs: 5_000,
    instance: 3n,
  };
  return [
    message("start", start),
    message("snapshotChunk", { index: 0, isLast: true, events: [] }),
  ];
}

/** One batch of a workload as a stream message. */
export function batchMessage(sequence, events) {
  return message("batch", {
    epoch: EPOCH,
    completeness: Completeness.COMPLETE,
    batch: { sequenceNumber: BigInt(sequence), events: events.map(wireEvent) },
  });
}

/** The same as the bytes that a stream carries. */
export function batchBytes(sequence, events) {
  return toBinary(SubscribeResponseSchema, batchMessage(sequence, events));
}

function wireEvent(event) {
  if (event.type === "remove") {
    return { operation: Operation.REMOVE, groupId: event.groupId, prefixKeys: event.keys };
  }
  return {
    operation: Operation.STORE,
    groupId: event.groupId,
    prefixKeys: event.keys,
    endTokens: event.endTokens,
    blockSize: event.stepTokens,
    parentPrefixKey: event.parentKey ?? new Uint8Array(0),
  };
}

/** See the header. */
export class FleetGateway {
  constructor(workers, variant, options) {
    this.answers = new AnswerBuffer();
    this.streams = [];
    this.sequences = new Float64Array(workers);
    this.gateway = createGateway({
      seed: KEY_SEED,
      clock: { nowMs: () => 0, monotonicMs: () => 0 },
      timers: { after: () => () => {}, every: () => () => {} },
      randomness: { uint32: () => 0, uint64: () => 0n, fraction: () => 0 },
      sourceFactory: () => ({
        open: (_dpRank, handlers) => {
          this.streams.push(handlers);
          return () => {};
        },
        close: () => {},
      }),
    });
    for (let worker = 0; worker < workers; worker++) {
      // Ordered by name as by number.
      const name = `worker-${String(worker).padStart(5, "0")}`;
      this.gateway.addWorker({ name, url: `http://${name}`, dpRanks: [0] });
      const stream = this.streams[worker];
      stream.onOpened();
      for (const one of liveMessages(engineOf(variant, options))) stream.onMessage(one);
    }
    this.score(Uint32Array.of(1, 2, 3));
    for (let i = 0; i < this.answers.count; i++) {
      if (this.answers.at(i).state !== "exact") throw new Error("a worker is not exact");
    }
  }

  /** Takes batches as messages; gives the blocks named in them. */
  apply(batches) {
    let blocks = 0;
    for (const events of batches) {
      const [{ worker }] = events;
      this.streams[worker].onMessage(batchMessage(this.sequences[worker]++, events));
      for (const { keys } of events) blocks += keys.length / 8;
    }
    return blocks;
  }

  /** Into `answers`, one line a worker, in the workers' order. */
  score(tokens) {
    this.gateway.scoreInto({ tokens }, this.answers);
  }

  /** Of the last query: the deepest answer in tokens, workers that have it, workers with any. */
  summary() {
    const found = { tokens: 0, workers: 0, holders: 0 };
    for (let i = 0; i < this.answers.count; i++) {
      const tokens = this.answers.at(i).reusableTokens;
      if (tokens > 0) found.holders += 1;
      if (tokens > found.tokens) Object.assign(found, { tokens, workers: 0 });
      if (tokens === found.tokens && tokens > 0) found.workers += 1;
    }
    return found;
  }
}
