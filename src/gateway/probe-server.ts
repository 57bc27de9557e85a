/**
 * What it is: plain HTTP for probes and scrapes: /healthz, /readyz, /metrics.
 * Owns: its listener.
 * Refuses: other paths (404) and other methods than GET and HEAD (405).
 * Does not do: TLS or authentication; it carries counters only, never prompts or worker names.
 * Ready means "answers queries": a fleet of unreachable bridges shows in the answers' states, not
 * here.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { LIMITS } from "@kv-group-bridge/protocol";
import type { Metrics } from "@kv-group-bridge/runtime";
import { type ListenAddress, listen } from "./http-listener.ts";

/** A listening probe server. */
export interface ProbeServer {
  readonly address: ListenAddress;
  close(): Promise<void>;
}

/** A probe and a scraper need a handful. */
const MAX_CONNECTIONS = 64;

/** Listens, or fails with `listen_failed`. */
export async function startProbeServer(
  at: ListenAddress,
  metrics: Metrics,
  isReady: () => boolean,
): Promise<ProbeServer> {
  const server = createServer((request, response) => {
    answer(request, response, metrics, isReady).catch(() => response.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = LIMITS.http1SilenceMs.value;
  const address = await listen(server, at);
  return {
    address,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  metrics: Metrics,
  isReady: () => boolean,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    send(response, 405, "method not allowed\n");
    return;
  }
  switch (request.url?.split("?", 1)[0]) {
    case "/healthz":
      send(response, 200, "ok\n");
      return;
    case "/readyz":
      send(response, isReady() ? 200 : 503, isReady() ? "ready\n" : "draining\n");
      return;
    case "/metrics": {
      const { contentType, body } = await metrics.scrape();
      send(response, 200, body, contentType);
      return;
    }
    default:
      send(response, 404, "not found\n");
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  contentType = "text/plain",
): void {
  response.writeHead(status, { "content-type": contentType, "cache-control": "no-store" });
  response.end(body);
}
