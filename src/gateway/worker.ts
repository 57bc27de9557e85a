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
  private current: CheckedWorker;
  private source: BridgeSource;
  private ranks: readonly RankFollower[];

  constructor(checked: CheckedWorker, source: BridgeSource, followers: readonly RankFollower[]) {
    this.name = checked.name;
    this.current = checked;
    this.source = source;
    this.ranks = followers;
  }

  /** Ascending by rank. */
  get followers(): readonly RankFollower[] {
    return this.ranks;
  }

  /** The connection of all its ranks. */
  get bridge(): BridgeSource {
    return this.source;
  }

  /** Where its bridge is. */
  get address(): BridgeAddress {
    return this.current.address;
  }

  /** Begins to follow every rank. */
  start(): void {
    for (const follower of this.ranks) follower.start();
  }

  /**
   * Takes other settings: ranks that are missing there end and are forgotten, those that stay move
   * when `source` is another one than before, and for new ones `make` is called.
   */
  update(
    checked: CheckedWorker,
    source: BridgeSource,
    make: (dpRank: DpRank) => RankFollower,
  ): void {
    const { source: oldSource, ranks } = this;
    const before = new Map(ranks.map((follower) => [follower.dpRank, follower]));
    // Those that go give their places in the index back before new ones take some.
    for (const follower of ranks) if (!checked.dpRanks.includes(follower.dpRank)) follower.stop();
    this.current = checked;
    this.source = source;
    this.ranks = checked.dpRanks.map((dpRank) => before.get(dpRank) ?? make(dpRank));
    for (const follower of this.ranks) {
      if (before.get(follower.dpRank) !== follower) follower.start();
      else if (source !== oldSource) follower.moveTo(source, checked.address.url);
    }
    if (source !== oldSource) oldSource.close();
  }

  /** Ends everything and forgets every rank, at once. */
  stop(): void {
    for (const follower of this.ranks) follower.stop();
    this.source.close();
  }
}

/** True when both lead to the same bridge with the same certificates. */
export function isSameAddress(a: BridgeAddress, b: BridgeAddress): boolean {
  return (
    a.url === b.url &&
    (a.tls === undefined) === (b.tls === undefined) &&
    a.tls?.ca === b.tls?.ca &&
    a.tls?.cert === b.tls?.cert &&
    a.tls?.key === b.tls?.key
  );
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
  const ranks = new Set<DpRank>();
  for (const value of given ?? [0]) {
    const rank = parseDpRank(value);
    if (rank === undefined) throw invalid("dpRanks: not uint32");
    if (ranks.has(rank)) throw invalid("dpRanks: a rank stands twice");
    ranks.add(rank);
  }
  if (ranks.size === 0) throw invalid("dpRanks: empty");
  return [...ranks].sort((a, b) => a - b);
}

function invalid(path: string): KvEventsError {
  return new KvEventsError("config_invalid", `worker: ${path}`);
}
