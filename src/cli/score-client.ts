/**
 * What it is: a client of a gateway's ScoreService that can wait until the gateway has applied a batch.
 * Owns: one HTTP/2 connection.
 * Refuses: a gateway that does not get there within a named time.
 * Does not do: print prompts.
 */
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  AnswerState,
  type RankState,
  ScoreService,
} from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { systemClock, systemTimers } from "@kv-group-bridge/runtime";
import type { TracePrompt } from "./trace-file.ts";

/** Longest wait for a state, and the pause between two looks. */
const WAIT_LIMIT_MS = 30_000;
const LOOK_EVERY_MS = 2;

/** An answer in words. */
export interface SpokenAnswer {
  readonly reusableTokens: number;
  readonly state: string;
  readonly limitedBy: string;
}

/** Follows one worker with one rank. */
export class ScoreClient {
  private readonly sessions: Http2SessionManager;
  private readonly client: Client<typeof ScoreService>;
  private readonly worker: string;

  constructor(url: string, worker: string) {
    this.worker = worker;
    this.sessions = new Http2SessionManager(url);
    this.client = createClient(
      ScoreService,
      createGrpcTransport({ baseUrl: url, sessionManager: this.sessions, acceptCompression: [] }),
    );
  }

  /** Resolves when the gateway follows the rank live. */
  live(): Promise<void> {
    return this.until((rank) => rank.subscriptionState === "live");
  }

  /** Resolves when the gateway has applied `sequence`; at once when nothing was published yet. */
  applied(sequence: bigint | undefined): Promise<void> {
    if (sequence === undefined) return Promise.resolve();
    return this.until(
      (rank) => rank.sequenceNumber !== undefined && rank.sequenceNumber >= sequence,
    );
  }

  /** Asks for one prompt. */
  async score(prompt: TracePrompt): Promise<SpokenAnswer> {
    const { scores } = await this.client.score({
      tokenIds: Array.from(prompt.tokens),
      multimodalItems: prompt.multimodalItems.map((item) => ({ ...item })),
      explain: true,
      ...(prompt.loraName === undefined ? {} : { loraName: prompt.loraName }),
      ...(prompt.cacheSalt === undefined ? {} : { cacheSalt: prompt.cacheSalt }),
    });
    const score = scores[0];
    if (score === undefined) throw new KvEventsError("worker_unknown", "the gateway has no answer");
    const limiting = score.groups.find((group) => group.isLimiting);
    const reasons = score.reasons.length === 0 ? "" : ` (${score.reasons.join(", ")})`;
    return {
      reusableTokens: score.reusableTokens,
      state: `${AnswerState[score.state].toLowerCase()}${reasons}`,
      limitedBy:
        limiting === undefined
          ? "limited by the prompt's length"
          : `limited by group ${limiting.groupId} (${limiting.kind}, alone ${limiting.reusableTokensAlone})`,
    };
  }

  /** Ends the connection. */
  close(): void {
    this.sessions.abort();
  }

  private async until(isReached: (rank: RankState) => boolean): Promise<void> {
    const deadline = systemClock.monotonicMs() + WAIT_LIMIT_MS;
    for (;;) {
      const { ranks } = await this.client.listWorkers({});
      const rank = ranks.find((candidate) => candidate.worker === this.worker);
      if (rank !== undefined && isReached(rank)) return;
      if (systemClock.monotonicMs() > deadline) {
        const state =
          rank === undefined ? "unknown" : `${rank.subscriptionState} ${rank.lastError}`;
        throw new KvEventsError(
          "bridge_unreachable",
          `the gateway did not follow in time: ${state}`,
        );
      }
      await new Promise<void>((resolve) => {
        systemTimers.after(LOOK_EVERY_MS, resolve);
      });
    }
  }
}
