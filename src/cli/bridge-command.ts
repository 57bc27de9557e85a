/**
 * What it is: `kvgroup bridge`.
 * Owns: the process of one bridge.
 * Refuses: what the configuration refuses.
 * Does not do: anything after the bridge is closed.
 */
import { runBridge } from "@kv-group-bridge/bridge";
import {
  bridgeSettings,
  parseBridgeConfig,
  printBridgeConfig,
} from "@kv-group-bridge/bridge/config";
import { type Epoch, KvEventsError, parseEpoch } from "@kv-group-bridge/protocol";
import {
  createLogger,
  createMetrics,
  exitProcess,
  systemClock,
  systemRandomness,
  systemTimers,
} from "@kv-group-bridge/runtime";
import type { ServiceFlags } from "./config-flags.ts";
import { configSources, readTls, untilAsked } from "./service-host.ts";
import { VERSION } from "./version.ts";

/** Runs until the process is asked to end. */
export async function bridgeCommand(given: ServiceFlags): Promise<void> {
  const sources = configSources(given);
  if (given.isPrintAsked) {
    process.stdout.write(`${printBridgeConfig(sources)}\n`);
    return;
  }
  const config = parseBridgeConfig(sources);
  const tls = readTls(config.listen.tlsFiles);
  const log = createLogger({ level: config.logLevel });
  if (config.isDefaultSeed) {
    log.warn(
      {},
      "the seed of the prefix keys is the public default: set keys.seed_file in production",
    );
  }
  const settings = bridgeSettings(config, serverTls(tls));
  const bridge = await runBridge(settings, {
    clock: systemClock,
    timers: systemTimers,
    log,
    metrics: createMetrics(),
    mintEpoch,
    mintInstance: mintEpoch,
    bridgeVersion: VERSION,
    onFatal: (error) => {
      log.error({ error: String(error) }, "the bridge cannot go on");
      log.flush();
      exitProcess(1);
    },
  });
  await untilAsked(log);
  await bridge.close();
  log.info({}, "bridge closed");
  log.flush();
}

function serverTls(material: ReturnType<typeof readTls>): Parameters<typeof bridgeSettings>[1] {
  if (material === undefined) return undefined;
  const { cert, key, ca } = material;
  if (cert === undefined || key === undefined) {
    throw new KvEventsError("tls_invalid", "a listener needs a certificate and its key");
  }
  return { cert, key, clientCa: ca };
}

/** Random and not 0, so that two bridges of one engine never share an epoch or an instance. */
function mintEpoch(): Epoch {
  for (;;) {
    const epoch = parseEpoch(systemRandomness.uint64());
    if (epoch !== undefined) return epoch;
  }
}
