/**
 * What it is: the life of one rank's stream as a synchronous state machine: stopped → connecting
 * → snapshot → live, and from each of them over backoff to connecting again.
 * Owns: the state, the back-off, the moment of the last contact. Invariants: a stream is open
 * exactly in connecting, snapshot and live; a timer is set in every state but stopped.
 * Refuses: inputs that the state does not expect (late ones of a stream that was closed) have no
 * effect.
 * Does not do: I/O, timers, applying messages. The view is kept by others while this reconnects.
 */
import { LIMITS } from "@kv-group-bridge/protocol";
import { invariant, unreachable } from "@kv-group-bridge/runtime";
import type { StreamTrouble } from "./answer.ts";

/** Where a subscription stands; the words of RankState.subscription_state. */
export type SubscriptionState = "connecting" | "snapshot" | "live" | "backoff" | "stopped";

/** Why a stream ended. `docs/errors.md` explains each. */
export const SUBSCRIPTION_ERRORS = [
  "bridge_unreachable",
  "bridge_silent",
  "bridge_failed",
  "bridge_protocol",
  "engine_changed",
  "resume_refused",
  "stream_ended",
  "resource_exhausted",
  "key_scheme_mismatch",
  "rank_unknown",
  "permission_denied",
  "unauthenticated",
  "unimplemented",
] as const;

/** One of `SUBSCRIPTION_ERRORS`. */
export type SubscriptionError = (typeof SUBSCRIPTION_ERRORS)[number];

/** What time does not heal: it is tried again at the longest pause only, and shown. */
const LASTING_ERRORS: ReadonlySet<SubscriptionError> = new Set([
  "key_scheme_mismatch",
  "rank_unknown",
  "permission_denied",
  "unauthenticated",
  "unimplemented",
]);

/** What happened. `message` comes after the view has taken it and says how far that led. */
export type SubscriptionInput =
  | { readonly type: "start" }
  | { readonly type: "stream_opened" }
  | { readonly type: "message"; readonly progress: MessageProgress }
  | { readonly type: "message_refused"; readonly error: SubscriptionError }
  | { readonly type: "stream_ended"; readonly error: SubscriptionError }
  | { readonly type: "timer" }
  | { readonly type: "address_changed" }
  | { readonly type: "stop" };

/** A view begins anew, goes on where it was, is whole, or nothing of that. */
export type MessageProgress = "started" | "resumed" | "snapshot_whole" | "none";

/** What is to be done, in order. `set_timer` replaces an earlier timer. */
export type SubscriptionOutput =
  | { readonly type: "open_stream" }
  | { readonly type: "close_stream" }
  | { readonly type: "set_timer"; readonly delayMs: number }
  | { readonly type: "clear_timer" }
  | { readonly type: "state_changed" };

/** `random` gives fractions in [0, 1). */
export interface SubscriptionOptions {
  readonly staleAfterMs: number;
  readonly random: () => number;
}

const NONE: readonly SubscriptionOutput[] = [];
const STATE_CHANGED: readonly SubscriptionOutput[] = [{ type: "state_changed" }];

/** A stream that is silent for this many times `staleAfterMs` is ended and opened again. */
const SILENCE_ENDS_STREAM = 2;

/**
 * One rank's subscription. Every input is `step`; outputs are values that the caller carries out.
 */
export class Subscription {
  private readonly options: SubscriptionOptions;
  private current: SubscriptionState = "stopped";
  private error: SubscriptionError | undefined = undefined;
  private attempts = 0;
  private lastContactMs = 0;
  /** What comes first after a silence may have been under way all the while: a bridge that stood still. */
  private doubtedUntilMs = 0;
  private liveSinceMs = 0;
  private isSilent = false;
  /** The last stream was refused because of its cursor, and no start has come since. */
  private wasResumeRefused = false;

  constructor(options: SubscriptionOptions) {
    invariant(options.staleAfterMs > 0, "a stream may be silent for some time");
    this.options = options;
  }

  /** Where the subscription stands. */
  get state(): SubscriptionState {
    return this.current;
  }

  /** The last error; undefined once the stream is live again. */
  get lastError(): SubscriptionError | undefined {
    return this.error;
  }

  /** What a view behind this stream suffers from at `nowMs`; undefined = nothing. */
  trouble(nowMs: number): StreamTrouble {
    if (!this.hasStream() || this.current === "connecting") return "disconnected";
    const isDoubted = nowMs < this.doubtedUntilMs;
    return isDoubted || this.isOverdue(nowMs) ? "silent" : undefined;
  }

  /** Takes one input at `nowMs` (monotonic milliseconds) and returns what to do. */
  step(input: SubscriptionInput, nowMs: number): readonly SubscriptionOutput[] {
    switch (input.type) {
      case "start":
        return this.current === "stopped" ? this.connect(nowMs) : NONE;
      case "stream_opened":
        if (this.hasStream()) this.lastContactMs = nowMs;
        return NONE;
      case "message":
        return this.hasStream() ? this.progress(input.progress, nowMs) : NONE;
      case "message_refused":
        return this.hasStream() ? this.fail(input.error, nowMs, true) : NONE;
      case "stream_ended":
        return this.hasStream() ? this.fail(input.error, nowMs, false) : NONE;
      case "timer":
        return this.expire(nowMs);
      case "address_changed":
        return this.changeAddress(nowMs);
      case "stop":
        return this.stop();
      default:
        return unreachable(input, "every input is handled");
    }
  }

