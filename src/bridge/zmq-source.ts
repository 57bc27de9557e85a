/**
 * What it is: the adapter from one rank's ZMQ publisher to callbacks: frames and connection state.
 * Owns: one SUB socket, its reader loop and its monitor.
 * Refuses: frames over the limit: libzmq drops that connection, and this opens it again.
 * Does not do: read frames, count, compare topics (it subscribes to all; a foreign topic must be
 * visible as a refusal, not as silence), or decide what a lost connection means.
 */
import { LIMITS } from "@kv-group-bridge/protocol";
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
import { isSocketError, socketFailed } from "./socket-error.ts";

/** What a source needs. Callbacks are called one after the other, never inside `start`. */
export interface ZmqSourceOptions {
  /** As configured; see `engineAddress`. */
  readonly endpoint: string;
  readonly mode: EndpointMode;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Bound of one frame; default `LIMITS.frameBytes`. */
  readonly maxFrameBytes?: number;
  /** ZMTP pings; default `LIMITS.zmqHeartbeatIntervalMs` and `LIMITS.zmqHeartbeatTimeoutMs`. */
  readonly heartbeat?: { readonly intervalMs: number; readonly timeoutMs: number };
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

/** One rank's publisher. `start` opens, `reopen` begins anew, `close` ends it for good. */
export class ZmqSource {
  private readonly options: ZmqSourceOptions;
  private readonly address: string;
  /** The socket whose messages and events count; undefined before `start` and while reopening. */
  private socket: Subscriber | undefined;
  private reader: Promise<void> | undefined;
  private isClosed = false;
  /** As last told. */
  private isConnected = false;
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
    const socket = this.open();
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
   * Leaves the present connection for a new one, which looks the name up anew and depends on
   * nothing of the old one. No message of the old socket arrives any more; the loss is told in a
   * later turn, the new connection when it stands. Does nothing where the bridge binds, after a
   * failure or after `close`.
   */
  reopen(): void {
    const { socket } = this;
    if (this.options.mode === "bind" || socket === undefined || socket.closed) return;
    this.socket = undefined;
    this.disarmCure();
    socket.close();
    this.reader = this.beginAnew(this.reader);
  }

  /**
   * Resolves when the socket is closed and no callback can follow. May be called at any time, twice
   * too.
   */
  async close(): Promise<void> {
    this.isClosed = true;
    this.disarmCure();
    if (this.socket?.closed === false) this.socket.close();
    await this.reader;
  }

  private open(): Subscriber {
    const { maxFrameBytes, heartbeat } = this.options;
    const socket = new Subscriber({
      receiveHighWaterMark: LIMITS.zmqReceiveHighWaterMark.value,
      maxMessageSize: maxFrameBytes ?? LIMITS.frameBytes.value,
      heartbeatInterval: heartbeat?.intervalMs ?? LIMITS.zmqHeartbeatIntervalMs.value,
      heartbeatTimeout: heartbeat?.timeoutMs ?? LIMITS.zmqHeartbeatTimeoutMs.value,
      reconnectInterval: LIMITS.reconnectMinMs.value,
      reconnectMaxInterval: LIMITS.zmqReconnectMaxMs.value,
      ipv6: true,
      linger: 0,
    });
    this.socket = socket;
    this.monitor(socket);
    return socket;
  }

  private async beginAnew(oldReader: Promise<void> | undefined): Promise<void> {
    await oldReader;
    await yieldToEventLoop();
    if (this.isClosed) return;
    try {
      if (this.isConnected) this.tellChange(false);
      if (this.isClosed) return;
      const socket = this.open();
      socket.subscribe("");
      socket.connect(this.address);
      await this.read(socket);
    } catch (error) {
      this.socket?.close();
      this.options.onFailure(isSocketError(error) ? socketFailed(this.address, error) : error);
    }
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
        const frames = await socket.receive();
        if (socket.closed) return;
        options.onMessage(frames);
        if (clock.monotonicMs() - sliceBeginMs < LIMITS.receiveSliceMs.value) continue;
        await yieldToEventLoop();
        sliceBeginMs = clock.monotonicMs();
      }
    } catch (error) {
      if (socket.closed && isSocketError(error)) return;
      socket.close();
      options.onFailure(isSocketError(error) ? socketFailed(this.address, error) : error);
    }
  }

  private monitor(socket: Subscriber): void {
    const { events } = socket;
    const tracker = new ConnectionTracker();
    // The monitor reads a queue of its own, so an event may come after `close`: it is not told.
    const tell = (change: boolean | undefined): void => {
      if (change !== undefined && !socket.closed) this.tellChange(change);
    };
    events.on("handshake", () => tell(tracker.handshake()));
    events.on("handshake:error:protocol", () => tracker.handshakeFailed());
    events.on("handshake:error:auth", () => tracker.handshakeFailed());
    events.on("handshake:error:other", () => tracker.handshakeFailed());
    events.on("disconnect", () => {
      tell(tracker.disconnect());
      this.armCure(socket);
    });
    const disarm = (): void => {
      if (!socket.closed) this.disarmCure();
    };
    events.on("connect", disarm);
    events.on("connect:delay", disarm);
    events.on("connect:retry", disarm);
  }

  private tellChange(isConnected: boolean): void {
    this.isConnected = isConnected;
    this.options.onConnection(isConnected);
  }

  private armCure(socket: Subscriber): void {
    if (this.options.mode !== "connect" || socket.closed) return;
    this.disarmCure();
    this.cancelCure = this.options.timers.after(LIMITS.zmqZombieMs.value, () => {
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

  private disarmCure(): void {
    this.cancelCure?.();
    this.cancelCure = undefined;
  }
}
