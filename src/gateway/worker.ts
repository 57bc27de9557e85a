/**
 * What it is: one engine deployment as the gateway knows it: a name, a bridge, its ranks.
 * Owns: the connection to the bridge and the followers of the ranks; both end together.
 * Refuses: settings that cannot work, as `config_invalid` with the field's name.
 * Does not do: discover workers (the embedding application does).
 */
import { type DpRank, KvEventsError, LIMITS, parseDpRank } from "@kv-group-bridge/protocol";
import type { BridgeAddress, BridgeSource, ClientTls } from "./connect-source.ts";
import type { RankFollower } from "./rank-follower.ts";

/** A worker to follow. */
export interface WorkerSettings {
  /** Unique in the gateway; names the worker in answers. */
  readonly name: string;
  /** Its bridge: http://host:port (h2c) or https://host:port. */
  readonly url: string;
  /** Ranks as vLLM numbers them (global numbers). Default: [0]. */
  readonly dpRanks?: readonly number[] | undefined;
  /** For https:// only. Absent: the system's certificate authorities. */
  readonly tls?: ClientTls | undefined;
}

/** Checked settings. */
export interface CheckedWorker {
  readonly name: string;
  readonly address: BridgeAddress;
  /** Ascending. */
  readonly dpRanks: readonly DpRank[];
}

/** A followed worker. */
export class Worker {
  readonly name: string;
  /** Ascending by rank. */
  readonly followers: readonly RankFollower[];
  private readonly source: BridgeSource;

  constructor(checked: CheckedWorker, source: BridgeSource, followers: readonly RankFollower[]) {
    this.name = checked.name;
    this.source = source;
    this.followers = followers;
  }

  /** Begins to follow every rank. */
  start(): void {
    for (const follower of this.followers) follower.start();
  }

  /** Ends everything and forgets every rank, at once. */
  stop(): void {
    for (const follower of this.followers) follower.stop();
    this.source.close();
  }
}

/** The settings with everything checked; throws `KvEventsError("config_invalid")`. */
export function checkWorker(settings: WorkerSettings): CheckedWorker {
  const { name, url, tls } = settings;
  if (name === "" || name.length > LIMITS.textBytes.value) throw invalid("name");
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || parsed.hostname === "") throw invalid("url");
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") throw invalid("url: scheme");
  // A bridge serves at the root; a path would be silently dropped by the session manager.
  if (parsed.pathname !== "/" || parsed.search !== "" || parsed.hash !== "") {
    throw invalid("url: path");
  }
  if (parsed.username !== "" || parsed.password !== "") throw invalid("url: credentials");
  if (tls !== undefined && parsed.protocol !== "https:") throw invalid("tls: url is not https");
  return { name, address: { url: parsed.origin, tls }, dpRanks: checkRanks(settings.dpRanks) };
}

function checkRanks(given: readonly number[] | undefined): readonly DpRank[] {
  const ranks: DpRank[] = [];
  for (const value of given ?? [0]) {
    const rank = parseDpRank(value);
    if (rank === undefined) throw invalid("dpRanks: not uint32");
    if (ranks.includes(rank)) throw invalid("dpRanks: a rank stands twice");
    ranks.push(rank);
  }
  if (ranks.length === 0) throw invalid("dpRanks: empty");
  return ranks.sort((a, b) => a - b);
}

function invalid(path: string): KvEventsError {
  return new KvEventsError("config_invalid", `worker: ${path}`);
}