  private isOverdue(nowMs: number): boolean {
    return nowMs - this.lastContactMs >= this.options.staleAfterMs;
  }

  private hasStream(): boolean {
    return this.current !== "stopped" && this.current !== "backoff";
  }

  private connect(nowMs: number): readonly SubscriptionOutput[] {
    this.current = "connecting";
    this.lastContactMs = nowMs;
    this.doubtedUntilMs = 0;
    this.isSilent = false;
    return [
      { type: "set_timer", delayMs: LIMITS.connectTimeoutMs.value },
      { type: "state_changed" },
      { type: "open_stream" },
    ];
  }

  private progress(progress: MessageProgress, nowMs: number): readonly SubscriptionOutput[] {
    if (this.isOverdue(nowMs)) this.doubtedUntilMs = nowMs + LIMITS.wakeGraceMs.value;
    this.lastContactMs = nowMs;
    const wasSilent = this.isSilent;
    this.isSilent = false;
    if (progress === "started" || progress === "resumed") this.wasResumeRefused = false;
    if (progress === "resumed") {
      invariant(this.current === "connecting", "a view goes on with the first start only");
      this.becomeLive(nowMs);
      return [{ type: "set_timer", delayMs: this.options.staleAfterMs }, { type: "state_changed" }];
    }
    if (progress === "started" && this.current !== "snapshot") {
      const wasConnecting = this.current === "connecting";
      this.current = "snapshot";
      if (!wasConnecting) return STATE_CHANGED;
      return [{ type: "set_timer", delayMs: this.options.staleAfterMs }, { type: "state_changed" }];
    }
    if (progress === "snapshot_whole") {
      invariant(this.current === "snapshot", "a snapshot becomes whole after its start");
      this.becomeLive(nowMs);
      return STATE_CHANGED;
    }
    return wasSilent ? STATE_CHANGED : NONE;
  }

  private becomeLive(nowMs: number): void {
    this.current = "live";
    this.liveSinceMs = nowMs;
    this.error = undefined;
  }

  private expire(nowMs: number): readonly SubscriptionOutput[] {
    switch (this.current) {
      case "stopped":
        return NONE;
      case "backoff":
        return this.connect(nowMs);
      case "connecting":
        return this.fail("bridge_unreachable", nowMs, true);
      case "snapshot":
      case "live":
        return this.checkSilence(nowMs);
      default:
        return unreachable(this.current, "every state is handled");
    }
  }

  private checkSilence(nowMs: number): readonly SubscriptionOutput[] {
    const silentMs = nowMs - this.lastContactMs;
    const { staleAfterMs } = this.options;
    if (silentMs < staleAfterMs) {
      return [{ type: "set_timer", delayMs: staleAfterMs - silentMs }];
    }
    const endsMs = SILENCE_ENDS_STREAM * staleAfterMs;
    if (silentMs >= endsMs) return this.fail("bridge_silent", nowMs, true);
    this.isSilent = true;
    return [{ type: "set_timer", delayMs: endsMs - silentMs }, { type: "state_changed" }];
  }

  private fail(
    error: SubscriptionError,
    nowMs: number,
    isStreamOpen: boolean,
  ): readonly SubscriptionOutput[] {
    const max = LIMITS.reconnectMaxMs.value;
    if (this.current === "live" && nowMs - this.liveSinceMs >= max) this.attempts = 0;
    const delayMs = this.pauseMs(error);
    this.current = "backoff";
    this.error = error;
    this.isSilent = false;
    const outputs: SubscriptionOutput[] = isStreamOpen ? [{ type: "close_stream" }] : [];
    outputs.push({ type: "set_timer", delayMs }, { type: "state_changed" });
    return outputs;
  }

  private pauseMs(error: SubscriptionError): number {
    const max = LIMITS.reconnectMaxMs.value;
    if (LASTING_ERRORS.has(error)) return max;
    if (error === "resume_refused" && !this.wasResumeRefused) {
      // Without the cursor the next stream is another question: it is asked at once.
      this.wasResumeRefused = true;
      return 0;
    }
    // Full jitter: anything between nothing and the doubled bound, so that a fleet does not come
    // at once.
    const bound = Math.min(max, LIMITS.reconnectMinMs.value * 2 ** this.attempts);
    if (bound < max) this.attempts++;
    return Math.floor(bound * this.options.random());
  }

  /** The bridge is elsewhere: whatever the old address did says nothing about the new one. */
  private changeAddress(nowMs: number): readonly SubscriptionOutput[] {
    if (this.current === "stopped") return NONE;
    const outputs: SubscriptionOutput[] = this.hasStream() ? [{ type: "close_stream" }] : [];
    this.attempts = 0;
    this.error = undefined;
    this.wasResumeRefused = false;
    return [...outputs, ...this.connect(nowMs)];
  }

  private stop(): readonly SubscriptionOutput[] {
    if (this.current === "stopped") return NONE;
    const outputs: SubscriptionOutput[] = this.hasStream() ? [{ type: "close_stream" }] : [];
    this.current = "stopped";
    this.attempts = 0;
    outputs.push({ type: "clear_timer" }, { type: "state_changed" });
    return outputs;
  }
}
