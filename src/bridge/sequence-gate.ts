/**
 * What it is: the judge of the order of one publisher's batches, live and replayed, as a synchronous state machine:
 * away → asking ⇄ pausing → following. Table of states: docs/protocol.md.
 * Owns: the last number delivered, digests of the last payloads, the batches held while a range is asked again.
 * Invariants: batches are delivered in the order of their numbers, each once in an epoch; at most one request is in
 * flight; after a loss of sight nothing is delivered before the engine is proved to be the same one, or given up.
 * Refuses: nothing; every input gets its outputs. Late answers of requests that were cancelled must not come here.
 * Does not do: I/O, time, decoding, epochs (the rank's pipeline carries the outputs out).
 */
import { FIRST_SEQUENCE, LIMITS } from "@kv-group-bridge/protocol";
import { invariant, unreachable } from "@kv-group-bridge/runtime";
import { DeliveryOrder } from "./delivery-order.ts";
import { lossOf } from "./epoch-loss.ts";
import type {
  GateBatch,
  GateInput,
  GateMemory,
  GateOptions,
  GateOutput,
  GateState,
} from "./gate-step.ts";
import { OF_REPLAY } from "./held-batches.ts";
import { LiveSpan } from "./live-span.ts";
import { ReplayAccount } from "./replay-account.ts";
import { ReplayTrust } from "./replay-trust.ts";
import { SilenceWatch } from "./silence-watch.ts";

/** One gate a rank. */
export class SequenceGate {
  /** What was delivered, and what is held. */
  readonly order: DeliveryOrder;
  private readonly replay: ReplayAccount;
  /** Whether its replies are believed. */
  readonly trust = new ReplayTrust();
  private current: GateState = "away";
  /** Since the engine was last out of sight, nothing has proved that it is the same. */
  private isUnproven = false;
  /** The publisher was in sight at least once. */
  private hasAppeared = false;
  /** The request in flight only asks whether the engine is still the same one. */
  private isProbing = false;
  /** The request in flight asks for more than the present epoch has. */
  private isReaching = false;
  private readonly liveSpan = new LiveSpan();
  /** What the silence of the live socket means. */
  readonly silence = new SilenceWatch();
  private readonly out: GateOutput[] = [];

  constructor(options: GateOptions, memory?: GateMemory) {
    this.replay = new ReplayAccount(options.attempts ?? LIMITS.replayAttempts.value);
    this.order = new DeliveryOrder(options, memory, (output) => this.out.push(output));
    this.isUnproven = memory !== undefined;
  }

  /** Where the gate stands. */
  get state(): GateState {
    return this.current;
  }

  /** True while a range is asked: what was delivered is of the past, or not yet proved. */
  get isCatchingUp(): boolean {
    return this.current === "asking" || this.current === "pausing";
  }

  /** Takes one input and says what to do. */
  step(input: GateInput): readonly GateOutput[] {
    switch (input.type) {
      case "connected":
        if (this.current === "away") this.appear();
        break;
      case "disconnected":
        this.disappear();
        break;
      case "live":
        this.live(input.batch);
        break;
      case "replayed":
        this.replayed(input.batch);
        break;
      case "replay_ended":
        this.ended(true);
        break;
      case "replay_failed":
        this.ended(false);
        break;
      case "timer":
        this.expire();
        break;
      case "replaced":
        this.beginAnother();
        this.ask();
        break;
      default:
        unreachable(input, "every input is handled");
    }
    // Nothing of it is kept: payloads are prompts.
    return this.out.splice(0);
  }

  /** Checks what must always hold. */
  audit(): void {
    const { held } = this.order;
    held.audit();
    invariant(this.isCatchingUp || held.count === 0, "batches are held while a range is asked");
  }

  private appear(): void {
    this.hasAppeared = true;
    this.liveSpan.forget();
    this.replay.beginRange();
    if (!this.order.canReplay) this.order.endEpoch("unproven");
    this.ask();
  }

  private disappear(): void {
    if (this.current === "away") return;
    this.cancel();
    this.order.untie();
    this.isUnproven = true;
    this.silence.reset();
    this.current = "away";
    this.out.push({ type: "clear_timer" });
  }

  private live(batch: GateBatch): void {
    if (this.current === "away") {
      // What is left in the socket's queue of a connection that is gone cannot be told from a new engine's.
      if (this.hasAppeared || this.order.last !== undefined) {
        this.out.push({ type: "foreign", batches: 1 });
        return;
      }
      this.appear();
    }
    this.silence.heard();
    const { sequence } = batch;
    if (this.order.isPast(sequence)) {
      if (this.order.comparePast(batch) === "equal") this.liveAgain();
      else this.restartedBy(batch);
    } else if (this.current === "following") this.liveWhileFollowing(batch);
    else this.liveWhileCatchingUp(batch);
    this.liveSpan.add(sequence);
  }

