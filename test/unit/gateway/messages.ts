/**
 * What it is: builders of stream messages and prefix keys for the gateway's tests, and a bridge that does
 * what a test says.
 * Owns: the seed of these tests.
 * Refuses: nothing; tests build broken messages too.
 * Does not do: use the code under test: keys come from PrefixState by hand.
 */
import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  type BatchSchema,
  Completeness,
  Projection,
  type StartSchema,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  Certainty,
  type EngineDescriptionSchema,
  type KvCacheGroupSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import {
  type KvGroupEventSchema,
  KvGroupEvent_Operation as Operation,
} from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { BridgeSource, StreamHandlers } from "../../../src/gateway/dist/connect-source.js";
import type { SubscriptionError } from "../../../src/gateway/dist/subscription.js";
import {
  KEY_SCHEME_ID,
  KeyedHasher,
  type Namespace,
  PLAIN,
  PrefixState,
  type ResumePoint,
  writeKey,
} from "../../../src/protocol/dist/index.js";

export const SEED = "a seed of many tests";
export const HASHER = new KeyedHasher(SEED);
export const KEY_SCHEME = { id: KEY_SCHEME_ID, checkValue: HASHER.checkValue() };

/** What `create` takes, without finished messages: fit to be spread. */
type Init<S extends DescMessage> = Exclude<MessageInitShape<S>, MessageShape<S>>;

export type EventInit = Init<typeof KvGroupEventSchema>;
export type EngineInit = Init<typeof EngineDescriptionSchema>;
export type GroupInit = Init<typeof KvCacheGroupSchema>;
export type StartInit = Init<typeof StartSchema>;

/** Tokens 1 … n. */
export function tokensTo(n: number): Uint32Array {
  return Uint32Array.from({ length: n }, (_, i) => i + 1);
}

/** Keys of the prefixes of `tokens` that end at `ends`, 8 bytes each. */
export function keysAt(
  tokens: ArrayLike<number>,
  ends: readonly number[],
  namespace: Namespace = PLAIN,
): Uint8Array {
  const bytes = new Uint8Array(ends.length * 8);
  const root = HASHER.rootWords(namespace);
  const state = new PrefixState();
  state.load(root, 0, 0);
  for (const [i, end] of ends.entries()) {
    if (end < state.endTokens) state.load(root, 0, 0);
    state.absorb(tokens, state.endTokens, end);
    state.finish();
    writeKey(bytes, i * 8, state.keyLow, state.keyHigh);
  }
  return bytes;
}

/** first, first + step … last. */
export function ends(first: number, step: number, last: number): readonly number[] {
  const found: number[] = [];
  for (let end = first; end <= last; end += step) found.push(end);
  return found;
}

/** A STORE of the blocks of `tokens` (default 1, 2, 3 …) ending at first, first + step … last. */
export function store(
  groupId: number,
  [first, step, last]: readonly [number, number, number],
  more: EventInit & { readonly tokens?: ArrayLike<number>; readonly lookahead?: number } = {},
): EventInit {
  const { tokens = tokensTo(last + 64), lookahead = 0, ...init } = more;
  const positions = ends(first, step, last).map((end) => end + lookahead);
  return {
    operation: Operation.STORE,
    groupId,
    endTokens: first,
    blockSize: step,
    prefixKeys: keysAt(tokens, positions),
    ...init,
  };
}

/** A REMOVE of the blocks of 1, 2, 3 … ending at `at`. */
export function remove(groupId: number, at: readonly number[], more: EventInit = {}): EventInit {
  const prefixKeys = keysAt(tokensTo(Math.max(0, ...at)), at);
  return { operation: Operation.REMOVE, groupId, prefixKeys, ...more };
}

/** The group of `FULL_4`. */
export const FULL_GROUP: GroupInit = {
  groupId: 0,
  kind: "full_attention",
  blockSize: 4,
  certainty: Certainty.CONFIGURED,
  isSeen: true,
};

