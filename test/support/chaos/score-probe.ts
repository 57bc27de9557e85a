/**
 * What it is: a router that asks a gateway, and takes a gateway that does not answer for one that says "unknown".
 * Owns: one HTTP/2 connection, made anew when it broke.
 * Refuses: nothing.
 * Does not do: judge.
 */
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  AnswerState,
  type RankState,
  ScoreService,
} from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import type { TracePrompt } from "../../../src/cli/dist/trace-file.js";

/** A paused gateway answers never. */
const TIMEOUT_MS = 1_500;

/** One rank's answer for one prompt. */
export interface ProbeAnswer {
  readonly tokens: number;
  /** "exact", "assumed", "lower_bound", "stale", "unknown". */
  readonly state: string;
  readonly reasons: readonly string[];
}

/** The reason of a gateway that does not answer. */
export const NO_ANSWER = "no answer";
const SILENCE: ProbeAnswer = { tokens: 0, state: "unknown", reasons: [NO_ANSWER] };

/** Follows one gateway on its port, over restarts. */
export class ScoreProbe {
  private readonly sessions: Http2SessionManager;
  private readonly client: Client<typeof ScoreService>;

  constructor(port: number) {
    const baseUrl = `http://127.0.0.1:${port}`;
    this.sessions = new Http2SessionManager(baseUrl);
    this.client = createClient(
      ScoreService,
      createGrpcTransport({
        baseUrl,
        sessionManager: this.sessions,
        acceptCompression: [],
        defaultTimeoutMs: TIMEOUT_MS,
      }),
    );
  }

  /** The answer of rank `dpRank` of the only worker. */
  async ask(prompt: TracePrompt, dpRank: number): Promise<ProbeAnswer> {
    try {
      const { scores } = await this.client.score({
        tokenIds: Array.from(prompt.tokens),
        multimodalItems: prompt.multimodalItems.map((item) => ({ ...item })),
        ...(prompt.loraName === undefined ? {} : { loraName: prompt.loraName }),
        ...(prompt.cacheSalt === undefined ? {} : { cacheSalt: prompt.cacheSalt }),
      });
      const score = scores.find((candidate) => candidate.dpRank === dpRank);
      if (score === undefined) return SILENCE;
      return {
        tokens: score.reusableTokens,
        state: AnswerState[score.state].toLowerCase(),
        reasons: score.reasons,
      };
    } catch {
      return SILENCE;
    }
  }

  /** What the gateway says of the rank; undefined = it does not answer. */
  async rank(dpRank: number): Promise<RankState | undefined> {
    try {
      const { ranks } = await this.client.listWorkers({});
      return ranks.find((candidate) => candidate.dpRank === dpRank);
    } catch {
      return undefined;
    }
  }

  /** Ends the connection. */
  close(): void {
    this.sessions.abort();
  }
}
