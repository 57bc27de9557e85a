/**
 * What it is: a whole gateway service from its configuration: the library, ScoreService, probes.
 * Owns: the order of opening and closing.
 * Refuses: nothing by itself; settings are refused by the parts that use them.
 * Does not do: read configuration or environment, handle signals, or exit (the caller does).
 */
import { setMaxListeners } from "node:events";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ScoreService } from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import { LIMITS } from "@kv-group-bridge/protocol";
import {
  type Clock,
  type Log,
  type Metrics,
  type Randomness,
  repairAuthority,
  type Timers,
} from "@kv-group-bridge/runtime";
import type { UnseenGroupPolicy } from "./answer.ts";
import { createGateway, type Gateway } from "./gateway.ts";
import { HttpListener, type ListenAddress, type ServerTls } from "./http-listener.ts";
import { type ProbeServer, startProbeServer } from "./probe-server.ts";
import { scoreService } from "./score-service.ts";
import type { WorkerSettings } from "./worker.ts";

/** What `runGateway` needs of the configuration. Undefined = the default of the library. */
export interface GatewaySettings {
  /** The fleet's seed of the prefix keys. */
  readonly keySeed: string;
  readonly workers: readonly WorkerSettings[];
  readonly unseenGroupPolicy?: UnseenGroupPolicy | undefined;
  readonly staleAfterMs?: number | undefined;
  readonly maxNodes?: number | undefined;
  readonly maxEntriesPerRank?: number | undefined;
  readonly listen: ListenAddress & { readonly tls?: ServerTls | undefined };
  /** Undefined = no probes and no metrics. */
  readonly health?: ListenAddress | undefined;
}

/** The seams to the world. */
export interface GatewayDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A gateway that serves. */
export interface RunningGateway {
  /** Workers may be added and removed while it runs. */
  readonly gateway: Gateway;
  readonly address: ListenAddress;
  readonly healthAddress: ListenAddress | undefined;
  /** Lets requests finish within `LIMITS.shutdownGraceMs` and forgets every worker. Idempotent. */
  close(): Promise<void>;
}

/**
 * Opens everything; what was opened is closed again when a later part fails. Serves before any
 * bridge is there. Fails with `config_invalid`, `worker_exists`, `worker_limit`, `tls_invalid` or
 * `listen_failed`.
 */
export async function runGateway(
  settings: GatewaySettings,
  deps: GatewayDeps,
): Promise<RunningGateway> {
  const gateway = makeGateway(settings, deps);
  const shutdown = new AbortController();
  let listener: HttpListener | undefined;
  let probes: ProbeServer | undefined;
  let closing: Promise<void> | undefined;
  const drain = async (): Promise<void> => {
    shutdown.abort(new ConnectError("draining", Code.Unavailable));
    await listener?.close(LIMITS.shutdownGraceMs.value);
    gateway.close();
    await probes?.close();
  };
  const close = (): Promise<void> => {
    closing ??= drain();
    return closing;
  };
  try {
    listener = makeListener(gateway, settings, deps, shutdown.signal);
    const address = await listener.listen(settings.listen);
    if (settings.health !== undefined) {
      const isReady = (): boolean => closing === undefined;
      probes = await startProbeServer(settings.health, deps.metrics, isReady);
    }
    for (const worker of settings.workers) gateway.addWorker(worker);
    deps.log.info({ ...address, workers: settings.workers.length }, "gateway serves");
    return { gateway, address, healthAddress: probes?.address, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function makeGateway(settings: GatewaySettings, deps: GatewayDeps): Gateway {
  const { unseenGroupPolicy, staleAfterMs, maxNodes, maxEntriesPerRank } = settings;
  return createGateway({
    seed: settings.keySeed,
    ...deps,
    ...(unseenGroupPolicy === undefined ? {} : { unseenGroupPolicy }),
    ...(staleAfterMs === undefined ? {} : { staleAfterMs }),
    indexLimits: {
      ...(maxNodes === undefined ? {} : { maxNodes }),
      ...(maxEntriesPerRank === undefined ? {} : { maxEntriesPerRank }),
    },
  });
}

function makeListener(
  gateway: Gateway,
  settings: GatewaySettings,
  deps: GatewayDeps,
  shutdownSignal: AbortSignal,
): HttpListener {
  setMaxListeners(0, shutdownSignal);
  const connect = connectNodeAdapter({
    routes: (router) => router.service(ScoreService, scoreService(gateway)),
    acceptCompression: [],
    // A field of another name is a mistake of the caller's: an empty prompt would score 0 without a word.
    jsonOptions: { ignoreUnknownFields: false },
    readMaxBytes: LIMITS.requestBytes.value,
    shutdownSignal,
  });
  const handler: typeof connect = (request, response) => {
    repairAuthority(request);
    connect(request, response);
  };
  return new HttpListener(handler, settings.listen.tls, deps.timers);
}