/** A full-attention engine of one group, block 4, everything configured. */
export const FULL_4: EngineInit = {
  groups: [FULL_GROUP],
  isRosterComplete: true,
  schedulerBlockSize: 4,
  hashBlockSize: 4,
  isFine: false,
  layoutCertainty: Certainty.CONFIGURED,
};

/** A start of epoch 7 with nothing applied yet. */
export function start(more: StartInit = {}): SubscribeResponse {
  return create(SubscribeResponseSchema, {
    message: {
      case: "start",
      value: {
        dpRank: 0,
        cursor: { epoch: 7n },
        completeness: Completeness.COMPLETE,
        engine: FULL_4,
        keyScheme: KEY_SCHEME,
        projection: Projection.PREFIX_KEYS,
        isEngineConnected: true,
        heartbeatIntervalMs: 5000,
        instance: 3n,
        ...more,
      },
    },
  });
}

export function chunk(
  index: number,
  isLast: boolean,
  events: readonly EventInit[] = [],
): SubscribeResponse {
  return create(SubscribeResponseSchema, {
    message: { case: "snapshotChunk", value: { index, isLast, events: [...events] } },
  });
}

export function batch(
  sequence: number,
  events: readonly EventInit[] = [],
  more: Init<typeof BatchSchema> = {},
): SubscribeResponse {
  return create(SubscribeResponseSchema, {
    message: {
      case: "batch",
      value: {
        epoch: 7n,
        batch: { sequenceNumber: BigInt(sequence), events: [...events] },
        completeness: Completeness.COMPLETE,
        ...more,
      },
    },
  });
}

export function withdraw(groupId?: number, medium?: string): SubscribeResponse {
  const scope = {
    ...(groupId === undefined ? {} : { groupId }),
    ...(medium === undefined ? {} : { medium }),
  };
  return create(SubscribeResponseSchema, { message: { case: "withdraw", value: scope } });
}

export function heartbeat(
  sequence?: number,
  isEngineConnected = true,
  isCatchingUp = false,
): SubscribeResponse {
  const cursor = {
    epoch: 7n,
    ...(sequence === undefined ? {} : { sequenceNumber: BigInt(sequence) }),
  };
  return create(SubscribeResponseSchema, {
    message: { case: "heartbeat", value: { cursor, isEngineConnected, isCatchingUp } },
  });
}

export function engine(value: EngineInit): SubscribeResponse {
  return create(SubscribeResponseSchema, { message: { case: "engine", value } });
}

/** The messages after which a rank is live and holds `events`. */
export function liveWith(
  events: readonly EventInit[],
  description: EngineInit = FULL_4,
  dpRank = 0,
): readonly SubscribeResponse[] {
  return [start({ engine: description, dpRank }), chunk(0, true, events)];
}

/** A source whose streams a test drives by hand, synchronously. */
export class HandBridge implements BridgeSource {
  /** Every stream opened so far, of all ranks, in order. */
  readonly streams: {
    readonly dpRank: number;
    readonly handlers: StreamHandlers;
    readonly resume: ResumePoint | undefined;
    isOpen: boolean;
  }[] = [];
  isClosed = false;

  open(dpRank: number, handlers: StreamHandlers, resume: ResumePoint | undefined): () => void {
    const stream = { dpRank, handlers, resume, isOpen: true };
    this.streams.push(stream);
    return () => {
      stream.isOpen = false;
    };
  }

  close(): void {
    this.isClosed = true;
  }

  /** Sends to the last stream of a rank that is open; false = there is none. */
  send(messages: readonly SubscribeResponse[], dpRank = 0): boolean {
    const stream = this.lastOpen(dpRank);
    if (stream === undefined) return false;
    stream.handlers.onOpened();
    for (const message of messages) if (stream.isOpen) stream.handlers.onMessage(message);
    return true;
  }

  /** Ends the last open stream of a rank. */
  end(error: SubscriptionError, dpRank = 0): void {
    const stream = this.lastOpen(dpRank);
    if (stream === undefined) return;
    stream.isOpen = false;
    stream.handlers.onEnded(error);
  }

  private lastOpen(dpRank: number) {
    return this.streams.findLast((stream) => stream.dpRank === dpRank && stream.isOpen);
  }
}
