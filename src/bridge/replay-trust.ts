/**
 * What it is: whether a rank's replay socket and its live socket lead to the same engine, as far as their words tell.
 * Owns: how often replies contradicted the live socket since they last agreed with it.
 * Refuses: nothing.
 * Does not do: compare payloads, or decide what follows (the gate does).
 */
import { LIMITS } from "@kv-group-bridge/protocol";
import type { HeldBatches } from "./held-batches.ts";
import type { ReplayAccount } from "./replay-account.ts";

/** One a gate. */
export class ReplayTrust {
  private contradictions = 0;
  private foreignReplies = 0;
  /** The last reply has a batch that the live socket brought. */
  hasAgreed = false;

  /**
   * Reply after reply contradicted the live socket, a new one too: the replay endpoint is another engine's, or keeps
   * nothing. What the live socket brings counts then, as if there were no replay, until a probe agrees with it.
   */
  get isRefuted(): boolean {
    return this.contradictions >= LIMITS.replayContradictions.value;
  }

  /** A reply lacks what the live socket brought, or says otherwise. */
  contradicted(): void {
    this.hasAgreed = false;
    this.contradictions = Math.min(this.contradictions + 1, LIMITS.replayContradictions.value);
  }

  /** A reply lacks what the live socket brought; counted until a reply does not. */
  lacked(): void {
    this.foreignReplies += 1;
    this.contradicted();
  }

  /**
   * A whole reply is over: drops what is held from before it and is beyond it, and gives how many. Not when the replay
   * socket is not believed any more: then what is held counts.
   */
  dropForeign(held: HeldBatches, { era, top }: Pick<ReplayAccount, "era" | "top">): number {
    if (held.hasForeign(era, top)) this.lacked();
    else this.foreignReplies = 0;
    return this.isRefuted ? 0 : held.dropForeign(era, top);
  }

  /** A reply has a batch that the live socket brought. */
  agreed(): void {
    this.hasAgreed = true;
  }

  /** Another reply begins. */
  beginReply(): void {
    this.hasAgreed = false;
  }

  /** The reply is over: what it agreed with counts. */
  replyOver(): void {
    if (this.hasAgreed) {
      this.contradictions = 0;
      this.foreignReplies = 0;
    }
  }

  /** True when the live socket should be opened anew; asks once. */
  takeReopen(): boolean {
    if (this.isRefuted || this.foreignReplies < LIMITS.replayForeignReplies.value) return false;
    this.foreignReplies = 0;
    return true;
  }
}
