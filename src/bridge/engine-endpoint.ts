/**
 * What it is: an engine's ZMQ endpoint as operators write it → the address that our socket uses.
 * Owns: nothing.
 * Refuses: other transports than tcp and ipc, missing or impossible ports, hosts with spaces or
 * slashes.
 * Does not do: resolve names, or add a rank to a port (config.ts does).
 */
import { isIPv6 } from "node:net";
import { KvEventsError } from "@kv-group-bridge/protocol";

/**
 * Who binds. vLLM binds for `*`, `::` and ipc, and connects otherwise: then the bridge must bind.
 */
export type EndpointMode = "connect" | "bind";

/** libzmq's bound: sun_path without its terminator. */
const MAX_IPC_PATH = 107;

/**
 * The address for `mode`. Connecting: the wildcards of the engine's own form (`*`, `0.0.0.0`, `::`)
 * become loopback, because the engine is our neighbour. Bare IPv6 hosts get brackets; the port is
 * what stands after the last colon. Binding: port `*` = any free one. Fails with
 * `engine_endpoint_invalid`.
 */
export function engineAddress(endpoint: string, mode: EndpointMode): string {
  if (endpoint.startsWith("ipc://")) return ipcAddress(endpoint);
  if (!endpoint.startsWith("tcp://")) throw invalid(endpoint, "only tcp:// and ipc:// are known");
  const rest = endpoint.slice("tcp://".length);
  const colon = rest.lastIndexOf(":");
  if (colon < 1) throw invalid(endpoint, "a host and a port are needed");
  const host = tcpHost(endpoint, rest.slice(0, colon), mode);
  return `tcp://${host}:${tcpPort(endpoint, rest.slice(colon + 1), mode)}`;
}

function ipcAddress(endpoint: string): string {
  const path = endpoint.slice("ipc://".length);
  if (path === "" || path === "*") throw invalid(endpoint, "a path is needed");
  if (Buffer.byteLength(path) > MAX_IPC_PATH) {
    throw invalid(endpoint, `the path is longer than ${MAX_IPC_PATH} bytes`);
  }
  return endpoint;
}

function tcpHost(endpoint: string, written: string, mode: EndpointMode): string {
  const isBracketed = written.startsWith("[") && written.endsWith("]");
  const host = isBracketed ? written.slice(1, -1) : written;
  if (isBracketed || host.includes(":")) {
    if (!isIPv6(host)) throw invalid(endpoint, "the host is not an IPv6 address");
    return mode === "connect" && isUnspecifiedV6(host) ? "[::1]" : `[${host}]`;
  }
  if (!/^(\*|[A-Za-z0-9._-]+)$/.test(host)) throw invalid(endpoint, "the host is not a name");
  return mode === "connect" && (host === "*" || host === "0.0.0.0") ? "127.0.0.1" : host;
}

function isUnspecifiedV6(host: string): boolean {
  return /^[0:]+$/.test(host);
}

function tcpPort(endpoint: string, text: string, mode: EndpointMode): string {
  if (text === "*" && mode === "bind") return text;
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw invalid(endpoint, "the port is not in 1 to 65535");
  return String(port);
}

function invalid(endpoint: string, reason: string): KvEventsError {
  return new KvEventsError("engine_endpoint_invalid", `engine endpoint "${endpoint}": ${reason}`);
}
