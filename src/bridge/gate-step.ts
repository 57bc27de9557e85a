/**
 * What it is: what a sequence gate is given and what it answers.
 * Owns: types only.
 * Refuses: nothing.
 * Does not do: judge.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";

/** A batch as it arrived. `payload` may be a view: the gate copies what it keeps. */
export interface GateBatch {
  readonly sequence: SequenceNumber;
  /** Of the payload; equal exactly when the payloads are. */
  readonly digest: string;
  readonly payload: Uint8Array;
}

/** What happened. */
export type GateInput =
  | { readonly type: "connected" }
  | { readonly type: "disconnected" }
  | { readonly type: "live"; readonly batch: GateBatch }
  | { readonly type: "replayed"; readonly batch: GateBatch }
  | { readonly type: "replay_ended" }
  | { readonly type: "replay_failed" }
  | { readonly type: "timer" }
  /** Somebody knows that the publisher is another process. */
  | { readonly type: "replaced" };

/** Why an epoch ends. */
export type EpochEnd =
  /** Batches before the next one are lost for good; the engine is the same. */
  | "lost"
  /** Another engine process. */
  | "restarted"
  /** The engine was out of sight, and nothing proves that it is the same. */
  | "unproven";

/** What is to be done, in order. `set_timer` replaces an earlier timer. */
export type GateOutput =
  | { readonly type: "deliver"; readonly batch: GateBatch }
  | { readonly type: "duplicate" }
  /** `missing`: batches lost, 0 = not known. */
  | { readonly type: "epoch"; readonly end: EpochEnd; readonly missing: bigint }
  | { readonly type: "request_replay"; readonly from: SequenceNumber }
  | { readonly type: "cancel_replay" }
  | { readonly type: "set_timer"; readonly delayMs: number }
  | { readonly type: "clear_timer" }
  /** The live socket is deaf or leads to another process: a new one is needed. */
  | { readonly type: "reopen_live" }
  /** Held batches of another process were dropped. */
  | { readonly type: "foreign"; readonly batches: number };

/** Where the gate stands. */
export type GateState = "away" | "asking" | "pausing" | "following";

/** What a later process needs to go on. */
export interface GateMemory {
  readonly last: SequenceNumber;
  /** Oldest first. */
  readonly digests: readonly (readonly [SequenceNumber, string])[];
}

/** Bounds; the defaults are those of `LIMITS`. */
export interface GateOptions {
  /** False: there is no replay socket. */
  readonly canReplay: boolean;
  readonly digests?: number;
  readonly heldBatches?: number;
  readonly heldBytes?: number;
  readonly attempts?: number;
}
