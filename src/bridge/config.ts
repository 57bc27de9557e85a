/**
 * What it is: the bridge's configuration, merged from file, environment and flags, and judged as a
 * whole.
 * Owns: the type `BridgeConfig`, and the rules that concern several values.
 * Refuses: cleartext beyond loopback without consent, half a key pair, two sources of one thing,
 * endpoints that cannot work. Values of secrets never stand in a message.
 * Does not do: read files or the environment (the caller passes both in), or load key material.
 */
import {
  type ConfigSources,
  type ConfigValues,
  checkHealthListener,
  checkListener,
  chooseSeed,
  type DpRank,
  isLoopback,
  KvEventsError,
  mergeConfig,
  parseDpRank,
  printConfig,
} from "@kv-group-bridge/protocol";
import type { LogLevel, TlsFiles } from "@kv-group-bridge/runtime";
import type { BridgeSettings } from "./bridge-process.ts";
import type { ServerTls } from "./bridge-server.ts";
import type { CheckpointSettings } from "./checkpoint-state.ts";
import { type RankEndpoints, rankEndpoints } from "./config-endpoints.ts";
import { parseEngineDescription } from "./config-engine.ts";
import { BRIDGE_FIELDS, bridgeFields } from "./config-fields.ts";
import { type EngineConfig, UNSTATED_ENGINE } from "./engine-config.ts";
import { type EngineHttpSettings, parseHttpOrigin } from "./engine-http.ts";
import type { ListenAddress } from "./listen.ts";

export { BRIDGE_FIELDS, bridgeFields };

/** What the bridge is given to configure itself. */
export interface BridgeConfigSources extends ConfigSources {
  /** Text of a file that the configuration names; throws when it cannot be read. */
  readFile(path: string): string;
}

/** The effective configuration. With key material it is `BridgeSettings`; see `bridgeSettings`. */
export interface BridgeConfig extends Omit<BridgeSettings, "listen"> {
  readonly ranks: readonly RankEndpoints[];
  /** Undefined = the engine's API is not asked. */
  readonly engineHttp: EngineHttpSettings | undefined;
  /** The seed is the public one: worth a warning. */
  readonly isDefaultSeed: boolean;
  readonly subscriberQueueBytes: number;
  readonly subscribersPerRank: number;
  readonly heartbeatIntervalMs: number;
  readonly listen: ListenAddress & {
    /** Paths; undefined = cleartext. Here `ca` is the clients'. */
    readonly tlsFiles: TlsFiles | undefined;
  };
  readonly health: ListenAddress;
  /** Undefined = none are written. */
  readonly checkpoint: CheckpointSettings | undefined;
  readonly logLevel: LogLevel;
}

/** What a bearer token may be made of; no line break, so that it is one header and nothing else. */
const API_KEY = /^[\x21-\x7e]{1,1024}$/;

type Values = ConfigValues<typeof bridgeFields>;

/**
 * Merges and judges. Fails with `config_invalid`, `config_unreadable`, `engine_endpoint_invalid` or
 * `listen_insecure`; the message names the field.
 */
export function parseBridgeConfig(sources: BridgeConfigSources): BridgeConfig {
  const { values } = mergeConfig(sources, BRIDGE_FIELDS);
  const seed = keySeed(values, sources);
  return {
    ranks: rankEndpoints({
      endpoint: values.engineEndpoint,
      replayEndpoint: values.engineReplayEndpoint,
      mode: values.engineMode,
      dpRanks: values.engineDpRanks.map(dpRank),
      portOffset: values.enginePortOffset,
    }),
    mode: values.engineMode,
    topic: values.engineTopic === "" ? undefined : values.engineTopic,
    engine: engineConfig(values, sources),
    engineHttp: engineHttp(values, sources),
    keySeed: seed.seed,
    isDefaultSeed: seed.isDefaulted,
    isEngineProjectionAllowed: values.projectionsEngineAllowed,
    hasEngineSnapshot: hasEngineSnapshot(values),
    subscriberQueueBytes: values.subscribersQueueBytes,
    subscribersPerRank: values.subscribersMax,
    heartbeatIntervalMs: values.heartbeatIntervalMs,
    listen: {
      host: values.listenHost,
      port: values.listenPort,
      tlsFiles: tlsFiles(values),
    },
    health: healthAddress(values),
    checkpoint: checkpointSettings(values),
    logLevel: values.logLevel,
  };
}

/** The settings of `runBridge`. `tls`: what the caller read from `config.listen.tlsFiles`. */
export function bridgeSettings(config: BridgeConfig, tls: ServerTls | undefined): BridgeSettings {
  if ((tls === undefined) !== (config.listen.tlsFiles === undefined)) {
    throw new KvEventsError("tls_invalid", "listen.tls_cert and listen.tls_key were not loaded");
  }
  const { host, port } = config.listen;
  return { ...config, listen: { host, port, tls } };
}

