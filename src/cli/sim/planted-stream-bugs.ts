/**
 * What it is: planted bugs of the stream: what a wrong bridge or gateway would make of its messages.
 * Owns: nothing beyond one stream.
 * Refuses: nothing.
 * Does not do: touch any other stream than its own.
 */
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { KvGroupEvent_Operation as Operation } from "@kv-group-bridge/gen/kvgroup/v1/event_pb";
import type { PlantedStream } from "./plant.ts";

type Take = (message: SubscribeResponse) => void;

/** A resumed stream goes on one batch too late. */
export function skipsFirstResumed(_stream: PlantedStream, deliver: Take): Take {
  let isResumed = false;
  return (response) => {
    const { message } = response;
    if (message.case === "start") isResumed = message.value.isResumed;
    if (message.case === "batch" && isResumed) {
      isResumed = false;
      return;
    }
    deliver(response);
  };
}

/** What changes while a snapshot is read is not said again. */
export function skipsMeanwhile(_stream: PlantedStream, deliver: Take): Take {
  let isWhole = false;
  return (response) => {
    const { message } = response;
    if (message.case === "start") isWhole = message.value.isResumed;
    if (message.case === "snapshotChunk" && message.value.isLast) isWhole = true;
    if (message.case === "batch" && !isWhole && message.value.batch !== undefined) {
      message.value.batch.events = [];
    }
    deliver(response);
  };
}

/** Who comes back is not told of what was withdrawn. */
export function forgetsWithdrawals(stream: PlantedStream, deliver: Take): Take {
  let isWithdrawn = false;
  return (response) => {
    const { message } = response;
    const isReconnected = stream.earlierStreams > 0;
    if (message.case === "withdraw" && isReconnected) {
      isWithdrawn = true;
      return;
    }
    const batch = message.case === "batch" ? message.value.batch : undefined;
    if (batch !== undefined && isWithdrawn) {
      isWithdrawn = false;
      const isOfWithdrawal = batch.events.findIndex(
        ({ operation, clearsAllGroups }) => operation === Operation.CLEAR && !clearsAllGroups,
      );
      if (isOfWithdrawal >= 0) batch.events.splice(isOfWithdrawal, 1);
    }
    deliver(response);
  };
}

/** The gateway takes every message for one of the epoch that it knows. */
export function hidesEpochs(stream: PlantedStream, deliver: Take): Take {
  const epoch = stream.resume?.cursor.epoch;
  let isHidden = false;
  return (response) => {
    const { message } = response;
    if (message.case === "start") isHidden = message.value.isResumed && epoch !== undefined;
    if (isHidden && epoch !== undefined) {
      if (message.case === "batch") message.value.epoch = epoch;
      const hasCursor = message.case === "start" || message.case === "heartbeat";
      if (hasCursor && message.value.cursor !== undefined) message.value.cursor.epoch = epoch;
    }
    deliver(response);
  };
}

/** The bridge never says that it has lost its engine. */
export function claimsConnection(_stream: PlantedStream, deliver: Take): Take {
  return (response) => {
    const { message } = response;
    if (message.case === "start" || message.case === "heartbeat") {
      message.value.isEngineConnected = true;
      message.value.isCatchingUp = false;
    }
    deliver(response);
  };
}
