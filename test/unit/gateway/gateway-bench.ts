/**
 * What it is: a gateway over bridges that a test drives by hand, on a virtual clock.
 * Owns: the clock, and a bridge for each host of a worker's url.
 * Refuses: nothing.
 * Does not do: sockets.
 */
import {
  createGateway,
  type Gateway,
  type GatewayOptions,
  type WorkerSettings,
} from "../../../src/gateway/dist/index.js";
import { KvEventsError } from "../../../src/protocol/dist/index.js";
import type { Log } from "../../../src/runtime/dist/index.js";
import { SeededRandomness } from "../../support/seeded-randomness.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";
import {
  type EngineInit,
  type EventInit,
  FULL_4,
  HandBridge,
  liveWith,
  SEED,
  tokensTo,
} from "./messages.ts";

/** A gateway over bridges that the test drives by hand, by the host of their url. */
export class Bench {
  readonly clock = new VirtualClock();
  readonly bridges = new Map<string, HandBridge>();
  readonly gateway: Gateway;
  readonly lines: string[] = [];

  constructor(options: Partial<GatewayOptions> = {}) {
    const write = (fields: object, message: string): void => {
      this.lines.push(`${message} ${JSON.stringify(fields)}`);
    };
    const log: Log = { debug() {}, info: write, warn: write, error: write, child: () => log };
    this.gateway = createGateway({
      seed: SEED,
      clock: this.clock,
      timers: this.clock,
      randomness: new SeededRandomness(1),
      log,
      sourceFactory: ({ url }) => {
        const bridge = this.bridge(new URL(url).hostname);
        return {
          open: (dpRank, handlers, resume) => bridge.open(dpRank, handlers, resume),
          close: () => bridge.close(),
        };
      },
      ...options,
    });
  }

  bridge(host: string): HandBridge {
    const bridge = this.bridges.get(host) ?? new HandBridge();
    this.bridges.set(host, bridge);
    return bridge;
  }

  add(name: string, more: Partial<WorkerSettings> = {}): HandBridge {
    this.gateway.addWorker({ name, url: `http://${name}:1`, ...more });
    return this.bridge(name);
  }

  /** A worker of one rank that is live and holds the events. */
  addLive(
    name: string,
    events: readonly EventInit[],
    description: EngineInit = FULL_4,
  ): HandBridge {
    const bridge = this.add(name);
    bridge.send(liveWith(events, description));
    return bridge;
  }

  /** worker=tokens for every rank, of the prompt 1 … n or of tokens. */
  score(prompt: number | ArrayLike<number>): string {
    const tokens = typeof prompt === "number" ? tokensTo(prompt) : prompt;
    const answers = this.gateway.score({ tokens });
    this.gateway.audit();
    return answers.map((answer) => `${answer.worker}=${answer.reusableTokens}`).join(" ");
  }

  /** state and reasons of the first rank. */
  state(): string {
    const [answer] = this.gateway.score({ tokens: tokensTo(9) });
    return answer === undefined ? "none" : [answer.state, ...answer.reasons].join(" ");
  }
}

/** The code of the error; "" = there was none. */
export const codeOf = (work: () => unknown): string => {
  try {
    work();
    return "";
  } catch (error) {
    if (error instanceof KvEventsError) return error.code;
    throw error;
  }
};