  private liveAgain(): void {
    this.order.isTied = true;
    this.out.push({ type: "duplicate" });
    this.order.drain();
  }

  private liveWhileFollowing(batch: GateBatch): void {
    this.silence.answered();
    const { order } = this;
    const isNext = order.isNext(batch.sequence);
    // What begins a history is of its process.
    if (isNext && order.last === undefined) order.isTied = true;
    if (order.canReplay && !(isNext && order.isTied)) {
      order.held.add(batch, this.replay.era);
      this.replay.beginRange();
      if (this.isProbing && !this.trust.isRefuted) this.beginCatchingUp();
      else this.ask();
      return;
    }
    if (!isNext) order.endEpoch("lost", batch.sequence - order.expected);
    order.deliver(batch);
  }

  private liveWhileCatchingUp(batch: GateBatch): void {
    const { order, replay } = this;
    const likeness = order.held.compare(batch);
    const isBackwards = this.liveSpan.reaches(batch.sequence);
    if (likeness === "equal") {
      if (replay.isAnchored) this.liveAgain();
      else this.out.push({ type: "duplicate" });
    } else if (likeness === "differs" || isBackwards) this.restartedBy(batch);
    else if (order.isTied && replay.isAnchored && batch.sequence === order.expected) {
      order.deliver(batch);
    } else order.held.add(batch, replay.era);
  }

  private replayed(batch: GateBatch): void {
    if (!this.replay.isOpen) return;
    const { order, replay } = this;
    const { sequence } = batch;
    replay.note(sequence);
    if (this.isReaching) this.reach(batch);
    const hasComeLive = this.liveSpan.includes(sequence) && order.compare(batch) === "equal";
    if (hasComeLive) this.trust.agreed();
    if (this.trust.isRefuted) return;
    if (order.last !== undefined && sequence <= order.last) {
      if (order.comparePast(batch) === "differs") this.restartedByReplay();
      else if (sequence === order.last) {
        replay.isAnchored = true;
        order.drain();
      }
      return;
    }
    if (order.held.compare(batch) === "differs") {
      this.restartedByReplay();
      return;
    }
    if (hasComeLive && replay.isAnchored) order.isTied = true;
    const isOldest = replay.batches === 1 && order.canBegin(sequence);
    if (replay.isAnchored && (sequence === order.expected || isOldest)) {
      order.held.take(sequence);
      if (this.isProbing) this.silence.isDeaf = true; // The live socket should have brought it.
      order.deliver(batch);
      return;
    }
    order.held.add(batch, OF_REPLAY);
    // A probe that finds a hole is a request for what is missing.
    if (this.isProbing) this.beginCatchingUp();
  }

  /** The first batch of a reply that was asked from 0: what is older than the epoch begins it again. */
  private reach({ sequence }: GateBatch): void {
    this.isReaching = false;
    this.replay.isAnchored = this.order.beginAgainBefore(sequence);
  }

  private ended(hasMarker: boolean): void {
    const { order, replay, trust } = this;
    if (!replay.isOpen) return;
    const { isRefuted } = trust;
    replay.close(hasMarker);
    this.isReaching = false;
    trust.replyOver();
    // Nothing is missing between what was delivered and what the live socket brings.
    const hasJoined = replay.isAnchored && !order.hasHole && this.liveSpan.isBelow(order.last);
    if (isRefuted) this.armProbe();
    else if (this.isProbing) this.probeEnded(hasMarker);
    else if (hasMarker) this.replyEnded();
    else if (hasJoined) this.follow();
    else this.askAgainOrGiveUp();
  }

  private replyEnded(): void {
    if (this.replay.isWhole) this.dropForeign();
    if (this.trust.isRefuted) this.giveUp();
    else if (!this.replay.isAnchored) this.unanchoredReplyEnded();
    else if (this.order.hasHole) {
      // The oldest that the engine has came after something that is held: what lies between is forgotten.
      if (this.order.last === undefined && this.replay.batches > 0) this.giveUp();
      else this.askAgainOrGiveUp();
    } else if (this.replay.isShort || !this.replay.hasAdvanced(this.order.expected)) {
      this.follow();
    } else this.ask(); // The socket may have dropped the newest ones (high-water mark, up to vLLM 0.32).
  }

  /** The engine answers from the number asked on, and the batch delivered last was not among them. */
  private unanchoredReplyEnded(): void {
    const verdict = this.replay.verdict(this.order.last);
    if (verdict === "forgotten") this.giveUp();
    else if (verdict === "never") this.restartedByReplay();
    else this.askAgainOrGiveUp();
  }

