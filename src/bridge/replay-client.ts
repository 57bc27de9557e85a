/**
 * What it is: the adapter to an engine's replay socket: a number → the batches from there on, then
 * an end or a failure.
 * Owns: the request in flight, at most one.
 * Refuses: nothing.
 * Does not do: read sockets (replay-request.ts does), judge numbers (holes, repeats, what was not
 * asked for), ask again, or decide what a failure means.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { type Cancel, invariant } from "@kv-group-bridge/runtime";
import { engineAddress } from "./engine-endpoint.ts";
import type { ReplayHandlers, ReplayPort } from "./replay-port.ts";
import { ReplayRequest, type ReplayRequestOptions } from "./replay-request.ts";

/** What a client needs. */
export interface ReplayClientOptions extends Omit<ReplayRequestOptions, "address"> {
  /** As configured; see `engineAddress`. vLLM always binds this socket. */
  readonly endpoint: string;
}

/** The replay socket of one rank. */
export class ReplayClient implements ReplayPort {
  private readonly options: ReplayRequestOptions;
  private current: ReplayRequest | undefined;
  /** Settles when no reader of any request so far is at work. */
  private readers: Promise<void> = Promise.resolve();

  /** Fails with `engine_endpoint_invalid`. Opens nothing. */
  constructor(options: ReplayClientOptions) {
    this.options = { ...options, address: engineAddress(options.endpoint, "connect") };
  }

  /** As `ReplayPort`. A handler that is told of the end may ask again at once. */
  request(from: SequenceNumber, handlers: ReplayHandlers): Cancel {
    invariant(this.current === undefined, "at most one replay request is in flight");
    const request = new ReplayRequest(this.options, from, handlers, () => {
      this.current = undefined;
    });
    this.current = request;
    this.readers = both(this.readers, request.run());
    return () => request.end();
  }

  /** Ends a request in flight. Resolves when its socket is closed and no handler can follow. */
  async close(): Promise<void> {
    this.current?.end();
    await this.readers;
  }
}

async function both(first: Promise<void>, second: Promise<void>): Promise<void> {
  await first;
  await second;
}
