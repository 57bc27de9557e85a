/**
 * What it is: the adapter between a bridge's Connect service and subscriptions: one HTTP/2
 * connection a bridge, one stream a rank.
 * Owns: the connection and its streams. Invariants: no handler is called before `open` has
 * returned or after `close`; each stream ends with exactly one `onEnded` unless it was closed.
 * Refuses: nothing; it translates what went wrong into a closed list.
 * Does not do: decide, retry, keep state.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import {
  BridgeService,
  type KeyScheme,
  Projection,
  type SubscribeRequest,
  SubscribeRequestSchema,
  type SubscribeResponse,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { type DpRank, LIMITS, type ResumePoint } from "@kv-group-bridge/protocol";
import { type Clock, yieldToEventLoop } from "@kv-group-bridge/runtime";
import type { SubscriptionError } from "./subscription.ts";
import { type ClientTls, WideSessionManager } from "./wide-session-manager.ts";

export type { ClientTls };

/** Where a bridge is. `url` is http:// (h2c) or https://. */
export interface BridgeAddress {
  readonly url: string;
  readonly tls: ClientTls | undefined;
}

/** What happens on one stream. */
export interface StreamHandlers {
  /** The bridge accepted the call. */
  onOpened(): void;
  onMessage(message: SubscribeResponse): void;
  /** Last call. */
  onEnded(error: SubscriptionError): void;
}

/**
 * One bridge. Both methods are synchronous; handlers are called later and never after a `close`.
 */
export interface BridgeSource {
  /**
   * Opens the stream of one rank, from `resume` on if the bridge can; the returned function ends it.
   */
  open(dpRank: DpRank, handlers: StreamHandlers, resume: ResumePoint | undefined): () => void;
  /** Ends all streams and the connection. */
  close(): void;
}

/** A transport and what ends its connection. */
export interface BridgeTransport {
  readonly transport: Transport;
  close(): void;
}

/** What a source needs beside its transport. */
export interface ConnectSourceOptions {
  readonly keyScheme: KeyScheme;
  /** Measures how long messages were handled without a turn of the event loop. */
  readonly clock: Clock;
}

/** How a connection that is dead without a word is noticed. Default: the limits. */
export interface KeepaliveOptions {
  readonly keepaliveIntervalMs?: number;
  readonly keepaliveTimeoutMs?: number;
}

/**
 * A gRPC transport to one bridge over its own HTTP/2 connection with keepalive and wide windows.
 */
export function grpcTransport(
  address: BridgeAddress,
  keepalive: KeepaliveOptions = {},
): BridgeTransport {
  const sessions = new WideSessionManager(
    address.url,
    {
      pingIntervalMs: keepalive.keepaliveIntervalMs ?? LIMITS.keepaliveIntervalMs.value,
      pingTimeoutMs: keepalive.keepaliveTimeoutMs ?? LIMITS.keepaliveTimeoutMs.value,
      connectTimeoutMs: LIMITS.connectTimeoutMs.value,
    },
    address.tls ?? {},
  );
  const transport = createGrpcTransport({
    baseUrl: address.url,
    sessionManager: sessions,
    // Compression costs five times the throughput on keys, which do not compress.
    acceptCompression: [],
    readMaxBytes: LIMITS.responseBytes.value,
  });
  return { transport, close: () => sessions.abort() };
}

/** Follows ranks of one bridge over a transport. */
export class ConnectSource implements BridgeSource {
  private readonly bridge: BridgeTransport;
  private readonly client: Client<typeof BridgeService>;
  private readonly options: ConnectSourceOptions;
  private readonly streams = new Set<AbortController>();

  constructor(bridge: BridgeTransport, options: ConnectSourceOptions) {
    this.bridge = bridge;
    this.client = createClient(BridgeService, bridge.transport);
    this.options = options;
  }

  open(dpRank: DpRank, handlers: StreamHandlers, resume: ResumePoint | undefined): () => void {
    const controller = new AbortController();
    this.streams.add(controller);
    const request = create(SubscribeRequestSchema, {
      dpRank,
      projection: Projection.PREFIX_KEYS,
      keyScheme: this.options.keyScheme,
      ...resumeFields(resume),
    });
    void this.follow(request, handlers, controller);
    return () => controller.abort();
  }

  close(): void {
    for (const controller of this.streams) controller.abort();
    this.bridge.close();
  }

  /**
   * A handler that throws rejects this promise on purpose: that is our bug and ends the process.
   */
  private async follow(
    request: SubscribeRequest,
    handlers: StreamHandlers,
    controller: AbortController,
  ): Promise<void> {
    const { signal } = controller;
    const { clock } = this.options;
    const onHeader = (): void => {
      if (!signal.aborted) handlers.onOpened();
    };
    // Not in this tick: `open` returns before anything is called.
    await Promise.resolve();
    // A call that is made but never read would reject with nobody to hear it.
    if (signal.aborted) {
      this.streams.delete(controller);
      return;
    }
    let error: SubscriptionError | undefined;
    try {
      // Closed before it began: connect would reject a call that nobody reads.
      if (signal.aborted) return;
      const stream = this.client.subscribe(request, { signal, onHeader });
      const iterator = stream[Symbol.asyncIterator]();
      let sliceStartMs = clock.monotonicMs();
      while (!signal.aborted) {
        const next = await settle(iterator.next());
        if (signal.aborted) break;
        if (!next.ok) error = next.error;
        else if (next.value.done === true) error = "stream_ended";
        if (!next.ok || next.value.done === true) break;
        handlers.onMessage(next.value.value);
        if (clock.monotonicMs() - sliceStartMs < LIMITS.receiveSliceMs.value) continue;
        await yieldToEventLoop();
        sliceStartMs = clock.monotonicMs();
      }
    } finally {
      this.streams.delete(controller);
      const wasClosed = signal.aborted;
      controller.abort();
      if (!wasClosed && error !== undefined) handlers.onEnded(error);
    }
  }
}

function resumeFields(
  resume: ResumePoint | undefined,
): MessageInitShape<typeof SubscribeRequestSchema> {
  if (resume === undefined) return {};
  const { cursor, instance } = resume;
  const { epoch, sequence } = cursor;
  return {
    resume: { epoch, ...(sequence === undefined ? {} : { sequenceNumber: sequence }) },
    resumeInstance: instance,
  };
}

type Settled<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: SubscriptionError };

async function settle<T>(promise: Promise<T>): Promise<Settled<T>> {
  try {
    return { ok: true, value: await promise };
  } catch (error) {
    return { ok: false, error: classify(error) };
  }
}

/**
 * The closed-list name of a failed call. Codes are matched, never messages; connect-node 2.3 says
 * Canceled for a server that was killed and Internal for a refused handshake, so nearly all are
 * tried again.
 */
export function classify(error: unknown): SubscriptionError {
  switch (ConnectError.from(error).code) {
    case Code.Unavailable:
    case Code.Canceled:
    case Code.Aborted:
    case Code.DeadlineExceeded:
      return "bridge_unreachable";
    case Code.FailedPrecondition:
      return "key_scheme_mismatch";
    case Code.NotFound:
      return "rank_unknown";
    case Code.PermissionDenied:
      return "permission_denied";
    case Code.Unauthenticated:
      return "unauthenticated";
    case Code.Unimplemented:
      return "unimplemented";
    case Code.ResourceExhausted:
      return "resource_exhausted";
    case Code.OutOfRange:
    case Code.DataLoss:
      return "resume_refused";
    case Code.InvalidArgument:
      return "bridge_protocol";
    default:
      return "bridge_failed";
  }
}
