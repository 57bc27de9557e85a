/**
 * What it is: `kvgroup gateway`.
 * Owns: the process of one gateway.
 * Refuses: what the configuration refuses.
 * Does not do: anything after the gateway is closed.
 */
import { runGateway } from "@kv-group-bridge/gateway";
import {
  gatewaySettings,
  parseGatewayConfig,
  printGatewayConfig,
} from "@kv-group-bridge/gateway/config";
import { KvEventsError } from "@kv-group-bridge/protocol";
import {
  createLogger,
  createMetrics,
  systemClock,
  systemRandomness,
  systemTimers,
} from "@kv-group-bridge/runtime";
import type { ServiceFlags } from "./config-flags.ts";
import { configSources, readTls, untilAsked } from "./service-host.ts";

/** Runs until the process is asked to end. */
export async function gatewayCommand(given: ServiceFlags): Promise<void> {
  const sources = configSources(given);
  if (given.isPrintAsked) {
    process.stdout.write(`${printGatewayConfig(sources)}\n`);
    return;
  }
  const config = parseGatewayConfig(sources);
  const log = createLogger({ level: config.logLevel });
  if (config.isDefaultSeed) {
    log.warn(
      {},
      "the seed of the prefix keys is the public default: set keys.seed_file in production",
    );
  }
  const listen = readTls(config.listen.tlsFiles);
  const bridges = readTls(config.bridgeTlsFiles);
  const settings = gatewaySettings(config, {
    listen: listen === undefined ? undefined : serverTls(listen),
    bridges: bridges === undefined ? undefined : withoutAbsent(bridges),
  });
  const gateway = await runGateway(settings, {
    clock: systemClock,
    timers: systemTimers,
    randomness: systemRandomness,
    log,
    metrics: createMetrics(),
  });
  await untilAsked(log);
  await gateway.close();
  log.info({}, "gateway closed");
  log.flush();
}

type Material = NonNullable<ReturnType<typeof readTls>>;

function serverTls({ cert, key, ca }: Material): Parameters<typeof gatewaySettings>[1]["listen"] {
  if (cert === undefined || key === undefined) {
    throw new KvEventsError("tls_invalid", "a listener needs a certificate and its key");
  }
  return { cert, key, ...(ca === undefined ? {} : { clientCa: ca }) };
}

function withoutAbsent({ cert, key, ca }: Material): {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
} {
  return {
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(ca === undefined ? {} : { ca }),
  };
}
