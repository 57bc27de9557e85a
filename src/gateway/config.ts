/**
 * What it is: the gateway service's configuration, merged from file, environment and flags, and
 * judged as a whole.
 * Owns: the type `GatewayConfig`, and the rules that concern several values.
 * Refuses: cleartext beyond loopback without consent, half a key pair, two sources of one thing,
 * workers that cannot be. Values of secrets never stand in a message.
 * Does not do: read files or the environment (the caller passes both in), or load key material.
 */
import {
  type ConfigSources,
  type ConfigValues,
  checkHealthListener,
  checkListener,
  chooseSeed,
  configInvalid,
  KvEventsError,
  mergeConfig,
  printConfig,
} from "@kv-group-bridge/protocol";
import type { LogLevel, TlsFiles } from "@kv-group-bridge/runtime";
import type { z } from "zod";
import { GATEWAY_FIELDS, gatewayFields, workersType } from "./config-fields.ts";
import type { ClientTls } from "./connect-source.ts";
import type { GatewaySettings } from "./gateway-process.ts";
import type { ListenAddress, ServerTls } from "./http-listener.ts";
import { checkWorker, type WorkerSettings } from "./worker.ts";

export { GATEWAY_FIELDS, gatewayFields };

/** What the gateway is given to configure itself. */
export interface GatewayConfigSources extends ConfigSources {
  /** Text of a file that the configuration names; throws when it cannot be read. */
  readFile(path: string): string;
}

/**
 * The effective configuration. With key material it is `GatewaySettings`; see `gatewaySettings`.
 */
export interface GatewayConfig extends Omit<GatewaySettings, "listen"> {
  /** The seed is the public one: worth a warning. */
  readonly isDefaultSeed: boolean;
  readonly listen: ListenAddress & {
    /** Paths; undefined = cleartext. Here `ca` is the clients'. */
    readonly tlsFiles: TlsFiles | undefined;
  };
  /**
   * Paths of what https:// bridges are met with; undefined = the system's authorities and no key.
   */
  readonly bridgeTlsFiles: TlsFiles | undefined;
  readonly health: ListenAddress;
  readonly logLevel: LogLevel;
}

/** Key material, read from the paths of the configuration. */
export interface GatewayTls {
  /** Of `config.listen.tlsFiles`. */
  readonly listen: ServerTls | undefined;
  /** Of `config.bridgeTlsFiles`. */
  readonly bridges: ClientTls | undefined;
}

type Values = ConfigValues<typeof gatewayFields>;

/**
 * Merges and judges. Fails with `config_invalid`, `config_unreadable` or `listen_insecure`; the
 * message names the field.
 */
export function parseGatewayConfig(sources: GatewayConfigSources): GatewayConfig {
  const { values } = mergeConfig(sources, GATEWAY_FIELDS);
  const { keysSeedFile } = values;
  const seed = chooseSeed({
    seed: values.keysSeed,
    fileText:
      keysSeedFile === undefined ? undefined : readNamed("keys.seed_file", keysSeedFile, sources),
  });
  if (!seed.ok) throw configInvalid([seed.error]);
  const { listenHost: host, listenPort: port } = values;
  return {
    keySeed: seed.value.seed,
    isDefaultSeed: seed.value.isDefaulted,
    workers: workersOf(values, sources),
    unseenGroupPolicy: values.unseenGroupPolicy,
    staleAfterMs: values.staleAfterMs,
    maxNodes: values.indexMaxNodes,
    maxEntriesPerRank: values.indexMaxEntriesPerRank,
    listen: { host, port, tlsFiles: listenTlsFiles(values) },
    bridgeTlsFiles: bridgeTlsFiles(values),
    health: healthAddress(values),
    logLevel: values.logLevel,
  };
}

/** The settings of `runGateway`; the bridges' key material goes to https:// workers only. */
export function gatewaySettings(config: GatewayConfig, tls: GatewayTls): GatewaySettings {
  const isLoaded = (tls.listen === undefined) === (config.listen.tlsFiles === undefined);
  if (!isLoaded) {
    throw new KvEventsError("tls_invalid", "listen.tls_cert and listen.tls_key were not loaded");
  }
  if ((tls.bridges === undefined) !== (config.bridgeTlsFiles === undefined)) {
    throw new KvEventsError("tls_invalid", "the files of bridge.tls_… were not loaded");
  }
  const workers = config.workers.map((worker) =>
    worker.url.startsWith("https:") ? { ...worker, tls: tls.bridges } : worker,
  );
  const { host, port } = config.listen;
  return { ...config, workers, listen: { host, port, tls: tls.listen } };
}

/** The effective configuration as JSON text in the shape of a file; the seed is masked. */
export function printGatewayConfig(sources: GatewayConfigSources): string {
  parseGatewayConfig(sources);
  return printConfig(gatewayFields, mergeConfig(sources, GATEWAY_FIELDS).values);
}

function readNamed(field: string, path: string, sources: GatewayConfigSources): string {
  try {
    return sources.readFile(path);
  } catch (cause) {
    throw new KvEventsError("config_unreadable", `${field}: cannot read ${path}`, { cause });
  }
}

function workersOf(values: Values, sources: GatewayConfigSources): readonly WorkerSettings[] {
  const { workers: stated, workersFile: path } = values;
  if (stated !== undefined && path !== undefined) {
    throw configInvalid(["workers and workers_file are both given"]);
  }
  const list = path === undefined ? (stated ?? []) : parseWorkersFile(path, sources);
  return list.map(({ name, url, dp_ranks }) => {
    const settings = { name, url, dpRanks: dp_ranks };
    checkWorker(settings);
    return settings;
  });
}

function parseWorkersFile(
  path: string,
  sources: GatewayConfigSources,
): z.infer<typeof workersType> {
  const text = readNamed("workers_file", path, sources);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new KvEventsError("config_invalid", `workers_file: ${path} is not JSON`, { cause });
  }
  const parsed = workersType.safeParse(value);
  if (parsed.success) return parsed.data;
  throw configInvalid(
    parsed.error.issues.map(({ path: at, message }) => {
      const where = at.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
      return `workers_file ${path}: workers${where.join("")}: ${message}`;
    }),
  );
}

function listenTlsFiles(values: Values): TlsFiles | undefined {
  const { listenTlsCert: cert, listenTlsKey: key, listenTlsClientCa: ca } = values;
  refuseHalfPair("listen", cert, key);
  if (cert === undefined && ca !== undefined) {
    throw configInvalid(["listen.tls_client_ca: needs listen.tls_cert and listen.tls_key"]);
  }
  checkListener({
    name: "listen",
    host: values.listenHost,
    hasTls: cert !== undefined,
    isInsecureAllowed: values.listenInsecure,
  });
  return cert === undefined ? undefined : { cert, key, ca };
}

function bridgeTlsFiles(values: Values): TlsFiles | undefined {
  const { bridgeTlsCert: cert, bridgeTlsKey: key, bridgeTlsCa: ca } = values;
  refuseHalfPair("bridge", cert, key);
  return cert === undefined && ca === undefined ? undefined : { cert, key, ca };
}

function refuseHalfPair(group: string, cert: string | undefined, key: string | undefined): void {
  if ((cert === undefined) === (key === undefined)) return;
  throw configInvalid([`${group}.${cert === undefined ? "tls_cert" : "tls_key"}: missing`]);
}

function healthAddress(values: Values): ListenAddress {
  const { healthHost: host, healthPort: port, listenHost, listenPort } = values;
  checkHealthListener({ host, port, isPublicAllowed: values.healthPublic, listenHost, listenPort });
  return { host, port };
}
