/**
 * What it is: the HTTP/2 listener of BridgeService: cleartext (h2c) or TLS 1.3, with client
 * certificates when a client CA is given.
 * Owns: the listener and its sessions; each session answers pings or is destroyed.
 * Refuses: oversized requests, HTTP/1, peers without a certificate of the client CA.
 * Does not do: decide whether cleartext is safe here (config.ts does), or reload certificates: that
 * is a restart, after which gateways subscribe again.
 */

import { setMaxListeners } from "node:events";
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import type { Socket } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { BridgeService } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import { type Cancel, repairAuthority, type Timers } from "@kv-group-bridge/runtime";
import { type ListenAddress, listen } from "./listen.ts";
import { type BridgeServiceOptions, bridgeService } from "./service.ts";
import { drainingError } from "./subscriber-stream.ts";

/** Key material as PEM text. */
export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  /** Given = every client must show a certificate of this CA. */
  readonly clientCa: string | undefined;
}

/** What the server needs. */
export interface BridgeServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Undefined = cleartext. */
  readonly tls: ServerTls | undefined;
  readonly service: Omit<BridgeServiceOptions, "shutdown">;
  readonly timers: Timers;
  /** Default `LIMITS.shutdownGraceMs`. */
  readonly shutdownGraceMs?: number;
}

/** A gateway has one connection with a stream per rank, and unary calls now and then. */
const MAX_STREAMS_PER_SESSION = 1_024;
/** Gateway replicas, probes and people with a shell; bounds file descriptors. */
const MAX_CONNECTIONS = 1_024;

/** A server that listens once and closes once. */
export class BridgeServer {
  private readonly options: BridgeServerOptions;
  private readonly shutdown = new AbortController();
  private readonly server: Http2Server | Http2SecureServer;
  private readonly sessions = new Set<ServerHttp2Session>();
  private readonly sockets = new Set<Socket>();
  private readonly unanswered = new Set<ServerHttp2Session>();
  private cancelPings: Cancel | undefined;
  private closing: Promise<void> | undefined;
  private onGone: (() => void) | undefined;

  /** Fails with `tls_invalid`. Does not listen. */
  constructor(options: BridgeServerOptions) {
    this.options = options;
    const { signal } = this.shutdown;
    setMaxListeners(0, signal);
    const connect = connectNodeAdapter({
      routes: (router) => {
        router.service(BridgeService, bridgeService({ ...options.service, shutdown: signal }));
      },
      acceptCompression: [],
      readMaxBytes: LIMITS.subscribeRequestBytes.value,
      // A request lives as long as its stream: what it carries beside its fields is dropped.
      binaryOptions: { readUnknownFields: false },
      writeMaxBytes: LIMITS.responseBytes.value,
      shutdownSignal: signal,
    });
    const handler: typeof connect = (request, response) => {
      repairAuthority(request);
      connect(request, response);
    };
    this.server = createListener(options.tls, handler);
    this.server.maxConnections = MAX_CONNECTIONS;
    this.server.on("session", (session) => this.track(session));
    this.server.on("connection", (socket: Socket) => {
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
    });
  }

  /** Listens; fails with `listen_failed`. */
  async start(): Promise<ListenAddress> {
    const address = await listen(this.server, this.options);
    this.cancelPings = this.options.timers.every(LIMITS.keepaliveIntervalMs.value, () =>
      this.pingAll(),
    );
    return address;
  }

  /** False once `close` was called. */
  get isServing(): boolean {
    return this.server.listening && this.closing === undefined;
  }

  /**
   * Ends every stream with UNAVAILABLE ("draining"), lets sessions finish, and destroys what is
   * left after the grace period. Resolves when nothing is open. A second call gives the first one's
   * promise.
   */
  close(): Promise<void> {
    this.closing ??= this.drain();
    return this.closing;
  }

  private async drain(): Promise<void> {
    this.cancelPings?.();
    this.shutdown.abort(drainingError());
    if (!this.server.listening) return;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const session of this.sessions) session.close();
    const graceMs = this.options.shutdownGraceMs ?? LIMITS.shutdownGraceMs.value;
    const cancelGrace = this.options.timers.after(graceMs, () => {
      for (const session of this.sessions) session.destroy();
      // A peer that never spoke, or that keeps its half open, has no session to destroy.
      for (const socket of this.sockets) socket.destroy();
    });
    await closed;
    // The listener's sockets are gone by now, but a session says so a turn later.
    while (this.sessions.size > 0) await new Promise<void>((resolve) => (this.onGone = resolve));
    cancelGrace();
  }

  private track(session: ServerHttp2Session): void {
    this.sessions.add(session);
    // A peer that resets is no failure of ours; the streams' signals tell the service.
    session.on("error", () => session.destroy());
    session.once("close", () => {
      this.sessions.delete(session);
      this.unanswered.delete(session);
      this.onGone?.();
    });
    if (this.closing !== undefined) session.close();
  }

  /** A peer that is gone without a word would hold its subscribers until TCP gives up. */
  private pingAll(): void {
    for (const session of this.sessions) {
      if (session.destroyed) continue;
      if (this.unanswered.has(session)) {
        session.destroy();
        continue;
      }
      this.unanswered.add(session);
      session.ping((error) => {
        if (error === null) this.unanswered.delete(session);
      });
    }
  }
}

function createListener(
  tls: ServerTls | undefined,
  handler: ReturnType<typeof connectNodeAdapter>,
): Http2Server | Http2SecureServer {
  const limits = { settings: { maxConcurrentStreams: MAX_STREAMS_PER_SESSION } };
  if (tls === undefined) return createServer(limits, handler);
  const { key, cert, clientCa } = tls;
  const client =
    clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  try {
    return createSecureServer({ ...limits, ...client, key, cert, minVersion: "TLSv1.3" }, handler);
  } catch (cause) {
    throw new KvEventsError("tls_invalid", "key, certificate or client CA cannot be used", {
      cause,
    });
  }
}
