/**
 * What it is: the messages of one rank's stream, built from its present state.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: decide when a message is sent, or to whom.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import {
  Completeness,
  CursorSchema,
  type Heartbeat,
  HeartbeatSchema,
  type KeyScheme,
  KeySchemeSchema,
  Projection,
  type RankDescription,
  RankDescriptionSchema,
  type Start,
  StartSchema,
  type Withdraw_Reason as WithdrawReason,
  WithdrawSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { KvGroupEvent, UnplacedBlocks } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import {
  type Cursor,
  type DpRank,
  type EngineDescription,
  engineDescriptionToWire,
  type GroupId,
  KEY_SCHEME_ID,
  type KeyedHasher,
  type SequenceNumber,
} from "@kv-group-bridge/protocol";
import { writeBatch } from "./batch-bytes.ts";
import { wireMedium } from "./convert.ts";

/** What is true of a rank now. */
export interface RankState {
  readonly dpRank: DpRank;
  /** `sequence`: the last batch of this epoch that outputs contain. */
  readonly cursor: Cursor;
  readonly completeness: Completeness;
  /** What an ENGINE subscriber gets lacks nothing that the view has. */
  readonly isEngineWhole: () => boolean;
  readonly engine: () => EngineDescription;
  readonly isEngineConnected: boolean;
  readonly isCatchingUp: boolean;
  /** Monotonic; undefined = no batch yet. */
  readonly lastBatchMs: number | undefined;
  /** Held entries with and without a place. */
  readonly placed: number;
  readonly unplaced: number;
  /** Of `unplaced`, those that the stream tells as kvgroup.v1.UnplacedBlocks. */
  readonly told: number;
}

/** `start`; heartbeat interval, instance, resumption and snapshot are the fan-out's to fill in. */
export function startMessage(state: RankState, projection: Projection, hasher: KeyedHasher): Start {
  const isEngine = projection === Projection.ENGINE;
  const isPart = isEngine && !state.isEngineWhole();
  return create(StartSchema, {
    dpRank: state.dpRank,
    cursor: cursorMessage(state.cursor),
    isResumed: false,
    completeness: isPart ? Completeness.INCOMPLETE : state.completeness,
    engine: engineDescriptionToWire(state.engine()),
    ...(isEngine ? {} : { keyScheme: keySchemeMessage(hasher) }),
    projection: isEngine ? Projection.ENGINE : Projection.PREFIX_KEYS,
    isEngineConnected: state.isEngineConnected,
    isCatchingUp: state.isCatchingUp,
    unplacedBlocks: BigInt(state.unplaced),
    toldUnplacedBlocks: BigInt(state.told),
  });
}

/** A heartbeat as of `nowMs` (monotonic). */
export function heartbeatMessage(state: RankState, nowMs: number): Heartbeat {
  return create(HeartbeatSchema, {
    cursor: cursorMessage(state.cursor),
    isEngineConnected: state.isEngineConnected,
    isCatchingUp: state.isCatchingUp,
    ...ageAt(state, nowMs),
  });
}

/** The state for `Describe`; subscribers and instance are the service's to fill in. */
export function descriptionMessage(
  state: RankState,
  nowMs: number,
  counts: ReadonlyMap<string, number>,
): RankDescription {
  const counters: Record<string, bigint> = {};
  for (const [name, value] of counts) counters[name] = BigInt(value);
  return create(RankDescriptionSchema, {
    dpRank: state.dpRank,
    cursor: cursorMessage(state.cursor),
    completeness: state.completeness,
    engine: engineDescriptionToWire(state.engine()),
    isEngineConnected: state.isEngineConnected,
    isCatchingUp: state.isCatchingUp,
    ...ageAt(state, nowMs),
    placedBlocks: BigInt(state.placed),
    unplacedBlocks: BigInt(state.unplaced),
    toldUnplacedBlocks: BigInt(state.told),
    counters,
  });
}

/** The scheme of the keys, with the seed's check value. */
export function keySchemeMessage(hasher: KeyedHasher): KeyScheme {
  return create(KeySchemeSchema, { id: KEY_SCHEME_ID, checkValue: hasher.checkValue() });
}

/** What the engine said of one of its batches. */
export interface BatchHead {
  readonly sequence: SequenceNumber;
  readonly timestampSeconds: number;
}

/** What one engine batch caused. */
export interface BatchContents {
  readonly events: KvGroupEvent[];
  /** What it says of blocks without a place; none in ENGINE. */
  readonly unplaced: {
    readonly stored: UnplacedBlocks[];
    readonly removed: UnplacedBlocks[];
  };
  readonly completeness: Completeness;
}

const NO_UNPLACED: BatchContents["unplaced"] = { stored: [], removed: [] };

/** A serialised `Batch`. */
export function batchBytes(
  state: RankState,
  head: BatchHead,
  { events, unplaced, completeness }: BatchContents,
): Uint8Array {
  return writeBatch({
    epoch: state.cursor.epoch,
    batch: {
      sequenceNumber: head.sequence,
      timestampSeconds: head.timestampSeconds,
      events,
      unplacedRemoved: unplaced.removed,
      unplacedStored: unplaced.stored,
    },
    completeness,
    unplacedBlocks: state.unplaced,
    toldUnplacedBlocks: state.told,
    isCatchingUp: state.isCatchingUp,
  });
}

/**
 * A serialised `Batch` of the ENGINE projection. Its completeness is not the state's own: a subscriber there may hold
 * less, so only its start can say what it misses.
 */
export function engineBatchBytes(
  state: RankState,
  head: BatchHead,
  events: KvGroupEvent[],
): Uint8Array {
  const completeness = Completeness.UNSPECIFIED;
  return batchBytes(state, head, { events, unplaced: NO_UNPLACED, completeness });
}

/** A serialised `Withdraw`; undefined = every group, every medium. */
export function withdrawBytes(
  reason: WithdrawReason,
  groupId: GroupId | undefined,
  medium: string | undefined,
): Uint8Array {
  return toBinary(
    WithdrawSchema,
    create(WithdrawSchema, {
      reason,
      ...(groupId === undefined ? {} : { groupId }),
      ...(medium === undefined ? {} : { medium: wireMedium(medium) }),
    }),
  );
}

function cursorMessage(cursor: Cursor): ReturnType<typeof create<typeof CursorSchema>> {
  return create(CursorSchema, {
    epoch: cursor.epoch,
    ...(cursor.sequence === undefined ? {} : { sequenceNumber: cursor.sequence }),
  });
}

function ageAt(state: RankState, nowMs: number): { lastBatchAgeMs?: bigint } {
  if (state.lastBatchMs === undefined) return {};
  return { lastBatchAgeMs: BigInt(Math.max(0, Math.round(nowMs - state.lastBatchMs))) };
}
