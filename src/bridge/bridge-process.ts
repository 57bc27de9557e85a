/**
 * What it is: a whole bridge from its configuration: ranks, server, probes, heartbeats.
 * Owns: the order of opening and closing, and the one timer of the process.
 * Refuses: two ranks with one number, or none at all.
 * Does not do: read configuration or environment, handle signals, or exit (the caller does).
 */
import {
  type DpRank,
  type Epoch,
  KeyedHasher,
  KvEventsError,
  LIMITS,
} from "@kv-group-bridge/protocol";
import {
  type Clock,
  type Log,
  type Metrics,
  RateLimitedLog,
  type Timers,
} from "@kv-group-bridge/runtime";
import { registerBridgeMetrics } from "./bridge-metrics.ts";
import { BridgeRank, type CheckpointPlace } from "./bridge-rank.ts";
import { BridgeServer, type ServerTls } from "./bridge-server.ts";
import { CheckpointFile } from "./checkpoint-file.ts";
import { rankFingerprint } from "./checkpoint-fingerprint.ts";
import { loadCheckpoint } from "./checkpoint-load.ts";
import type { CheckpointSettings } from "./checkpoint-state.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { EndpointMode } from "./engine-endpoint.ts";
import type { EngineHttpSettings, Fetch } from "./engine-http.ts";
import { type HealthServer, startHealthServer } from "./health-server.ts";
import type { ListenAddress } from "./listen.ts";
import { loraPathsOf } from "./lora-path-service.ts";
import type { LoraPaths } from "./lora-paths.ts";
import { mirrorOptions } from "./mirror-options.ts";
import { keySchemeMessage } from "./rank-messages.ts";
import { StallWatch } from "./stall-watch.ts";

/** One data-parallel rank of the engine. */
export interface RankSettings {
  readonly dpRank: DpRank;
  /** Endpoint of this rank's publisher. */
  readonly endpoint: string;
  /** Of its replay socket; undefined = it has none. */
  readonly replayEndpoint?: string | undefined;
}

/** What `runBridge` needs of the configuration. */
export interface BridgeSettings {
  readonly ranks: readonly RankSettings[];
  readonly mode: EndpointMode;
  readonly topic: string | undefined;
  readonly engine: EngineConfig;
  /** The engine's API, for LoRA adapters' paths. Undefined = it is not asked. */
  readonly engineHttp?: EngineHttpSettings | undefined;
  /** The fleet's seed of the prefix keys. */
  readonly keySeed: string;
  readonly isEngineProjectionAllowed: boolean;
  /** Tokens are kept in memory so that ENGINE has snapshots too. Default false. */
  readonly hasEngineSnapshot?: boolean | undefined;
  /** Undefined = the limits' own values. */
  readonly subscriberQueueBytes: number | undefined;
  readonly subscribersPerRank: number | undefined;
  readonly heartbeatIntervalMs: number | undefined;
  /** Undefined = no checkpoints. */
  readonly checkpoint?: CheckpointSettings | undefined;
  readonly listen: ListenAddress & { readonly tls: ServerTls | undefined };
  /** Undefined = no probes. */
  readonly health: ListenAddress | undefined;
}

/** The seams to the world. */
export interface BridgeDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Gets this bridge's metrics registered. */
  readonly metrics: Metrics;
  readonly mintEpoch: () => Epoch;
  /** Names this process among all that ever served the ranks: a random fixed64, never 0. */
  readonly mintInstance: () => bigint;
  readonly bridgeVersion: string;
  /** Default: Node's own. */
  readonly fetch?: Fetch | undefined;
  /** Something that must end the process: our bug, or a socket that failed for good. */
  onFatal(error: unknown): void;
}

/** A bridge that serves. */
export interface RunningBridge {
  readonly address: ListenAddress;
  readonly healthAddress: ListenAddress | undefined;
  /**
   * Ends streams with UNAVAILABLE and closes everything within `LIMITS.shutdownGraceMs`.
   * Idempotent.
   */
  close(): Promise<void>;
}

/** Often enough for `LIMITS.stallMs`. */
const TURN_MS = LIMITS.stallMs.value / 4;
const STALL_LINE_MS = 60_000;
const STALLED =
  "this process stood still (stopped, suspended or short of CPU): answers were stale for a moment";

/**
 * Opens everything; what was opened is closed again when a later part fails. Serves before any
 * engine is there. Fails with `config_invalid`, `engine_endpoint_invalid`, `engine_socket_failed`,
 * `tls_invalid` or `listen_failed`.
 */
