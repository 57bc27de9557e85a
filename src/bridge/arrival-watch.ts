/**
 * What it is: tells an operator, once, what is missing when everything is configured and nothing
 * arrives.
 * Owns: since when the rank is in its present state, and whether that was said.
 * Refuses: nothing.
 * Does not do: log, or judge health: a bridge that waits for its engine is healthy.
 */

/** How far a rank has come, from nothing to all. */
export type Arrival = "not_connected" | "no_messages" | "no_usable_stores" | "following";

/** What is known at a moment. */
export interface ArrivalFacts {
  readonly isConnected: boolean;
  /** Multipart messages of any kind since the engine was connected, refused ones included, replies not. */
  readonly messages: number;
  /** Blocks held whose place is known, whoever told of them: the live socket, a reply, a checkpoint. */
  readonly placedBlocks: bigint;
  /** The engine has yet to prove that these blocks are its own. */
  readonly isCatchingUp: boolean;
}

/** A model may take minutes to load; a wrong port is worth a line after one. */
export const ARRIVAL_HINT_AFTER_MS = 60_000;

/** One rank's watch. Driven by a timer outside. */
export class ArrivalWatch {
  private arrival: Arrival = "not_connected";
  private sinceMs: number;
  private isSaid = false;
  /** Placed blocks were seen on this connection; that a cache is empty now and then is no lack. */
  private hasUsableStores = false;

  /** `nowMs` is monotonic. */
  constructor(nowMs: number) {
    this.sinceMs = nowMs;
  }

  /**
   * The state when it must be said now, else undefined: "following" at once, the others after
   * ARRIVAL_HINT_AFTER_MS in the same state; each once until the state changes.
   */
  step(nowMs: number, facts: ArrivalFacts): Arrival | undefined {
    const { isConnected, isCatchingUp, placedBlocks } = facts;
    if (isConnected && !isCatchingUp && placedBlocks > 0n) this.hasUsableStores = true;
    const arrival = arrivalOf(facts, this.hasUsableStores);
    if (arrival !== this.arrival) {
      this.arrival = arrival;
      this.sinceMs = nowMs;
      this.isSaid = false;
    }
    const waitMs = arrival === "following" ? 0 : ARRIVAL_HINT_AFTER_MS;
    if (this.isSaid || nowMs - this.sinceMs < waitMs) return undefined;
    this.isSaid = true;
    return arrival;
  }

  /** The engine is gone: what comes next may be another one, of which nothing is known. */
  disconnected(): void {
    this.hasUsableStores = false;
  }

  /** The state at the last step. */
  get current(): Arrival {
    return this.arrival;
  }
}

/** What to look at, for people. */
export function arrivalHint(arrival: Arrival): string {
  switch (arrival) {
    case "not_connected":
      return (
        "not connected to the engine's publisher: is it up, are its KV events enabled, is the " +
        'port right? An engine whose endpoint has neither "*" nor "::" connects itself: then the ' +
        "bridge must bind"
      );
    case "no_messages":
      return (
        "connected, zero messages: is something else listening there, are KV events and prefix " +
        "caching enabled, are prompts longer than one block?"
      );
    case "no_usable_stores":
      return (
        "messages, but no usable stores: see the counters refused.* (a wrong topic, another " +
        "rank, an encoding that is not vLLM's) and unplaced blocks"
      );
    case "following":
      return "following the engine";
  }
}

function arrivalOf(facts: ArrivalFacts, hasUsableStores: boolean): Arrival {
  if (!facts.isConnected) return "not_connected";
  // An idle engine says nothing, and a reply of the replay socket may have told everything.
  if (hasUsableStores) return "following";
  return facts.messages === 0 ? "no_messages" : "no_usable_stores";
}
