/**
 * What it is: one port for HTTP/1.1 and HTTP/2: in cleartext told apart by the first bytes, with
 * TLS by ALPN.
 * Owns: the listener and its connections.
 * Refuses: clients without a certificate of the client CA, where one is given; connections that
 * say nothing.
 * Does not do: route requests, decide whether cleartext is safe here.
 */
import { createServer as createHttp1 } from "node:http";
import {
  createServer as createHttp2,
  createSecureServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import { createServer as createTcp, type Server, type Socket } from "node:net";
import type { connectNodeAdapter } from "@connectrpc/connect-node";
import { KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import { type Timers, withSystemCode } from "@kv-group-bridge/runtime";

/** Where a server listens. */
export interface ListenAddress {
  /** IPv6 without brackets. */
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
}

/** Key material as PEM text. */
export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  /** Given = every client must show a certificate of this CA. */
  readonly clientCa?: string | undefined;
}

type Handler = ReturnType<typeof connectNodeAdapter>;

/** Gateways are asked by routers over few connections; bounds file descriptors. */
const MAX_CONNECTIONS = 4_096;
const MAX_STREAMS_PER_SESSION = 1_024;
/** What an HTTP/2 client says first without TLS, and no HTTP/1.1 client does. */
const HTTP2_PREFACE = "PRI ";

/** A listener that listens once and closes once. */
export class HttpListener {
  private readonly timers: Timers;
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  private readonly sessions = new Set<ServerHttp2Session>();
  /** Cleartext connections that have not said what they speak. */
  private readonly undecided = new Set<Socket>();
  private readonly kept = new KeptConnections();

  /** Fails with `tls_invalid`. Does not listen. `silenceMs`: bound of silence on a cleartext HTTP/1.1 connection. */
  constructor(
    handle: Handler,
    tls: ServerTls | undefined,
    timers: Timers,
    silenceMs = LIMITS.http1SilenceMs.value,
  ) {
    this.timers = timers;
    const handler: Handler = (request, response) => {
      // An HTTP/2 session ends by itself, and its socket must not be touched.
      if (request.httpVersionMajor === 1) this.kept.request(request.socket, response);
      handle(request, response);
    };
    if (tls === undefined) {
      const http1 = createHttp1(handler);
      http1.timeout = silenceMs;
      const http2 = createHttp2(
        { settings: { maxConcurrentStreams: MAX_STREAMS_PER_SESSION } },
        handler,
      );
      this.track(http2);
      this.server = createTcp((socket) => this.route(socket, http1, http2));
    } else {
      const secure = createSecure(handler, tls);
      this.track(secure);
      this.server = secure;
    }
    this.server.maxConnections = MAX_CONNECTIONS;
    // With TLS these are the connections below it: a handshake that never ends is among them.
    this.server.on("connection", (socket: Socket) => {
      this.sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.once("close", () => this.sockets.delete(socket));
    });
  }

  /** Listens; fails with `listen_failed`. */
  listen(at: ListenAddress): Promise<ListenAddress> {
    return listen(this.server, at);
  }

  /** Takes no connection more, lets requests finish, and destroys what is left after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    if (!this.server.listening) return;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const session of this.sessions) session.close();
    this.kept.close();
    for (const socket of this.undecided) socket.destroy();
    const cancel = this.timers.after(graceMs, () => {
      for (const socket of this.sockets) socket.destroy();
    });
    await closed;
    cancel();
  }

  private track(server: Http2Server | Http2SecureServer): void {
    server.on("session", (session) => {
      this.sessions.add(session);
      session.on("error", () => session.destroy());
      session.once("close", () => this.sessions.delete(session));
    });
  }

  private route(socket: Socket, http1: ReturnType<typeof createHttp1>, http2: Http2Server): void {
    const cancel = this.timers.after(LIMITS.connectTimeoutMs.value, () => socket.destroy());
    this.undecided.add(socket);
    socket.once("close", () => {
      cancel();
      this.undecided.delete(socket);
    });
    let head = Buffer.alloc(0);
    const onReadable = (): void => {
      const chunk: unknown = socket.read();
      if (!Buffer.isBuffer(chunk)) return;
      head = Buffer.concat([head, chunk]);
      const start = head.toString("latin1", 0, HTTP2_PREFACE.length);
      if (start.length < HTTP2_PREFACE.length && HTTP2_PREFACE.startsWith(start)) return;
      cancel();
      this.undecided.delete(socket);
      socket.off("readable", onReadable);
      socket.unshift(head);
      (start === HTTP2_PREFACE ? http2 : http1).emit("connection", socket);
    };
    socket.on("readable", onReadable);
  }
}

/**
 * Which connections over HTTP/1.1 wait for a next request. Node knows that only of a server that listens itself, and
 * these are handed to theirs.
 */
class KeptConnections {
  /** Requests under way on each. */
  private readonly requests = new Map<Socket, number>();
  private isClosing = false;

  request(socket: Socket, response: Parameters<Handler>[1]): void {
    const before = this.requests.get(socket);
    if (before === undefined) socket.once("close", () => this.requests.delete(socket));
    this.requests.set(socket, (before ?? 0) + 1);
    response.once("close", () => this.answered(socket));
  }

  /** Ends those that wait, and the others once they are answered. */
  close(): void {
    this.isClosing = true;
    for (const [socket, requests] of this.requests) if (requests === 0) socket.destroy();
  }

  private answered(socket: Socket): void {
    const requests = this.requests.get(socket);
    if (requests === undefined) return;
    this.requests.set(socket, requests - 1);
    if (this.isClosing && requests === 1) socket.destroySoon();
  }
}

function createSecure(handler: Handler, tls: ServerTls): Http2SecureServer {
  const { key, cert, clientCa } = tls;
  const client =
    clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  const settings = { maxConcurrentStreams: MAX_STREAMS_PER_SESSION };
  const options = { key, cert, ...client, settings, allowHTTP1: true } as const;
  try {
    return createSecureServer({ ...options, minVersion: "TLSv1.3" }, handler);
  } catch (cause) {
    throw new KvEventsError("tls_invalid", "key, certificate or client CA cannot be used", {
      cause,
    });
  }
}

/** Resolves when the server listens; fails with `listen_failed`. */
export function listen(server: Server, at: ListenAddress): Promise<ListenAddress> {
  return new Promise((resolve, reject) => {
    const fail = (cause?: unknown): void => {
      const message = withSystemCode(`cannot listen on ${at.host} port ${at.port}`, cause);
      reject(new KvEventsError("listen_failed", message, { cause }));
    };
    server.once("error", fail);
    server.listen({ host: at.host, port: at.port }, () => {
      server.off("error", fail);
      const bound = server.address();
      if (bound === null || typeof bound === "string") fail();
      else resolve({ host: bound.address, port: bound.port });
    });
  });
}