export async function runBridge(
  settings: BridgeSettings,
  deps: BridgeDeps,
): Promise<RunningBridge> {
  const hasher = new KeyedHasher(settings.keySeed);
  const stall = new StallWatch(deps.clock.monotonicMs());
  const loraPaths = loraPathsOf(settings, deps, (paths) => {
    for (const rank of ranks.values()) rank.setLoraPaths(paths);
  });
  const ranks = await makeRanks(settings, deps, { hasher, stall, loraPaths });
  const server = new BridgeServer({
    ...settings.listen,
    timers: deps.timers,
    service: {
      ranks,
      keyScheme: keySchemeMessage(hasher),
      isEngineProjectionAllowed: settings.isEngineProjectionAllowed,
      bridgeVersion: deps.bridgeVersion,
    },
  });
  registerBridgeMetrics(deps.metrics, [...ranks.values()]);
  const parts = new Parts();
  try {
    const health = await startHealth(settings, deps, server);
    if (health !== undefined) parts.add(() => health.close());
    const address = await server.start();
    parts.add(() => server.close());
    // Together: each may write a last checkpoint.
    parts.add(() => Promise.all([...ranks.values()].map((rank) => rank.close())));
    for (const rank of ranks.values()) await rank.start();
    const tick = (): void => {
      for (const rank of ranks.values()) rank.tick();
    };
    parts.add(deps.timers.every(heartbeatIntervalMs(settings), tick));
    if (loraPaths !== undefined) parts.add(() => loraPaths.close());
    loraPaths?.start();
    // What took long until here was the start: a large checkpoint, for one.
    stall.turn(deps.clock.monotonicMs());
    const stalls = new RateLimitedLog({ log: deps.log, intervalMs: STALL_LINE_MS, maxKeys: 1 });
    parts.add(deps.timers.every(TURN_MS, () => watchTurn(deps, stall, stalls, tick)));
    deps.log.info({ ...address, ranks: ranks.size }, "bridge serves");
    return { address, healthAddress: health?.address, close: () => parts.close() };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

/** Operator and subscribers learn at once that the process stood still, and these when it knows again. */
function watchTurn(
  { clock }: BridgeDeps,
  stall: StallWatch,
  stalls: RateLimitedLog,
  tick: () => void,
): void {
  const nowMs = clock.monotonicMs();
  const wasAwake = stall.isKnownAwake;
  const stalledMs = Math.round(stall.turn(nowMs));
  if (stalledMs > 0) stalls.warn("stall", nowMs, { stalledMs }, STALLED);
  if (stall.isKnownAwake !== wasAwake) tick();
}

/** What all ranks have in common. */
interface Shared {
  readonly hasher: KeyedHasher;
  readonly stall: StallWatch;
  readonly loraPaths: LoraPaths | undefined;
}

async function makeRanks(
  settings: BridgeSettings,
  deps: BridgeDeps,
  { hasher, stall, loraPaths }: Shared,
): Promise<ReadonlyMap<number, BridgeRank>> {
  const ranks = new Map<number, BridgeRank>();
  const instance = deps.mintInstance();
  for (const { dpRank, endpoint, replayEndpoint } of settings.ranks) {
    if (ranks.has(dpRank)) throw new KvEventsError("config_invalid", `rank ${dpRank} stands twice`);
    const rank = new BridgeRank({
      dpRank,
      endpoint,
      replayEndpoint,
      mode: settings.mode,
      topic: settings.topic,
      engine: settings.engine,
      hasher,
      isEngineProjectionAllowed: settings.isEngineProjectionAllowed,
      hasEngineSnapshot: settings.hasEngineSnapshot,
      queueBytes: settings.subscriberQueueBytes,
      maxSubscribers: settings.subscribersPerRank,
      heartbeatIntervalMs: heartbeatIntervalMs(settings),
      checkpoints: await checkpointPlace(settings, deps, hasher, dpRank),
      onLoraPathWanted: () => loraPaths?.want(),
      mintEpoch: deps.mintEpoch,
      instance,
      clock: deps.clock,
      isAwake: () => stall.isAwake(deps.clock.monotonicMs()),
      timers: deps.timers,
      log: deps.log,
      onFatal: (error) => deps.onFatal(error),
    });
    ranks.set(dpRank, rank);
  }
  if (ranks.size === 0) throw new KvEventsError("config_invalid", "no rank is configured");
  return ranks;
}

async function checkpointPlace(
  settings: BridgeSettings,
  deps: BridgeDeps,
  hasher: KeyedHasher,
  dpRank: DpRank,
): Promise<CheckpointPlace | undefined> {
  if (settings.checkpoint === undefined) return undefined;
  const { directory, intervalMs } = settings.checkpoint;
  const file = new CheckpointFile(directory, dpRank);
  const { engine, topic } = settings;
  const expected = {
    dpRank,
    fingerprint: rankFingerprint({ engine, hasher, dpRank, topic }),
    mirror: mirrorOptions({ engine }),
  };
  const found = await loadCheckpoint(file, expected, deps.log.child({ dpRank }));
  return { file, intervalMs, found };
}

async function startHealth(
  settings: BridgeSettings,
  deps: BridgeDeps,
  server: BridgeServer,
): Promise<HealthServer | undefined> {
  if (settings.health === undefined) return undefined;
  return startHealthServer({
    ...settings.health,
    isReady: () => server.isServing,
    metrics: () => deps.metrics.scrape(),
  });
}

function heartbeatIntervalMs(settings: BridgeSettings): number {
  return settings.heartbeatIntervalMs ?? LIMITS.heartbeatIntervalMs.value;
}

/** What is open: closed in reverse order, once. One failure does not keep the others open. */
class Parts {
  private readonly closers: (() => unknown)[] = [];
  private closing: Promise<void> | undefined;

  add(close: () => unknown): void {
    this.closers.push(close);
  }

  close(): Promise<void> {
    this.closing ??= this.closeAll();
    return this.closing;
  }

  private async closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.closers.reverse()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
