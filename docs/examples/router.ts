// A router that sends each prompt where most of it is cached, unless that worker is much busier than another.
// The gateway is a library here: no port is opened, and each replica of a router holds the whole view.
import { createGateway, type Gateway, type RankAnswer } from "@kv-group-bridge/gateway";

/** Where a request may go. */
export interface Target {
  readonly worker: string;
  readonly dpRank: number;
}

/** Requests that this router has sent to a rank and not seen end; the gateway does not know load. */
export type LoadOf = (target: Target) => number;

/** Follows two workers. Their bridges may be up or not; the gateway goes on trying. */
export function openGateway(seed: string): Gateway {
  const gateway = createGateway({ seed });
  gateway.addWorker({ name: "worker-a", url: "http://worker-a.example:7557" });
  gateway.addWorker({ name: "worker-b", url: "http://worker-b.example:7557", dpRanks: [0, 1] });
  return gateway;
}

/** Tokens of prompt that one more waiting request is worth, in this router's opinion. */
const TOKENS_PER_WAITING_REQUEST = 512;

/**
 * The best target for a prompt, undefined when nobody is followed. Ties stay ties in the gateway's answers;
 * the load breaks them here, so that a burst of equal prompts does not pile up on the first worker.
 */
export function choose(gateway: Gateway, tokens: Uint32Array, loadOf: LoadOf): Target | undefined {
  let best: RankAnswer | undefined;
  let bestWorth = Number.NEGATIVE_INFINITY;
  for (const answer of gateway.score({ tokens })) {
    const worth = believedTokens(answer) - TOKENS_PER_WAITING_REQUEST * loadOf(answer);
    if (worth <= bestWorth) continue;
    best = answer;
    bestWorth = worth;
  }
  return best === undefined ? undefined : { worker: best.worker, dpRank: best.dpRank };
}

/** What a state of an answer is worth is the router's policy. This one believes all but old news. */
function believedTokens(answer: RankAnswer): number {
  switch (answer.state) {
    case "exact":
    case "assumed":
    case "lower_bound":
      return answer.reusableTokens;
    case "stale":
      return Math.floor(answer.reusableTokens / 2);
    case "unknown":
      return 0;
  }
}
