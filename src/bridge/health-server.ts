/**
 * What it is: plain HTTP for probes and scrapes: /healthz, /readyz, /metrics.
 * Owns: its listener.
 * Refuses: other paths (404) and other methods than GET and HEAD (405).
 * Does not do: TLS or authentication; it carries counters only, never prompts. Ready means "serving
 * the stream", not "the engine is there": a bridge may wait ten minutes for a model to load.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { KvEventsError } from "@kv-group-bridge/protocol";
import type { Scrape } from "@kv-group-bridge/runtime";
import { type ListenAddress, listen } from "./listen.ts";

/** What the probes ask. */
export interface HealthOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** True while new subscriptions are served. */
  isReady(): boolean;
  /** A scrape in the Prometheus text format. */
  metrics(): Promise<Scrape>;
}

/** A listening health server. */
export interface HealthServer {
  readonly address: ListenAddress;
  close(): Promise<void>;
}

/** Bounds a scrape's connections; a probe and a scraper need a handful. */
const MAX_CONNECTIONS = 64;

/** Listens, or fails with `listen_failed`. */
export async function startHealthServer(options: HealthOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    answer(options, request, response).catch(() => fail(response));
  });
  server.maxConnections = MAX_CONNECTIONS;
  const address = await listen(server, options);
  return { address, close: () => closeServer(server) };
}

async function answer(
  options: HealthOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    send(response, 405, "text/plain", "method not allowed\n");
    return;
  }
  const [path = ""] = (request.url ?? "").split("?", 1);
  switch (path) {
    case "/healthz":
      send(response, 200, "text/plain", "ok\n");
      return;
    case "/readyz":
      if (options.isReady()) send(response, 200, "text/plain", "ready\n");
      else send(response, 503, "text/plain", "draining\n");
      return;
    case "/metrics": {
      const { contentType, body } = await options.metrics();
      send(response, 200, contentType, body);
      return;
    }
    default:
      send(response, 404, "text/plain", "not found\n");
  }
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { "content-type": contentType, "cache-control": "no-store" });
  response.end(body);
}

function fail(response: ServerResponse): void {
  if (response.headersSent) response.destroy();
  else send(response, 500, "text/plain", "metrics failed\n");
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.close((error) => {
      if (error === undefined) resolve();
      else reject(new KvEventsError("listen_failed", "the health server was not open"));
    });
    server.closeAllConnections();
  });
}
