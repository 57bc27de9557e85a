/**
 * What it is: what one rank's synchronous core gives to the fan-out, and what the fan-out may ask it.
 * Owns: types only.
 * Refuses: nothing.
 * Does not do: know of subscribers, sockets or streams.
 */
import type { Projection, Start } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { KvGroupEvent, UnplacedBlocks } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { SequenceNumber } from "@kv-group-bridge/protocol";

/** One output, in order. Bytes are serialised once, here, for all subscribers. */
export type RankOutput =
  /** A kvgroup.v1.Batch for each projection; `engineBytes` undefined when ENGINE is not allowed. */
  | {
      readonly type: "batch";
      /** The engine's number: the cursor of whoever has applied it. */
      readonly sequence: SequenceNumber;
      readonly keyBytes: Uint8Array;
      readonly engineBytes: Uint8Array | undefined;
    }
  /** A kvgroup.v1.Withdraw. */
  | { readonly type: "withdraw"; readonly bytes: Uint8Array }
  /** A kvgroup.v1.EngineDescription. */
  | { readonly type: "engine"; readonly bytes: Uint8Array }
  /** A new epoch: a kvgroup.v1.Withdraw of everything; then every subscriber needs a new start and snapshot. */
  | { readonly type: "epoch"; readonly bytes: Uint8Array };

/** A piece of what is held. */
export interface SnapshotPiece {
  /** STORE events of the reader's projection. */
  readonly events: readonly KvGroupEvent[];
  /** What is held without a place, as far as it can be told; none in ENGINE. */
  readonly unplaced: readonly UnplacedBlocks[];
}

/** Reads what is held, piece by piece, while the rank goes on. */
export interface SnapshotReader {
  /** Up to about `maxBlocks` blocks; undefined = nothing left. */
  next(maxBlocks: number): SnapshotPiece | undefined;
}

/** What the fan-out asks a rank. */
export interface RankView {
  /** The `start` message as of now; heartbeat interval is the service's to fill in. */
  start(projection: Projection): Start;
  /**
   * A reader over what is held; what changes meanwhile is said by the batches that follow. Undefined = this rank has no
   * snapshot in that projection.
   */
  openSnapshot(projection: Projection): SnapshotReader | undefined;
}
