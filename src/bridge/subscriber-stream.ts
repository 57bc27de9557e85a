/**
 * What it is: the adapter from one subscriber's synchronous queue to one Connect response stream.
 * Owns: one abort listener per stream and the wait between items.
 * Refuses: nothing.
 * Does not do: decide what is sent or in what order (the subscriber does).
 */
import { create, fromBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  BatchSchema,
  HeartbeatSchema,
  type SubscribeResponse,
  SubscribeResponseSchema,
  WithdrawSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { EngineDescriptionSchema } from "@kv-group-bridge/gen/kvgroup/v1/engine_pb";
import { unreachable } from "@kv-group-bridge/runtime";
import type { FieldItem } from "./field-item.ts";
import type { QueueItem, Subscriber } from "./subscriber.ts";

/** A wait that is ended from outside. A `notify` with nobody waiting is kept. */
export class Wakeup {
  private isNotified = false;
  private resolve: (() => void) | undefined;

  /** Ends the wait, now or the next one. */
  notify(): void {
    this.isNotified = true;
    const resolve = this.resolve;
    this.resolve = undefined;
    resolve?.();
  }

  /** Resolves after the next `notify`, or at once when there was one since the last wait. */
  async wait(): Promise<void> {
    if (!this.isNotified) await new Promise<void>((resolve) => (this.resolve = resolve));
    this.isNotified = false;
  }
}

/** What a stream needs. */
export interface StreamOptions {
  readonly subscriber: Subscriber;
  /** Notified by the subscriber's `onWake`. */
  readonly wakeup: Wakeup;
  /** Aborts when the client goes, the call ends or the bridge shuts down. */
  readonly signal: AbortSignal;
  /**
   * Aborts when the bridge shuts down: then the stream ends with UNAVAILABLE instead of quietly.
   */
  readonly shutdown: AbortSignal;
  /** True = the client speaks JSON, so that fields must be typed. */
  readonly isJson: boolean;
}

/**
 * Yields until the signal aborts. The subscriber is closed at that moment, even while the transport
 * holds a yield that it will never resume. Fails with UNAVAILABLE on shutdown.
 */
export async function* subscriberStream(
  options: StreamOptions,
): AsyncGenerator<SubscribeResponse, void, undefined> {
  const { subscriber, wakeup, signal, shutdown, isJson } = options;
  const onAbort = (): void => {
    subscriber.close();
    wakeup.notify();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    while (!signal.aborted) {
      const item = subscriber.next();
      if (item === undefined) await wakeup.wait();
      else yield toResponse(item, isJson);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    subscriber.close();
  }
  if (shutdown.aborted) throw drainingError();
}

/** What clients get when the bridge shuts down: they back off and subscribe elsewhere or later. */
export function drainingError(): ConnectError {
  return new ConnectError("draining", Code.Unavailable);
}

/** The response of an item. `isJson`: fields are typed instead of shared bytes. */
export function toResponse(item: QueueItem, isJson: boolean): SubscribeResponse {
  switch (item.type) {
    case "start":
      return create(SubscribeResponseSchema, { message: { case: "start", value: item.start } });
    case "snapshot_chunk":
      return create(SubscribeResponseSchema, {
        message: { case: "snapshotChunk", value: item.chunk },
      });
    case "field":
      return isJson ? typedResponse(item) : sharedResponse(item);
    default:
      return unreachable(item, "every item has a response");
  }
}

/**
 * The bytes as an unknown field: protobuf-es writes unknown fields as they are, so the batch is not
 * serialised again, and on the wire it is the typed field.
 */
function sharedResponse(item: FieldItem): SubscribeResponse {
  const response = create(SubscribeResponseSchema);
  response.$unknown = [{ no: item.no, wireType: WireType.LengthDelimited, data: item.delimited }];
  return response;
}

/** JSON shows typed fields only; such clients are people, so the cost does not matter. */
function typedResponse(item: FieldItem): SubscribeResponse {
  switch (item.no) {
    case 3:
      return create(SubscribeResponseSchema, {
        message: { case: "batch", value: fromBinary(BatchSchema, item.bytes) },
      });
    case 4:
      return create(SubscribeResponseSchema, {
        message: { case: "withdraw", value: fromBinary(WithdrawSchema, item.bytes) },
      });
    case 5:
      return create(SubscribeResponseSchema, {
        message: { case: "heartbeat", value: fromBinary(HeartbeatSchema, item.bytes) },
      });
    case 6:
      return create(SubscribeResponseSchema, {
        message: { case: "engine", value: fromBinary(EngineDescriptionSchema, item.bytes) },
      });
    default:
      return unreachable(item.no, "every field has a type");
  }
}
