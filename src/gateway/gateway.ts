/**
 * What it is: the library: follows workers, keeps what their ranks hold in one index, and answers
 * how many tokens of a prompt each rank would really reuse.
 * Owns: the index of one keyspace (one model, one seed), the workers, the scratch of queries.
 * Invariant: the index has exactly the ranks of the workers.
 * Refuses: queries and settings that break the contract, by `KvEventsError` with a code.
 * Does not do: choose a worker, discover workers, listen on ports.
 */
import { create } from "@bufbuild/protobuf";
import { PromptHashes } from "@kv-group-bridge/engine-hash";
import { type KeyScheme, KeySchemeSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import {
  GroupPositions,
  MAX_RANKS,
  PrefixIndex,
  type RankHandle,
  ScoreBuffer,
} from "@kv-group-bridge/prefix-index";
import {
  type DpRank,
  KEY_SCHEME_ID,
  KeyedHasher,
  KvEventsError,
  LIMITS,
  SEED_MIN_CHARACTERS,
} from "@kv-group-bridge/protocol";
import {
  type Clock,
  invariant,
  silentLog,
  systemClock,
  systemRandomness,
  systemTimers,
} from "@kv-group-bridge/runtime";
import { AnswerBuffer, type RankAnswer } from "./answer-buffer.ts";
import { newApplyCounts } from "./apply-counts.ts";
import type { BridgeSource } from "./connect-source.ts";
import { type GatewayTotals, registerGatewayMetrics } from "./gateway-metrics.ts";
import { type GatewayOptions, openSource, type StateListener } from "./gateway-options.ts";
import { PlaceSearch } from "./place-search.ts";
import { PromptKeys } from "./prompt-keys.ts";
import { checkQuery, type Query } from "./query.ts";
import { type FollowerEnvironment, RankFollower } from "./rank-follower.ts";
import { explainRank, type RankExplanation, type RankStatus, rankStatus } from "./rank-status.ts";
import { RankView } from "./rank-view.ts";
import {
  type CheckedWorker,
  checkWorker,
  isSameAddress,
  Worker,
  type WorkerSettings,
} from "./worker.ts";

/** Makes a gateway without workers. Nothing is started. */
export function createGateway(options: GatewayOptions): Gateway {
  return new Gateway(options);
}

/** See the file header. All methods are synchronous. */
export class Gateway {
  private readonly options: GatewayOptions;
  private readonly clock: Clock;
  private readonly keyScheme: KeyScheme;
  private readonly index: PrefixIndex;
  private readonly search: PlaceSearch;
  private readonly environment: FollowerEnvironment;
  private readonly totals: GatewayTotals = {
    queries: 0,
    refusals: new Map(),
    streamErrors: new Map(),
    applied: newApplyCounts(),
  };
  private readonly workersByName = new Map<string, Worker>();
  private readonly followersByRank = new Map<RankHandle, RankFollower>();
  /** By worker name, then rank; undefined = to be ordered again before the next use. */
  private ordered: readonly RankFollower[] | undefined = undefined;
  private readonly listeners = new Set<StateListener>();
  private readonly keys: PromptKeys;
  private readonly scores = new ScoreBuffer();
  private readonly positions = new GroupPositions();
  private isClosed = false;

  constructor(options: GatewayOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    if (typeof options.seed !== "string" || options.seed.length < SEED_MIN_CHARACTERS) {
      throw new KvEventsError("config_invalid", `seed: at least ${SEED_MIN_CHARACTERS} characters`);
    }
    const hasher = new KeyedHasher(options.seed);
    const checkValue = hasher.checkValue();
    this.keyScheme = create(KeySchemeSchema, { id: KEY_SCHEME_ID, checkValue });
    this.keys = new PromptKeys(hasher);
    this.search = new PlaceSearch(hasher, (...scheme) => new PromptHashes(...scheme));
    this.index = new PrefixIndex({
      maxNodes: options.indexLimits?.maxNodes ?? LIMITS.indexNodes.value,
      maxEntriesPerRank: options.indexLimits?.maxEntriesPerRank ?? LIMITS.indexEntriesPerRank.value,
    });
    this.environment = {
      clock: this.clock,
      timers: options.timers ?? systemTimers,
      randomness: options.randomness ?? systemRandomness,
      log: options.log ?? silentLog,
      staleAfterMs: options.staleAfterMs ?? LIMITS.staleAfterMs.value,
      unseenGroupPolicy: options.unseenGroupPolicy ?? "zero",
      refusals: this.totals.refusals,
      streamErrors: this.totals.streamErrors,
      onState: (follower) => this.tell(follower),
    };
    if (options.metrics !== undefined) {
      registerGatewayMetrics(options.metrics, {
        totals: this.totals,
        index: this.index,
        search: this.search,
        statuses: () => this.workers(),
      });
    }
  }

  /**
   * Follows a worker from now on. Fails with `config_invalid`, `worker_exists` or `worker_limit`;
   * an unreachable bridge is no failure: it shows in the rank's state and is tried for ever.
   */
  addWorker(settings: WorkerSettings): void {
    invariant(!this.isClosed, "a closed gateway takes no worker");
    const checked = checkWorker(settings);
    const { name, address, dpRanks } = checked;
    if (this.workersByName.has(name)) throw new KvEventsError("worker_exists", name);
    const isFull =
      this.workersByName.size >= LIMITS.workersPerGateway.value ||
      this.followersByRank.size + dpRanks.length > MAX_RANKS;
    if (isFull) throw new KvEventsError("worker_limit", name);
    const source = openSource(this.options, this.keyScheme, address);
    const followers = dpRanks.map((dpRank) => this.makeFollower(checked, dpRank, source));
    const worker = new Worker(checked, source, followers);
    this.workersByName.set(name, worker);
    this.ordered = undefined;
    worker.start();
  }

  /**
   * The worker of this name has another address or other ranks. Ranks that stay keep what is known
   * of them, stale until the bridge at the new address has started their streams; ranks that go are
   * forgotten at once, new ones begin. The same settings do nothing. Fails with `config_invalid`,
   * `worker_unknown` or `worker_limit`; then nothing has changed.
   */
  updateWorker(settings: WorkerSettings): void {
    const checked = checkWorker(settings);
    const { name, address, dpRanks } = checked;
    const worker = this.workersByName.get(name);
    if (worker === undefined) throw new KvEventsError("worker_unknown", name);
    const before = new Map(worker.followers.map((follower) => [follower.dpRank, follower]));
    const others = this.followersByRank.size - before.size;
    if (others + dpRanks.length > MAX_RANKS) throw new KvEventsError("worker_limit", name);
    const isSame = isSameAddress(address, worker.address);
    const source = isSame ? worker.bridge : openSource(this.options, this.keyScheme, address);
    for (const [dpRank, { view }] of before) {
      if (!dpRanks.includes(dpRank)) this.followersByRank.delete(view.rank);
    }
    worker.update(checked, source, (dpRank) => this.makeFollower(checked, dpRank, source));
    this.ordered = undefined;
  }

  /**
   * Forgets a worker at once: its entries, streams and timers. False = there is none of this
   * name.
   */
  removeWorker(name: string): boolean {
    const worker = this.workersByName.get(name);
    if (worker === undefined) return false;
    this.workersByName.delete(name);
    for (const { view } of worker.followers) this.followersByRank.delete(view.rank);
    this.ordered = undefined;
    worker.stop();
    return true;
  }

  /** True while a worker of this name is followed. */
  hasWorker(name: string): boolean {
    return this.workersByName.has(name);
  }

  /** Every followed rank, by worker name, then rank. */
  workers(): readonly RankStatus[] {
    const nowMs = this.clock.monotonicMs();
    return this.followers().map((follower) => rankStatus(follower, this.index, nowMs));
  }

  /**
   * Scores a prompt for every rank; fails with `prompt_invalid`. The answers are the caller's to
   * keep.
   */
  score(query: Query): readonly RankAnswer[] {
    const buffer = new AnswerBuffer();
    this.scoreInto(query, buffer);
    const answers: RankAnswer[] = [];
    for (let i = 0; i < buffer.count; i++) answers.push(buffer.at(i));
    return answers;
  }

  /**
   * As `score`, into lines that are used again: plain prompts cost no allocation worth speaking
   * of.
   */
  scoreInto(query: Query, out: AnswerBuffer): void {
    this.begin(query);
    this.totals.queries++;
    this.index.score(this.keys, query.tokens.length, this.scores);
    this.keys.release();
    for (let line = 0; line < this.scores.count; line++) {
      const follower = this.followersByRank.get(this.scores.rankAt(line));
      invariant(follower !== undefined, "the index has exactly the ranks of the workers");
      follower.scoredTokens = this.scores.reusableTokensAt(line);
      follower.scoredLimitingGroupId = this.scores.limitingGroupIdAt(line);
    }
    const nowMs = this.clock.monotonicMs();
    out.count = 0;
    for (const follower of this.followers()) {
      const { state, reasons } = follower.assessment(nowMs, this.search.queryNumber);
      const isKnown = state !== "unknown";
      const limiting = follower.scoredLimitingGroupId;
      const line = out.next();
      line.worker = follower.worker;
      line.dpRank = follower.dpRank;
      line.reusableTokens = isKnown ? follower.scoredTokens : 0;
      line.state = state;
      line.reasons = reasons;
      line.limitingGroupId = isKnown && limiting >= 0 ? limiting : undefined;
    }
  }

  /** One rank's answer group by group. Fails with `prompt_invalid` or `worker_unknown`. */
  explain(query: Query, worker: string, dpRank: number): RankExplanation {
    const ranks = this.workersByName.get(worker)?.followers;
    const follower = ranks?.find((candidate) => candidate.dpRank === dpRank);
    if (follower === undefined) throw new KvEventsError("worker_unknown", `${worker}/${dpRank}`);
    this.begin(query);
    const nowMs = this.clock.monotonicMs();
    const assessment = follower.assessment(nowMs, this.search.queryNumber);
    const { rank } = follower.view;
    const { positions } = this;
    const hasLayout = this.index.explain(rank, this.keys, query.tokens.length, positions);
    this.keys.release();
    return explainRank(follower, assessment, hasLayout ? positions : undefined);
  }

  /** Calls `listener` on every change of a rank's subscription; the returned function ends that. */
  on(_event: "state", listener: StateListener): () => void {
    // A wrapper, so that the same function given twice is called twice and ended one by one.
    const entry: StateListener = (status) => listener(status);
    this.listeners.add(entry);
    return () => this.listeners.delete(entry);
  }

  /** Removes every worker; nothing of the gateway keeps running. Idempotent. */
  close(): void {
    this.isClosed = true;
    for (const name of this.workersByName.keys()) this.removeWorker(name);
    this.listeners.clear();
  }

  /** Recomputes the invariants of index and workers; throws InvariantViolation. For tests. */
  audit(): void {
    this.index.audit();
    const ranks = this.followers().length;
    invariant(this.index.gauges().ranks === ranks, "no rank is left over");
    invariant(this.followersByRank.size === ranks, "every rank has a follower");
    this.search.audit(this.followers().map(({ view }) => view.unplaced));
  }

  private makeFollower(worker: CheckedWorker, dpRank: DpRank, source: BridgeSource): RankFollower {
    const { index, search, keyScheme, totals } = this;
    const view = new RankView({ index, search, dpRank, keyScheme, counts: totals.applied });
    const rank = { worker: worker.name, bridgeUrl: worker.address.url, dpRank, view };
    const follower = new RankFollower(rank, source, this.environment);
    this.followersByRank.set(view.rank, follower);
    return follower;
  }

  /** Begins a prompt's keys; blocks whose place it shows are in the index from now on. */
  private begin(query: Query): void {
    checkQuery(query);
    this.search.find(query);
    this.keys.begin(query);
  }

  private followers(): readonly RankFollower[] {
    if (this.ordered === undefined) {
      const workers = [...this.workersByName.values()];
      workers.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      this.ordered = workers.flatMap((worker) => worker.followers);
    }
    return this.ordered;
  }

  private tell(follower: RankFollower): void {
    if (this.listeners.size === 0) return;
    const status = rankStatus(follower, this.index, this.clock.monotonicMs());
    for (const listener of this.listeners) listener(status);
  }
}
