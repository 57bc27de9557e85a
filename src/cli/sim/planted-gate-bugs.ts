/**
 * What it is: planted bugs of the sequence gate: each takes one rule of order away from one pipeline.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: touch any other object than the pipeline that it is given.
 */
import type { RankPipeline } from "@kv-group-bridge/bridge";
import { parseSequenceNumber, type SequenceNumber } from "@kv-group-bridge/protocol";

interface Batch {
  readonly sequence: SequenceNumber;
  readonly payload: Uint8Array;
}

/** What is reached into: the types of a package's private parts do not leave it. */
interface Order {
  isNext(sequence: SequenceNumber): boolean;
  comparePast(batch: Batch): string;
  drain(): void;
  readonly last: SequenceNumber | undefined;
  readonly expected: SequenceNumber;
  lastSequence: SequenceNumber | undefined;
  readonly held: {
    compare(batch: Batch): string;
    lowest(): SequenceNumber | undefined;
    take(sequence: SequenceNumber): Batch | undefined;
  };
}

interface Gate {
  readonly order: Order;
  readonly replay: { readonly isAnchored: boolean };
  replyEnded(): void;
}

function gateOf(pipeline: RankPipeline): Gate {
  return pipeline["gate"]["gate"];
}

/** A batch beyond a gap is taken for the next one. */
export function ignoresGaps(pipeline: RankPipeline): void {
  gateOf(pipeline).order.isNext = () => true;
}

/** The end marker of a reply proves that nothing is missing: what is held follows at once. */
export function trustsEndMarkers(pipeline: RankPipeline): void {
  const gate = gateOf(pipeline);
  const { order } = gate;
  const replyEnded = gate.replyEnded.bind(gate);
  gate.replyEnded = () => {
    const lowest = order.held.lowest();
    if (gate.replay.isAnchored && lowest !== undefined) {
      order.lastSequence = parseSequenceNumber(lowest - 1n);
      order.drain();
    }
    replyEnded();
  };
}

/** Payloads are never compared. */
export function skipsDigests(pipeline: RankPipeline): void {
  const { order } = gateOf(pipeline);
  order.comparePast = () => "equal";
  const compareHeld = order.held.compare.bind(order.held);
  order.held.compare = (batch) => (compareHeld(batch) === "unknown" ? "unknown" : "equal");
}

/** A batch that comes again counts again. */
export function appliesDuplicates(pipeline: RankPipeline): void {
  const { order } = gateOf(pipeline);
  const comparePast = order.comparePast.bind(order);
  order.comparePast = (batch) => {
    const likeness = comparePast(batch);
    const last = order.last;
    if (likeness === "equal" && last !== undefined) pipeline["read"](last, batch.payload);
    return likeness;
  };
}

/** Neither payloads nor connections tell that the engine is another one. */
export function neverNoticesAnotherEngine(pipeline: RankPipeline): void {
  skipsDigests(pipeline);
  const runner: { setConnected(isConnected: boolean): void } = pipeline["gate"];
  const setConnected = runner.setConnected.bind(runner);
  runner.setConnected = (isConnected) => {
    if (isConnected) setConnected(true);
  };
}

/** What was held during a request is thought to be delivered, and is not. */
export function dropsHeldBatches(pipeline: RankPipeline): void {
  const { order } = gateOf(pipeline);
  order.drain = () => {
    for (;;) {
      const batch = order.held.take(order.expected);
      if (batch === undefined) return;
      order.lastSequence = batch.sequence;
    }
  };
}
