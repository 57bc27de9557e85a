/**
 * What it is: what both services need around them: configuration sources, TLS files, signals, the end.
 * Owns: the life of the process while a service runs.
 * Refuses: TLS files that cannot be read (`tls_invalid`).
 * Does not do: know what the service does.
 */
import { readFileSync } from "node:fs";
import { type ConfigSources, KvEventsError } from "@kv-group-bridge/protocol";
import {
  type Log,
  onShutdown,
  readEnvironment,
  readTlsFiles,
  type TlsFiles,
  type TlsMaterial,
} from "@kv-group-bridge/runtime";
import type { ServiceFlags } from "./config-flags.ts";

/** The sources of a service's configuration, and a reader for files that it names. */
export function configSources(
  given: ServiceFlags,
): ConfigSources & { readFile(path: string): string } {
  return {
    fileText: given.configPath === undefined ? undefined : readConfig(given.configPath),
    environment: readEnvironment(),
    flags: given.flags,
    readFile: (path) => readFileSync(path, "utf8"),
  };
}

function readConfig(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new KvEventsError("config_unreadable", `--config: cannot read ${path}`, { cause });
  }
}

/** Reads key material; undefined paths = none. */
export function readTls(files: TlsFiles | undefined): TlsMaterial | undefined {
  if (files === undefined) return undefined;
  const read = readTlsFiles(files);
  if (!read.ok) throw new KvEventsError("tls_invalid", read.problem, { cause: read.cause });
  return read.material;
}

/** Resolves when the process was asked to end; logs by which signal. */
export function untilAsked(log: Log): Promise<void> {
  return new Promise((resolve) => {
    // Signal handlers do not keep a process alive; the service's sockets do.
    onShutdown((signal) => {
      log.info({ signal }, "shutting down");
      resolve();
    });
  });
}
