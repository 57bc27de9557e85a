/**
 * What it is: one bounded GET of JSON from the engine's HTTP API.
 * Owns: the request under way, and the closed list of reasons why there is no answer.
 * Refuses: redirects, any status but 200, a body over `engineHttpBytes`, one that is not JSON, an answer that is not
 * whole within `engineHttpTimeoutMs`.
 * Does not do: repeat, log, or know what the JSON means.
 */
import { LIMITS, type Result } from "@kv-group-bridge/protocol";
import { systemCode, type Timers } from "@kv-group-bridge/runtime";

/** What is needed of Node's `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Where the engine's API is. */
export interface EngineHttpSettings {
  /** Scheme, host and port, without a slash at the end; see `parseHttpOrigin`. */
  readonly origin: string;
  /** Sent as bearer token: a secret. Undefined = none. */
  readonly apiKey: string | undefined;
}

/** Why there is no answer. "closed": the bridge ends. */
export const ENGINE_HTTP_FAILURES = [
  "unreachable",
  "timeout",
  "redirected",
  "unauthorized",
  "bad_status",
  "too_large",
  "malformed",
  "closed",
] as const;

/** One of `ENGINE_HTTP_FAILURES`. */
export type EngineHttpFailure = (typeof ENGINE_HTTP_FAILURES)[number];

/** Why, and what a person may want to know beside it. Nothing in it is from a body. */
export interface EngineHttpError {
  readonly reason: EngineHttpFailure;
  /** The status of an answer that was refused by its status. */
  readonly status?: number | undefined;
  /** The system's code of an engine that is unreachable, where there is one. */
  readonly code?: string | undefined;
}

/** The seams to the world. */
export interface EngineHttpDeps {
  readonly fetch: Fetch;
  readonly timers: Timers;
}

/** The engine's API. One request at a time. */
export class EngineHttp {
  private readonly settings: EngineHttpSettings;
  private readonly deps: EngineHttpDeps;
  private abort: AbortController | undefined = undefined;
  private isClosed = false;

  constructor(settings: EngineHttpSettings, deps: EngineHttpDeps) {
    this.settings = settings;
    this.deps = deps;
  }

  /** The JSON at a path that begins with "/". Never rejects. */
  async getJson(path: string): Promise<Result<unknown, EngineHttpError>> {
    if (this.isClosed) return failed("closed");
    const abort = new AbortController();
    this.abort = abort;
    let isLate = false;
    const cancel = this.deps.timers.after(LIMITS.engineHttpTimeoutMs.value, () => {
      isLate = true;
      abort.abort();
    });
    try {
      return await this.request(path, abort.signal);
    } catch (error) {
      if (this.isClosed) return failed("closed");
      return isLate ? failed("timeout") : failed("unreachable", { code: causeCode(error) });
    } finally {
      cancel();
      // Ends what is left of a body that nobody wants.
      abort.abort();
      this.abort = undefined;
    }
  }

  /** Ends the request under way; it fails as "closed". Further ones do too. */
  close(): void {
    this.isClosed = true;
    this.abort?.abort();
  }

  private async request(
    path: string,
    signal: AbortSignal,
  ): Promise<Result<unknown, EngineHttpError>> {
    const { origin, apiKey } = this.settings;
    const response = await this.deps.fetch(origin + path, {
      method: "GET",
      redirect: "manual",
      signal,
      headers: {
        accept: "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
    });
    const { status } = response;
    const reason = statusFailure(status);
    if (reason !== undefined) return failed(reason, { status });
    const bytes = await readBody(response, LIMITS.engineHttpBytes.value);
    if (bytes === undefined) return failed("too_large");
    try {
      const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
      return { ok: true, value };
    } catch {
      return failed("malformed");
    }
  }
}

/**
 * Scheme, host and port of an http:// or https:// URL, as `EngineHttpSettings.origin` has it. Undefined: not a URL, or
 * one with credentials, a path, a query or a fragment.
 */
export function parseHttpOrigin(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isBare =
    ["http:", "https:"].includes(url.protocol) &&
    url.username === "" &&
    url.password === "" &&
    url.pathname === "/" &&
    !/[?#@\\]|\s/.test(text);
  return isBare ? url.origin : undefined;
}

function failed(
  reason: EngineHttpFailure,
  detail: Omit<EngineHttpError, "reason"> = {},
): { readonly ok: false; readonly error: EngineHttpError } {
  return { ok: false, error: { reason, ...detail } };
}

function statusFailure(status: number): EngineHttpFailure | undefined {
  if (status === 200) return undefined;
  if (status >= 300 && status < 400) return "redirected";
  return status === 401 || status === 403 ? "unauthorized" : "bad_status";
}

/** The whole body, unpacked; undefined = it is longer. Leaving the loop ends the body's stream. */
async function readBody(response: Response, maxBytes: number): Promise<Uint8Array | undefined> {
  if (response.body === null) return new Uint8Array(0);
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of response.body) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}

/** Node's fetch says what happened in the cause of its error. */
function causeCode(error: unknown): string | undefined {
  return error instanceof Error ? (systemCode(error.cause) ?? systemCode(error)) : undefined;
}
