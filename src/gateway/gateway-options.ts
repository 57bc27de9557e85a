/**
 * What it is: the settings of a gateway, and how they make a bridge's source.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: read configuration files (config.ts does).
 */
import type { KeyScheme } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { PrefixIndexLimits } from "@kv-group-bridge/prefix-index";
import {
  type Clock,
  type Log,
  type Metrics,
  type Randomness,
  systemClock,
  type Timers,
} from "@kv-group-bridge/runtime";
import type { UnseenGroupPolicy } from "./answer.ts";
import {
  type BridgeAddress,
  type BridgeSource,
  type BridgeTransport,
  ConnectSource,
  grpcTransport,
} from "./connect-source.ts";
import type { RankStatus } from "./rank-status.ts";

/** Settings of a gateway. Everything but the seed has a default. */
export interface GatewayOptions {
  /** The fleet's seed of the prefix keys; every bridge has the same. */
  readonly seed: string;
  /** Default: the system's. */
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly randomness?: Randomness;
  /** Default: silent. */
  readonly log?: Log;
  /** Metrics are registered here. Default: none. */
  readonly metrics?: Metrics;
  /** Default: "zero". */
  readonly unseenGroupPolicy?: UnseenGroupPolicy;
  /** Silence after which a rank is stale. Default: `LIMITS.staleAfterMs`. */
  readonly staleAfterMs?: number;
  /** Default: `LIMITS.indexNodes` and `LIMITS.indexEntriesPerRank`. */
  readonly indexLimits?: Partial<PrefixIndexLimits>;
  /** Makes the transport to a bridge. Default: gRPC over HTTP/2. */
  readonly transportFactory?: (address: BridgeAddress) => BridgeTransport;
  /** Makes the whole source of a bridge's messages; then there is no transport. */
  readonly sourceFactory?: (address: BridgeAddress) => BridgeSource;
}

/** Hears of every change of a rank's subscription, after it is done. */
export type StateListener = (status: RankStatus) => void;

/** The source of a bridge's messages. */
export function openSource(
  options: GatewayOptions,
  keyScheme: KeyScheme,
  address: BridgeAddress,
): BridgeSource {
  const { sourceFactory, transportFactory, clock } = options;
  if (sourceFactory !== undefined) return sourceFactory(address);
  const transport = (transportFactory ?? grpcTransport)(address);
  return new ConnectSource(transport, { keyScheme, clock: clock ?? systemClock });
}
