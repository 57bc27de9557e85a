/**
 * What it is: the adapter from one rank's ZMQ publisher to callbacks: frames and connection state.
 * Owns: one SUB socket, its reader loop and its monitor.
 * Refuses: frames over the limit: libzmq drops that connection, and this opens it again.
 * Does not do: read frames, count, compare topics (it subscribes to all; a foreign topic must be
 * visible as a refusal, not as silence), or decide what a lost connection means.
 */
import { KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import {
  type Cancel,
  type Clock,
  invariant,
  type Timers,
  yieldToEventLoop,
} from "@kv-group-bridge/runtime";
import { Subscriber } from "zeromq";
import { ConnectionTracker } from "./connection-tracker.ts";
import { type EndpointMode, engineAddress } from "./engine-endpoint.ts";

/** What a source needs. Callbacks are called one after the other, never inside `start`. */
export interface ZmqSourceOptions {
  /** As configured; see `engineAddress`. */
  readonly endpoint: string;
  readonly mode: EndpointMode;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Bound of one frame; default `LIMITS.frameBytes`. */
  readonly maxFrameBytes?: number;
  /**
   * One multipart message. The frames are views of memory that belongs to libzmq: keep none of
   * them, nor any part, after the call returns.
   */
  onMessage(frames: readonly Uint8Array[]): void;
  /** Called on each change; false before the first handshake is not said. */
  onConnection(isConnected: boolean): void;
  /**
   * The socket failed (`engine_socket_failed`), or a callback threw: our bug. The source is closed
   * then.
   */
  onFailure(error: unknown): void;
}

const HEARTBEAT_INTERVAL_MS = 5_000;
const HEARTBEAT_TIMEOUT_MS = 15_000;
/**
 * After an oversized frame libzmq never connects again. A normal loss is retried within one
 * interval.
 */
const ZOMBIE_AFTER_MS = 1_000;

/** One rank's publisher. `start` opens, `close` ends it for good. */
export class ZmqSource {
  private readonly options: ZmqSourceOptions;
  private readonly address: string;
  private readonly tracker = new ConnectionTracker();
  private socket: Subscriber | undefined;
  private reader: Promise<void> | undefined;
  private cancelCure: Cancel | undefined;

  /** Fails with `engine_endpoint_invalid`. Opens nothing. */
  constructor(options: ZmqSourceOptions) {
    this.options = options;
    this.address = engineAddress(options.endpoint, options.mode);
  }

  /**
   * Opens the socket and returns its address: as bound, or as connected to. A connection that does
   * not come about is no failure: libzmq tries again for ever. Fails with `engine_socket_failed`.
   */
  async start(): Promise<string> {
    invariant(this.socket === undefined, "a source is started once");
    const socket = new Subscriber({
      receiveHighWaterMark: LIMITS.zmqReceiveHighWaterMark.value,
      maxMessageSize: this.options.maxFrameBytes ?? LIMITS.frameBytes.value,
      heartbeatInterval: HEARTBEAT_INTERVAL_MS,
      heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
      reconnectInterval: LIMITS.reconnectMinMs.value,
      reconnectMaxInterval: LIMITS.reconnectMaxMs.value,
      ipv6: true,
      linger: 0,
    });
    this.socket = socket;
    this.monitor(socket);
    try {
      socket.subscribe("");
      if (this.options.mode === "bind") await socket.bind(this.address);
      else socket.connect(this.address);
    } catch (cause) {
      socket.close();
      throw socketFailed(this.address, cause);
    }
    this.reader = this.read(socket);
    return socket.lastEndpoint ?? this.address;
  }

  /**
   * Resolves when the socket is closed and no callback can follow. May be called at any time, twice
   * too.
   */
  async close(): Promise<void> {
    this.cancelCure?.();
    this.cancelCure = undefined;
    if (this.socket?.closed === false) this.socket.close();
    await this.reader;
  }

  /**
   * Always inside `receive`: libzmq renews a subscription after a reconnect only while somebody
   * waits. It hands out hundreds of messages without a turn of the event loop, so this gives way by
   * time.
   */
  private async read(socket: Subscriber): Promise<void> {
    const { options } = this;
    const { clock } = options;
    let sliceBeginMs = clock.monotonicMs();
    try {
      while (!socket.closed) {
        options.onMessage(await socket.receive());
        if (clock.monotonicMs() - sliceBeginMs < LIMITS.receiveSliceMs.value) continue;
        await yieldToEventLoop();
        sliceBeginMs = clock.monotonicMs();
      }
    } catch (error) {
      if (socket.closed && isErrnoException(error)) return;
      socket.close();
      options.onFailure(isErrnoException(error) ? socketFailed(this.address, error) : error);
    }
  }

  private monitor(socket: Subscriber): void {
    const { events } = socket;
    events.on("handshake", () => this.tell(this.tracker.handshake()));
    events.on("handshake:error:protocol", () => this.tracker.handshakeFailed());
    events.on("handshake:error:auth", () => this.tracker.handshakeFailed());
    events.on("handshake:error:other", () => this.tracker.handshakeFailed());
    events.on("disconnect", () => {
      this.tell(this.tracker.disconnect());
      this.armCure(socket);
    });
    const disarm = (): void => {
      this.cancelCure?.();
      this.cancelCure = undefined;
    };
    events.on("connect", disarm);
    events.on("connect:delay", disarm);
    events.on("connect:retry", disarm);
  }

  /** The monitor reads a queue of its own, so an event may come after `close`: it is not told. */
  private tell(change: boolean | undefined): void {
    if (change !== undefined && this.socket?.closed === false) this.options.onConnection(change);
  }

  private armCure(socket: Subscriber): void {
    if (this.options.mode !== "connect" || socket.closed) return;
    this.cancelCure?.();
    this.cancelCure = this.options.timers.after(ZOMBIE_AFTER_MS, () => {
      this.cancelCure = undefined;
      if (socket.closed) return;
      try {
        socket.disconnect(this.address);
        socket.connect(this.address);
      } catch (cause) {
        socket.close();
        this.options.onFailure(socketFailed(this.address, cause));
      }
    });
  }
}

/** libzmq's failures carry a code; what a callback throws does not. */
function isErrnoException(error: unknown): error is Error & { readonly errno: number } {
  return error instanceof Error && "errno" in error && typeof error.errno === "number";
}

function socketFailed(address: string, cause: unknown): KvEventsError {
  return new KvEventsError("engine_socket_failed", `the socket of ${address} failed`, { cause });
}
