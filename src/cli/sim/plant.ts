/**
 * What it is: the places at which a planted bug may change what the parties do, without touching their code.
 * Owns: types only; planted-bugs.ts has the bugs.
 * Refuses: nothing.
 * Does not do: run in any seed that did not ask for a bug.
 */
import type { RankPipeline, ReplayHandlers, Subscriber } from "@kv-group-bridge/bridge";
import type { Gateway } from "@kv-group-bridge/gateway";
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { ResumePoint, SequenceNumber } from "@kv-group-bridge/protocol";

/** What a stream's plant is told of the stream. */
export interface PlantedStream {
  /** Streams of this gateway to this bridge before this one. */
  readonly earlierStreams: number;
  /** Where the gateway wanted to go on. */
  readonly resume: ResumePoint | undefined;
}

/** Hooks; each is called for every object that is made. */
export interface Plant {
  /** A bridge's core was made. */
  readonly pipeline?: (pipeline: RankPipeline) => void;
  /** A gateway was made; it follows nobody yet. */
  readonly gateway?: (gateway: Gateway) => void;
  /** A subscriber was made. */
  readonly subscriber?: (subscriber: Subscriber) => void;
  /** Where a gateway wants to go on, as the bridge understands it. */
  readonly resume?: (
    resume: ResumePoint | undefined,
    present: ResumePoint,
  ) => ResumePoint | undefined;
  /** Messages of one stream, before the gateway takes them. */
  readonly stream?: (
    stream: PlantedStream,
    deliver: (message: SubscribeResponse) => void,
  ) => (message: SubscribeResponse) => void;
  /** Answers of the replay socket, before the bridge takes them. */
  readonly replay?: (from: SequenceNumber, handlers: ReplayHandlers) => ReplayHandlers;
}
