/**
 * What it is: connect-node's HTTP/2 session manager with wide flow-control windows, so that a
 * snapshot does not wait for one round trip every 64 kB.
 * Owns: one session at a time.
 * Refuses: nothing.
 * Does not do: reconnect by itself; the next request does.
 */
import type { ClientHttp2Stream, Http2Session } from "node:http2";
import { Http2SessionManager } from "@connectrpc/connect-node";

/** Certificates for a bridge; PEM. `cert` and `key` are the gateway's own, for mutual TLS. */
export interface ClientTls {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** Bytes in flight of one stream: some hundred milliseconds of snapshot on a long way. */
const STREAM_WINDOW_BYTES = 4 * 1024 * 1024;
/** Bytes in flight of the connection: four busy streams. */
const SESSION_WINDOW_BYTES = 16 * 1024 * 1024;

type RequestArguments = Parameters<Http2SessionManager["request"]>;
type PingOptions = NonNullable<ConstructorParameters<typeof Http2SessionManager>[1]>;

/** What `createGrpcTransport` takes as `sessionManager`. */
export class WideSessionManager {
  readonly authority: string;
  private readonly sessions: Http2SessionManager;
  private widened: Http2Session | undefined = undefined;

  constructor(url: string, pings: PingOptions, tls: ClientTls) {
    this.sessions = new Http2SessionManager(url, pings, {
      ...tls,
      settings: { initialWindowSize: STREAM_WINDOW_BYTES, enablePush: false },
    });
    this.authority = this.sessions.authority;
  }

  /** As `Http2SessionManager.request`. */
  async request(...args: RequestArguments): Promise<ClientHttp2Stream> {
    const stream = await this.sessions.request(...args);
    const session = stream.session;
    if (session !== undefined && session !== this.widened && !session.destroyed) {
      this.widened = session;
      session.setLocalWindowSize(SESSION_WINDOW_BYTES);
    }
    return stream;
  }

  /** As `Http2SessionManager.notifyResponseByteRead`. */
  notifyResponseByteRead(stream: ClientHttp2Stream): void {
    this.sessions.notifyResponseByteRead(stream);
  }

  /** Ends the connection and every stream on it. */
  abort(): void {
    this.sessions.abort();
  }
}
