/**
 * What it is: the reading of LoRA adapters' paths as a part of a bridge: made from its settings, with its metrics.
 * Owns: when there is such a part, and the names of the metrics.
 * Refuses: nothing.
 * Does not do: read or count (lora-paths.ts does).
 */
import type { Clock, Log, Metrics, Timers } from "@kv-group-bridge/runtime";
import type { EngineConfig } from "./engine-config.ts";
import {
  ENGINE_HTTP_FAILURES,
  EngineHttp,
  type EngineHttpSettings,
  type Fetch,
} from "./engine-http.ts";
import { type LoraPathCounters, LoraPaths } from "./lora-paths.ts";

/** What of a bridge's settings concerns it. */
export interface LoraPathSettings {
  readonly engine: EngineConfig;
  readonly engineHttp?: EngineHttpSettings | undefined;
}

/** The seams to the world. */
export interface LoraPathDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Default: Node's own. */
  readonly fetch?: Fetch | undefined;
  onFatal(error: unknown): void;
}

/** Undefined: there is no API to ask, or nothing is recomputed and no path is of use. Not started yet. */
export function loraPathsOf(
  settings: LoraPathSettings,
  deps: LoraPathDeps,
  onPaths: (paths: ReadonlyMap<string, string>) => void,
): LoraPaths | undefined {
  const { engine, engineHttp } = settings;
  if (engineHttp === undefined || !engine.hashing.isRecognised) return undefined;
  const { clock, timers, log, metrics } = deps;
  const loraPaths = new LoraPaths({
    source: new EngineHttp(engineHttp, { fetch: deps.fetch ?? fetch, timers }),
    stated: engine.hashing.loraPaths,
    clock,
    timers,
    log,
    onPaths,
    onBug: (error) => deps.onFatal(error),
  });
  registerMetrics(metrics, () => loraPaths.counters());
  return loraPaths;
}

function registerMetrics(metrics: Metrics, counters: () => LoraPathCounters): void {
  metrics.counter({
    name: "kvgroup_bridge_lora_path_reads_total",
    help: "Readings of the engine's list of LoRA adapters, by result: ok, or why there was none",
    labels: ["result"],
    *read() {
      const { read, failed } = counters();
      yield { labels: { result: "ok" }, value: read };
      for (const result of ENGINE_HTTP_FAILURES) {
        if (result !== "closed") yield { labels: { result }, value: failed.get(result) ?? 0 };
      }
    },
  });
  metrics.gauge({
    name: "kvgroup_bridge_lora_paths",
    help: "LoRA adapters whose path is known, stated or read",
    read: () => [{ value: counters().paths }],
  });
  metrics.gauge({
    name: "kvgroup_bridge_lora_paths_left_out",
    help: "LoRA adapters of the engine's last list whose path was not taken",
    read: () => [{ value: counters().leftOut }],
  });
}
