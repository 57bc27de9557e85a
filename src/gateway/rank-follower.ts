/**
 * What it is: one followed rank: carries out what its subscription decides and hands messages to
 * its view.
 * Owns: the view, the subscription, one timer and at most one open stream.
 * Refuses: nothing.
 * Does not do: decide (subscription.ts), judge messages (rank-view.ts), score (gateway.ts).
 */
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { DpRank } from "@kv-group-bridge/protocol";
import {
  type Cancel,
  type Clock,
  type Log,
  type Randomness,
  type Timers,
  unreachable,
} from "@kv-group-bridge/runtime";
import {
  type Assessment,
  assess,
  type StreamTrouble,
  type UnseenGroupPolicy,
  withUnplacedBlocks,
} from "./answer.ts";
import type { MessageRefusal } from "./check-start.ts";
import type { BridgeSource } from "./connect-source.ts";
import type { RankView } from "./rank-view.ts";
import {
  Subscription,
  type SubscriptionError,
  type SubscriptionInput,
  type SubscriptionOutput,
} from "./subscription.ts";

/** The seams to the world and the settings that all ranks of a gateway share. */
export interface FollowerEnvironment {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly staleAfterMs: number;
  readonly unseenGroupPolicy: UnseenGroupPolicy;
  /** Totals over all workers, those long gone included. */
  readonly refusals: Map<MessageRefusal, number>;
  readonly streamErrors: Map<SubscriptionError, number>;
  readonly onState: (follower: RankFollower) => void;
}

/** A bridge that does not take the cursor, now or in this form: the next stream asks without. */
const FORGETTING_ERRORS: ReadonlySet<SubscriptionError> = new Set([
  "resume_refused",
  "bridge_protocol",
]);

/** One rank of one worker. */
export class RankFollower {
  readonly worker: string;
  readonly dpRank: DpRank;
  readonly view: RankView;
  readonly subscription: Subscription;
  /** Scratch of the gateway's queries: the index's number and limiting group of this rank. */
  scoredTokens = 0;
  /** -1 = none. */
  scoredLimitingGroupId = -1;
  private readonly environment: FollowerEnvironment;
  private source: BridgeSource;
  private url: string;
  private cancelTimer: Cancel | undefined = undefined;
  private closeStream: (() => void) | undefined = undefined;
  private assessed: Assessment | undefined = undefined;
  /** `assessed` of a query that was obstructed; undefined = not needed yet. */
  private assessedObstructed: Assessment | undefined = undefined;
  private assessedRevision = -1;
  private assessedTrouble: StreamTrouble = undefined;
  private isFollowed = false;
  private reportedError: SubscriptionError | undefined = undefined;

  constructor(
    rank: Pick<RankFollower, "worker" | "bridgeUrl" | "dpRank" | "view">,
    source: BridgeSource,
    environment: FollowerEnvironment,
  ) {
    this.worker = rank.worker;
    this.url = rank.bridgeUrl;
    this.dpRank = rank.dpRank;
    this.view = rank.view;
    this.source = source;
    this.environment = environment;
    const { staleAfterMs, randomness } = environment;
    this.subscription = new Subscription({ staleAfterMs, random: () => randomness.fraction() });
  }

  /** Where its bridge is. */
  get bridgeUrl(): string {
    return this.url;
  }

  /** Begins to follow. */
  start(): void {
    this.step({ type: "start" });
  }

  /**
   * The bridge is elsewhere from now on. What is known stays, stale, until that bridge has started
   * the stream: from the cursor, or anew.
   */
  moveTo(source: BridgeSource, bridgeUrl: string): void {
    this.source = source;
    this.url = bridgeUrl;
    this.step({ type: "address_changed" });
  }

  /** Ends stream and timer and forgets everything. */
  stop(): void {
    this.step({ type: "stop" });
    this.view.retire();
  }

