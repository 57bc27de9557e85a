/**
 * What it is: one endpoint as configured → the endpoint of each rank, by vLLM's own rule: the base
 * port plus the rank, or plus the rank's place in the list.
 * Owns: nothing.
 * Refuses: ports beyond 65535, one ipc path or one port `*` for several ranks, a replay endpoint
 * that meets an event endpoint. Messages name the field.
 * Does not do: connect, or resolve names.
 */
import { type DpRank, KvEventsError } from "@kv-group-bridge/protocol";
import { type EndpointMode, engineAddress } from "./engine-endpoint.ts";

/** What is added to the base port: the rank's number, or its place in the list of ranks. */
export const PORT_OFFSETS = ["rank", "index"] as const;

/** One of `PORT_OFFSETS`. */
export type PortOffset = (typeof PORT_OFFSETS)[number];

/** The engine's endpoints as configured. */
export interface EndpointRequest {
  readonly endpoint: string;
  readonly replayEndpoint: string | undefined;
  readonly mode: EndpointMode;
  readonly dpRanks: readonly DpRank[];
  readonly portOffset: PortOffset;
}

/** Endpoints of one rank. */
export interface RankEndpoints {
  readonly dpRank: DpRank;
  readonly endpoint: string;
  /** Where its replay socket is; undefined = it has none. */
  readonly replayEndpoint: string | undefined;
}

/** In the order of `dpRanks`. Fails with `engine_endpoint_invalid` or `config_invalid`. */
export function rankEndpoints(request: EndpointRequest): readonly RankEndpoints[] {
  const { endpoint, replayEndpoint, mode } = request;
  const events = expand("engine.endpoint", endpoint, mode, request);
  const replays =
    replayEndpoint === undefined
      ? undefined
      : expand("engine.replay_endpoint", replayEndpoint, "connect", request);
  const taken = new Map(events.map((event, index) => [portOrPath(event), request.dpRanks[index]]));
  for (const [index, replay] of (replays ?? []).entries()) {
    const met = taken.get(portOrPath(replay));
    if (met === undefined) continue;
    const at = `${portOrPath(replay)} of rank ${request.dpRanks[index]}`;
    throw invalid("engine.replay_endpoint", `${at} is the event endpoint of rank ${met}`);
  }
  return request.dpRanks.map((dpRank, index) => ({
    dpRank,
    endpoint: events[index] ?? endpoint,
    replayEndpoint: replays?.[index],
  }));
}

function expand(
  field: string,
  endpoint: string,
  mode: EndpointMode,
  request: EndpointRequest,
): readonly string[] {
  checkForm(field, endpoint, mode);
  const { dpRanks, portOffset } = request;
  const base = portOrPath(endpoint);
  if (base === "*" || endpoint.startsWith("ipc://")) {
    if (dpRanks.length === 1) return [endpoint];
    const what = base === "*" ? "a free port" : "an ipc path";
    throw invalid(field, `${what} serves one rank; engine.dp_ranks lists ${dpRanks.length}`);
  }
  const stem = endpoint.slice(0, endpoint.length - base.length);
  return dpRanks.map((dpRank, index) => {
    const port = Number(base) + (portOffset === "rank" ? dpRank : index);
    if (port <= 65_535) return stem + String(port);
    throw invalid(field, `rank ${dpRank} would have port ${port}, which is beyond 65535`);
  });
}

function checkForm(field: string, endpoint: string, mode: EndpointMode): void {
  try {
    engineAddress(endpoint, mode);
  } catch (cause) {
    if (!(cause instanceof KvEventsError)) throw cause;
    throw new KvEventsError(cause.code, `${field}: ${cause.message}`, { cause });
  }
}

/** What tells two endpoints of one machine apart. */
function portOrPath(endpoint: string): string {
  if (endpoint.startsWith("ipc://")) return endpoint;
  return endpoint.slice(endpoint.lastIndexOf(":") + 1);
}

function invalid(field: string, reason: string): KvEventsError {
  return new KvEventsError("config_invalid", `${field}: ${reason}`);
}