/** The effective configuration as JSON text in the shape of a file; the seed is masked. */
export function printBridgeConfig(sources: BridgeConfigSources): string {
  parseBridgeConfig(sources);
  return printConfig(bridgeFields, mergeConfig(sources, BRIDGE_FIELDS).values);
}

function dpRank(value: number): DpRank {
  const rank = parseDpRank(value);
  if (rank === undefined) throw invalid("engine.dp_ranks: not a rank");
  return rank;
}

function engineConfig(values: Values, sources: BridgeConfigSources): EngineConfig {
  const { engineDescription, engineDescriptionFile: path } = values;
  if (path === undefined) {
    return engineDescription === undefined
      ? UNSTATED_ENGINE
      : parseEngineDescription(engineDescription);
  }
  if (engineDescription !== undefined) {
    throw invalid("engine.description and engine.description_file are both given");
  }
  const text = readNamed("engine.description_file", path, sources);
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw new KvEventsError("config_invalid", `engine.description_file: ${path} is not JSON`, {
      cause,
    });
  }
  return parseEngineDescription(raw, `engine.description_file ${path}: engine.description`);
}

function engineHttp(values: Values, sources: BridgeConfigSources): EngineHttpSettings | undefined {
  const { engineHttpUrl: url, engineHttpApiKeyFile: keyPath } = values;
  const origin = url === undefined ? undefined : parseHttpOrigin(url);
  if (origin === undefined) {
    if (keyPath !== undefined) throw invalid("engine.http_api_key_file: needs engine.http_url");
    return undefined;
  }
  if (keyPath === undefined) return { origin, apiKey: undefined };
  const { protocol, hostname } = new URL(origin);
  if (protocol !== "https:" && !isLoopback(hostname.replace(/^\[|\]$/g, ""))) {
    throw invalid("engine.http_api_key_file: beyond loopback engine.http_url must be https://");
  }
  const field = "engine.http_api_key_file";
  const apiKey = readNamed(field, keyPath, sources).replace(/\r?\n$/, "");
  if (!API_KEY.test(apiKey)) throw invalid(`${field}: ${keyPath} is not one line of a key`);
  return { origin, apiKey };
}

function keySeed(values: Values, sources: BridgeConfigSources): ReturnType<typeof seedOf> {
  const { keysSeed: seed, keysSeedFile: path } = values;
  const fileText = path === undefined ? undefined : readNamed("keys.seed_file", path, sources);
  return seedOf(seed, fileText);
}

function seedOf(
  seed: string | undefined,
  fileText: string | undefined,
): { readonly seed: string; readonly isDefaulted: boolean } {
  const chosen = chooseSeed({ seed, fileText });
  if (!chosen.ok) throw invalid(chosen.error);
  return chosen.value;
}

function readNamed(field: string, path: string, sources: BridgeConfigSources): string {
  try {
    return sources.readFile(path);
  } catch (cause) {
    throw new KvEventsError("config_unreadable", `${field}: cannot read ${path}`, { cause });
  }
}

function tlsFiles(values: Values): TlsFiles | undefined {
  const { listenTlsCert: cert, listenTlsKey: key, listenTlsClientCa: ca } = values;
  if (cert === undefined && key !== undefined) throw invalid("listen.tls_cert: missing");
  if (cert !== undefined && key === undefined) throw invalid("listen.tls_key: missing");
  if (cert === undefined && ca !== undefined) {
    throw invalid("listen.tls_client_ca: needs listen.tls_cert and listen.tls_key");
  }
  checkListener({
    name: "listen",
    host: values.listenHost,
    hasTls: cert !== undefined,
    isInsecureAllowed: values.listenInsecure,
  });
  return cert === undefined ? undefined : { cert, key, ca };
}

function hasEngineSnapshot(values: Values): boolean {
  const { projectionsEngineAllowed: isAllowed, projectionsEngineSnapshot: isAsked } = values;
  if (isAsked && !isAllowed) {
    throw invalid("projections.engine_snapshot: needs projections.engine_allowed");
  }
  return isAsked;
}

function checkpointSettings(values: Values): CheckpointSettings | undefined {
  const { checkpointDirectory: directory, checkpointIntervalMs: intervalMs } = values;
  return directory === undefined ? undefined : { directory, intervalMs };
}

function healthAddress(values: Values): ListenAddress {
  const { healthHost: host, healthPort: port, listenHost, listenPort } = values;
  checkHealthListener({ host, port, isPublicAllowed: values.healthPublic, listenHost, listenPort });
  return { host, port };
}

function invalid(message: string): KvEventsError {
  return new KvEventsError("config_invalid", message);
}