  /**
   * How to read the rank's numbers at `nowMs` (monotonic), of a query of this number (see PlaceSearch); -1 = of any.
   * Allocates only when something changed.
   */
  assessment(nowMs: number, queryNumber = -1): Assessment {
    const { view } = this;
    const trouble = this.subscription.trouble(nowMs);
    if (
      this.assessed === undefined ||
      this.assessedRevision !== view.factsRevision ||
      this.assessedTrouble !== trouble
    ) {
      this.assessed = assess(view, trouble, this.environment.unseenGroupPolicy);
      this.assessedObstructed = undefined;
      this.assessedRevision = view.factsRevision;
      this.assessedTrouble = trouble;
    }
    if (queryNumber === -1 || view.unplaced.obstructedQuery !== queryNumber) return this.assessed;
    this.assessedObstructed ??= withUnplacedBlocks(this.assessed);
    return this.assessedObstructed;
  }

  private step(input: SubscriptionInput): void {
    const outputs = this.subscription.step(input, this.environment.clock.monotonicMs());
    let hasStateChanged = false;
    for (const output of outputs) {
      if (output.type === "state_changed") hasStateChanged = true;
      else this.carryOut(output);
    }
    if (!hasStateChanged) return;
    this.report();
    this.environment.onState(this);
  }

  private carryOut(output: Exclude<SubscriptionOutput, { type: "state_changed" }>): void {
    switch (output.type) {
      case "open_stream":
        this.openStream();
        return;
      case "close_stream":
        this.closeStream?.();
        this.closeStream = undefined;
        return;
      case "set_timer":
        this.cancelTimer?.();
        this.cancelTimer = this.environment.timers.after(
          output.delayMs,
          () => this.step({ type: "timer" }),
          // A library does not keep its host alive; the service's listener does.
          { unref: true },
        );
        return;
      case "clear_timer":
        this.cancelTimer?.();
        this.cancelTimer = undefined;
        return;
      default:
        unreachable(output, "every output is handled");
    }
  }

  private openStream(): void {
    const resume = this.view.beginStream();
    const handlers = {
      onOpened: () => this.step({ type: "stream_opened" }),
      onMessage: (message: SubscribeResponse) => this.message(message),
      onEnded: (error: SubscriptionError) => this.ended(error),
    };
    this.closeStream = this.source.open(this.dpRank, handlers, resume);
  }

  private ended(error: SubscriptionError): void {
    this.closeStream = undefined;
    if (FORGETTING_ERRORS.has(error)) this.view.forgetCursor();
    this.step({ type: "stream_ended", error });
  }

  private message(response: SubscribeResponse): void {
    const applied = this.view.apply(response);
    if (applied.ok) {
      this.step({ type: "message", progress: applied.value });
      return;
    }
    // Whoever broke the contract may break it there again: only a snapshot ends that.
    this.view.forgetCursor();
    const { refusals } = this.environment;
    refusals.set(applied.error, (refusals.get(applied.error) ?? 0) + 1);
    const { worker, dpRank } = this;
    this.environment.log.warn({ worker, dpRank, reason: applied.error }, "message refused");
    this.step({ type: "message_refused", error: errorOf(applied.error) });
  }

  /** One line when a rank becomes live and one for each new error, not one for each attempt. */
  private report(): void {
    const { state, lastError } = this.subscription;
    const { log, streamErrors } = this.environment;
    if (state === "backoff" && lastError !== undefined) {
      streamErrors.set(lastError, (streamErrors.get(lastError) ?? 0) + 1);
    }
    const fields = { worker: this.worker, dpRank: this.dpRank, state, error: lastError };
    const isNews = lastError !== this.reportedError;
    this.reportedError = lastError;
    // A new start on a live stream is no news: a bridge may send many.
    const wasFollowed = this.isFollowed;
    this.isFollowed = state === "live" || (wasFollowed && state === "snapshot");
    if (isNews && lastError !== undefined) log.warn(fields, "rank not followed");
    else if (state === "live" && !wasFollowed) log.info(fields, "rank followed");
    else log.debug(fields, "subscription state");
  }
}

function errorOf(refusal: MessageRefusal): SubscriptionError {
  if (refusal === "key_scheme_differs") return "key_scheme_mismatch";
  return refusal === "engine_changed" ? "engine_changed" : "bridge_protocol";
}
