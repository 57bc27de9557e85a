/**
 * What it is: the paths of the engine's LoRA adapters, read from its API: at the start, when an event names an adapter
 * whose path is not known, and from time to time. vLLM hashes an adapter's path and publishes its name alone.
 * Owns: when it is asked, the paths of now, what was counted.
 * Invariants: one request at a time; between two of them lies at least `loraPathsMinPauseMs`.
 * Refuses: nothing by throwing; a reading that failed is counted under its reason, and the paths of before stay.
 * Does not do: hash. A failure never ends the process.
 */
import { LIMITS, MAX_LORA_PATHS, type Result } from "@kv-group-bridge/protocol";
import {
  type Cancel,
  type Clock,
  type Log,
  RateLimitedLog,
  type Timers,
} from "@kv-group-bridge/runtime";
import type { EngineHttpError, EngineHttpFailure } from "./engine-http.ts";
import { MODELS_PATH, parseModels } from "./engine-http-models.ts";

/** What is needed of `EngineHttp`. */
export interface JsonSource {
  getJson(path: string): Promise<Result<unknown, EngineHttpError>>;
  close(): void;
}

/** What the reader needs. */
export interface LoraPathsOptions {
  readonly source: JsonSource;
  /** Of the engine's description: they win over what is read. */
  readonly stated: ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** All paths, whenever they are others than before. */
  readonly onPaths: (paths: ReadonlyMap<string, string>) => void;
  /** Our bug: the process should end. */
  readonly onBug: (error: unknown) => void;
}

/** What was counted since the start, and what is now. */
export interface LoraPathCounters {
  readonly read: number;
  readonly failed: ReadonlyMap<EngineHttpFailure, number>;
  /** Paths known now, stated ones included. */
  readonly paths: number;
  /** Adapters of the last list whose path was not taken. */
  readonly leftOut: number;
}

const REPEAT_INTERVAL_MS = 60_000;
const NOT_READ = "the paths of the engine's LoRA adapters could not be read";
const LEFT_OUT =
  "adapters in the engine's list without one usable path: their hashes are not recomputed";
const HINTS: Readonly<Record<EngineHttpFailure, string>> = {
  unreachable: "is the engine up, and is engine.http_url its API?",
  timeout: "the engine did not answer in time",
  redirected: "engine.http_url must be the engine's own address: redirects are not followed",
  unauthorized: "the engine wants a key: set engine.http_api_key_file, or correct it",
  bad_status: "is engine.http_url vLLM's API?",
  too_large: "is engine.http_url vLLM's API?",
  malformed: "is engine.http_url vLLM's API?",
  closed: "the bridge ends",
};

/** Reads the paths until it is closed. */
export class LoraPaths {
  private readonly options: LoraPathsOptions;
  private readonly repeats: RateLimitedLog;
  private readonly failed = new Map<EngineHttpFailure, number>();
  private paths: ReadonlyMap<string, string>;
  private read = 0;
  private leftOut = 0;
  /** Readings that failed one after the other. */
  private failures = 0;
  /** When the last reading ended; undefined = there was none. */
  private endedMs: number | undefined = undefined;
  private isAsking = false;
  private isWanted = false;
  private isClosed = false;
  private cancel: Cancel | undefined = undefined;

  constructor(options: LoraPathsOptions) {
    this.options = options;
    this.paths = options.stated;
    this.repeats = new RateLimitedLog({
      log: options.log,
      intervalMs: REPEAT_INTERVAL_MS,
      maxKeys: Object.keys(HINTS).length + 1,
    });
  }

  /** Asks for the first time. */
  start(): void {
    this.plan();
  }

  /** A path is missing: asks as soon as the pause allows. Cheap enough for every event. */
  want(): void {
    if (this.isWanted) return;
    this.isWanted = true;
    if (this.endedMs !== undefined) this.plan();
  }

  /** For metrics. */
  counters(): LoraPathCounters {
    const { read, failed, leftOut } = this;
    return { read, failed, leftOut, paths: this.paths.size };
  }

  /** Ends timer and request. Nothing is told any more. */
  close(): void {
    this.isClosed = true;
    this.cancel?.();
    this.options.source.close();
  }

  private plan(): void {
    if (this.isAsking || this.isClosed) return;
    this.cancel?.();
    const { clock, timers } = this.options;
    const nowMs = clock.monotonicMs();
    const dueMs = this.endedMs === undefined ? nowMs : this.endedMs + this.pauseMs();
    this.cancel = timers.after(Math.max(0, dueMs - nowMs), () => this.ask());
  }

  private pauseMs(): number {
    const leastMs = LIMITS.loraPathsMinPauseMs.value;
    const mostMs = LIMITS.loraPathsIntervalMs.value;
    if (this.isWanted) return leastMs;
    return this.failures === 0 ? mostMs : Math.min(mostMs, leastMs * 2 ** (this.failures - 1));
  }

  private ask(): void {
    const wasWanted = this.isWanted;
    this.isAsking = true;
    this.isWanted = false;
    this.options.source
      .getJson(MODELS_PATH)
      .then((result) => this.answered(result, wasWanted))
      .catch((error: unknown) => this.options.onBug(error));
  }

  private answered(result: Result<unknown, EngineHttpError>, wasWanted: boolean): void {
    if (this.isClosed) return;
    this.isAsking = false;
    this.endedMs = this.options.clock.monotonicMs();
    const listed = result.ok ? parseModels(result.value) : undefined;
    if (listed !== undefined) this.take(listed.paths, listed.leftOut);
    else {
      this.fail(result.ok ? { reason: "malformed" } : result.error);
      // What was missing still is.
      this.isWanted ||= wasWanted;
    }
    this.plan();
  }

  private take(listed: ReadonlyMap<string, string>, leftOut: number): void {
    const { stated, log, onPaths } = this.options;
    const paths = merged(stated, listed);
    this.read += 1;
    this.leftOut = leftOut;
    if (leftOut > 0) this.repeats.warn("left out", this.endedMs ?? 0, { leftOut }, LEFT_OUT);
    const isNews = this.read === 1 || this.failures > 0;
    this.failures = 0;
    const isChanged = !areEqual(paths, this.paths);
    this.paths = paths;
    if (isNews || isChanged)
      log.info({ paths: paths.size }, "the engine's list of LoRA adapters was read");
    if (isChanged) onPaths(paths);
  }

  private fail(error: EngineHttpError): void {
    const { reason } = error;
    this.failures += 1;
    this.failed.set(reason, (this.failed.get(reason) ?? 0) + 1);
    const message = `${NOT_READ}: ${HINTS[reason]}`;
    this.repeats.warn(reason, this.endedMs ?? 0, { ...error }, message);
  }
}

/** Stated ones first: they win, and are never what the bound leaves out. */
function merged(
  stated: ReadonlyMap<string, string>,
  listed: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const all = new Map(stated);
  for (const [name, path] of listed) {
    if (all.size >= MAX_LORA_PATHS) break;
    if (!stated.has(name)) all.set(name, path);
  }
  return all;
}

function areEqual(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  if (a.size !== b.size) return false;
  for (const [name, path] of a) if (b.get(name) !== path) return false;
  return true;
}
