/**
 * What it is: requests of the real replay client to a ROUTER that answers as a test says, on a clock that moves only
 * when the test says so.
 * Owns: the sockets that it opened, until `closeAll`.
 * Refuses: nothing.
 * Does not do: judge.
 */
import type { SequenceNumber } from "@kv-group-bridge/protocol";
import { ReplayClient, type ReplayClientOptions } from "../../src/bridge/dist/replay-client.js";
import type { ReplayHandlers } from "../../src/bridge/dist/replay-port.js";
import { ReplayRouter, type Reply, type SeenRequest } from "./replay-router.ts";
import { VirtualClock } from "./virtual-clock.ts";
import { sequenceFrame } from "./wire-builder.ts";

/** The end marker of vLLM from 0.26.0 on. */
export const END: Reply = ["", "", sequenceFrame(-1n), ""];

/** Batch `n` with the payload `#n`. */
export const batch = (n: number, topic = "kv"): Reply => [
  "",
  topic,
  sequenceFrame(BigInt(n)),
  `#${n}`,
];

/** A start. */
export const from = (n: number): SequenceNumber => BigInt(n) as SequenceNumber;

/** What a test opens and `closeAll` closes, the last one first. */
export const closers: (() => unknown)[] = [];

/** For `afterEach`. */
export async function closeAll(): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

/** An engine that answers so. */
export async function engine(
  answer?: (request: SeenRequest) => Promise<void> | void,
  sendHighWaterMark?: number,
) {
  const router = new ReplayRouter(sendHighWaterMark);
  closers.push(() => router.close());
  const endpoint = await router.open(answer);
  return { router, endpoint };
}

/** A client of it; `bugs` is what it reported as ours. */
export function clientOf(endpoint: string, options: Partial<ReplayClientOptions> = {}) {
  const clock = new VirtualClock();
  const bugs: unknown[] = [];
  const client = new ReplayClient({
    endpoint,
    topic: undefined,
    clock,
    timers: clock,
    onBug: (error) => bugs.push(error),
    ...options,
  });
  closers.push(() => client.close());
  return { client, clock, bugs };
}

/** What a request was told, in order. */
export class Told implements ReplayHandlers {
  readonly lines: string[] = [];
  readonly sequences: bigint[] = [];
  get isOver(): boolean {
    return this.lines.some((line) => !line.startsWith("batch"));
  }
  onBatch(sequence: SequenceNumber, payload: Uint8Array): void {
    this.sequences.push(sequence);
    this.lines.push(`batch ${sequence} ${Buffer.from(payload).toString()}`);
  }
  onEnd(): void {
    this.lines.push("end");
  }
  onFailed(reason: string): void {
    this.lines.push(`failed ${reason}`);
  }
}