  private expire(): void {
    const isListening = this.current === "following" && this.order.canReplay && !this.isProbing;
    if (this.current === "pausing") this.ask();
    if (!isListening) return;
    if (this.silence.isDeaf) this.reopen();
    else if (this.silence.hasNews && !this.trust.isRefuted) this.armProbe();
    else {
      this.isProbing = true;
      this.request();
    }
  }

  private restartedBy(batch: GateBatch): void {
    this.beginAnother();
    if (batch.sequence === 0n || !this.order.canReplay) {
      this.order.isTied = true;
      this.order.deliver(batch);
      this.follow();
    } else {
      this.order.held.add(batch, this.replay.era);
      this.ask();
    }
  }

  private restartedByReplay(): void {
    const wasInSight = !this.isUnproven;
    if (wasInSight) this.trust.contradicted();
    this.beginAnother(); // Both sockets must lead to the same process; after a reconnect they do.
    if (wasInSight) this.reopen();
    else this.ask();
  }

  /** The engine is another process. */
  private beginAnother(): void {
    this.cancel();
    this.order.endEpoch("restarted");
    this.isUnproven = false;
    this.liveSpan.forget();
  }

  private reopen(): void {
    this.disappear();
    this.out.push({ type: "reopen_live" });
  }

  /** Unless the replay socket is not believed any more: then what is held counts. */
  private dropForeign(): void {
    const dropped = this.trust.dropForeign(this.order.held, this.replay);
    if (dropped === 0) return;
    this.out.push({ type: "foreign", batches: dropped });
    this.liveSpan.forget();
  }

  private ask(): void {
    if (!this.order.canReplay) this.follow();
    else if (this.trust.isRefuted) {
      this.replay.isAnchored = false;
      this.giveUp();
    } else {
      this.current = "asking";
      this.request();
    }
  }

  /** Replay was given up, and works again: it may reach further back than the epoch, which began without it. */
  private askFromBegin(): void {
    this.replay.isOwed = false;
    if (!this.order.beginsAfter(FIRST_SEQUENCE)) return;
    this.isReaching = true;
    this.replay.beginRange();
    this.ask();
  }

  /** The probe in flight goes on as a request for what is missing. */
  private beginCatchingUp(): void {
    this.isProbing = false;
    this.current = "asking";
    this.out.push({ type: "clear_timer" });
  }

  private request(): void {
    this.trust.beginReply();
    const from = this.replay.open(this.order, this.isReaching);
    this.out.push({ type: "clear_timer" }, { type: "request_replay", from });
  }

  private cancel(): void {
    if (this.replay.isOpen) this.out.push({ type: "cancel_replay" });
    this.replay.isOpen = false;
    this.isProbing = false;
    this.isReaching = false;
    this.order.held.clear();
  }

  private askAgainOrGiveUp(): void {
    const delayMs = this.replay.pauseMs(this.order.expected);
    if (delayMs === undefined) this.giveUp();
    else {
      this.current = "pausing";
      this.out.push({ type: "set_timer", delayMs });
    }
  }

  /** What is missing is lost: the epoch ends, and what is held begins the next one. */
  private giveUp(): void {
    const { order, replay } = this;
    if (replay.batches === 0) replay.hasAnswered = false;
    if (replay.batches === 0 || this.trust.isRefuted) replay.isOwed = true;
    const loss = lossOf(order, replay, this.isUnproven);
    if (loss !== undefined) order.endEpoch(loss.end, loss.missing);
    this.isUnproven = false;
    if (this.trust.hasAgreed) order.isTied = true;
    if (order.flush(replay.batches > 0 && !this.trust.isRefuted)) {
      this.trust.lacked();
      this.ask();
    } else this.follow();
  }

  private follow(): void {
    this.current = "following";
    this.isUnproven = false;
    this.silence.answered();
    this.order.held.clear();
    if (this.trust.takeReopen()) this.reopen();
    else if (this.order.canReplay) this.armProbe();
  }

  private probeEnded(hasMarker: boolean): void {
    if (hasMarker && !this.replay.isAnchored) {
      this.beginCatchingUp();
      this.unanchoredReplyEnded();
    } else {
      if (hasMarker) this.silence.answered();
      else this.silence.unanswered(this.replay.hasAnswered);
      this.armProbe();
      if (hasMarker && this.replay.isOwed) this.askFromBegin();
    }
  }

  private armProbe(): void {
    this.isProbing = false;
    this.out.push({ type: "set_timer", delayMs: this.silence.listen() });
  }
}
