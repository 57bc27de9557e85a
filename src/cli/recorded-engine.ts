/**
 * What it is: the engine processes of a recording on a virtual clock: what is published now, and a replay socket.
 * Owns: the batches of the present process, and whether it is alive.
 * Refuses: nothing.
 * Does not do: open sockets, or lose live batches (the path's faults do).
 */
import type { ReplayHandlers, ReplayPort } from "@kv-group-bridge/bridge";
import { parseSequenceFrame, type SequenceNumber } from "@kv-group-bridge/protocol";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";
import type { SeededRandomness } from "./sim/seeded-randomness.ts";

/** How the replay socket behaves: whole replies, replies that lose batches now and then, or none. */
export const REPLAY_MODES = ["whole", "holey", "absent"] as const;

/** One of `REPLAY_MODES`. */
export type ReplayMode = (typeof REPLAY_MODES)[number];

/** One published batch. */
export interface RecordedBatch {
  readonly sequence: SequenceNumber;
  readonly frames: readonly Uint8Array[];
}

/** A reply loses something with this probability in mode "holey". */
const HOLE_RATE = 0.2;
const END_LOST_RATE = 0.05;
const LATENCY_MAX_MS = 40;
const SILENCE_MS = 5_000;

/** All processes of one recording, one after another. */
export class RecordedEngine {
  private readonly world: Timers & Clock;
  private readonly dice: SeededRandomness;
  private batches: RecordedBatch[] = [];
  private process = 0;

  constructor(world: Timers & Clock, dice: SeededRandomness) {
    this.world = world;
    this.dice = dice;
  }

  /** Counts the processes. */
  get processNumber(): number {
    return this.process;
  }

  /** The newest number of the present process. */
  get last(): SequenceNumber | undefined {
    return this.batches.at(-1)?.sequence;
  }

  /** Publishes a recorded multipart. */
  publish(frames: readonly Uint8Array[]): RecordedBatch {
    const sequence = frames[1] === undefined ? undefined : parseSequenceFrame(frames[1]);
    invariant(sequence !== undefined, "a recorded frame has a number");
    const batch = { sequence, frames };
    this.batches.push(batch);
    return batch;
  }

  /** Another process, with an empty buffer. */
  restart(): void {
    this.process += 1;
    this.batches = [];
  }

  /** The replay socket as one bridge process sees it; undefined where there is none. */
  replayPort(mode: ReplayMode): ReplayPort | undefined {
    if (mode === "absent") return undefined;
    return {
      request: (from, handlers) => {
        let isOver = false;
        this.world.after(this.dice.between(0, LATENCY_MAX_MS), () => {
          if (!isOver) this.answer(mode, from, handlers, () => isOver);
        });
        return () => {
          isOver = true;
        };
      },
    };
  }

  private answer(
    mode: ReplayMode,
    from: SequenceNumber,
    handlers: ReplayHandlers,
    isOver: () => boolean,
  ): void {
    const isHoley = mode === "holey" && this.dice.chance(HOLE_RATE);
    const losesEnd = mode === "holey" && this.dice.chance(END_LOST_RATE);
    let isFirst = true;
    // An engine numbers without a hole.
    const oldest = this.batches[0]?.sequence ?? from;
    const begin = from > oldest ? Number(from - oldest) : 0;
    for (const { sequence, frames } of this.batches.slice(begin)) {
      const payload = frames[2];
      if (payload === undefined || isOver()) continue;
      // A socket that is too full drops messages, and at the first one it is empty.
      const isDropped = isHoley && !isFirst && this.dice.chance(HOLE_RATE);
      isFirst = false;
      if (!isDropped) handlers.onBatch(sequence, payload);
    }
    if (isOver()) return;
    if (!losesEnd) handlers.onEnd();
    else this.world.after(SILENCE_MS, () => (isOver() ? undefined : handlers.onFailed("timeout")));
  }
}
