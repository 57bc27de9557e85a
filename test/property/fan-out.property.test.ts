/**
 * What it is: the law of the stream, over random histories.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: single claims (test/unit/bridge/fan-out.test.ts and fan-out-resume.test.ts do).
 */
import { Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FanOut } from "../../src/bridge/dist/fan-out.js";
import type { Subscriber } from "../../src/bridge/dist/subscriber.js";
import { parseCursor, type ResumePoint } from "../../src/protocol/dist/index.js";
import { FakeConsumer, FakeRank } from "../support/fake-rank.ts";

const projection = Projection.PREFIX_KEYS;

interface Follower {
  subscriber: Subscriber;
  readonly consumer: FakeConsumer;
}

/** What a checkpoint keeps, as far as a stream can tell. */
interface Checkpoint {
  readonly held: ReadonlySet<number>;
  readonly epoch: bigint;
  readonly sequence: bigint;
  readonly floor: ResumePoint | undefined;
}

/** A rank, its fan-out, and consumers that come, go and come back. */
class World {
  readonly rank: FakeRank;
  readonly followers: Follower[] = [];
  resumed = 0;
  restarts = 0;
  #fanOut: FanOut;
  #checkpoint: Checkpoint | undefined;

  constructor() {
    this.rank = new FakeRank((output) => {
      this.#fanOut.publish(output);
    });
    this.#fanOut = this.#makeFanOut(undefined);
    this.#join();
    this.#join();
  }

  step(what: string, n: number): void {
    const follower = this.followers[n];
    if (what === "store") this.rank.store(n);
    else if (what === "remove") this.rank.remove(n);
    else if (what === "withdraw") this.#withdraw(n);
    else if (what === "epoch") this.rank.newEpoch();
    else if (what === "checkpoint") this.#save();
    else if (what === "restart") this.#restart();
    else if (what === "join" && this.followers.length < 3) this.#join();
    else if (what === "cut" && follower !== undefined) this.#cut(follower);
    else if (what === "take" && follower !== undefined) this.#take(follower, 2);
    else if (what === "drain" && follower !== undefined) this.#take(follower, Infinity);
    this.#fanOut.audit();
  }

  /** Everybody takes what there is and must believe the truth. */
  settle(): void {
    for (const follower of this.followers) {
      this.#take(follower, Infinity);
      expect(follower.consumer.isWhole).toBe(true);
      expect(follower.consumer.held).toEqual(this.rank.held);
    }
    this.resumed += this.#fanOut.counters().resumed;
  }

  get #instance(): bigint {
    return BigInt(this.restarts + 1);
  }

  #makeFanOut(resumeFloor: ResumePoint | undefined): FanOut {
    return new FanOut({
      view: this.rank,
      instance: this.#instance,
      resumeFloor,
      queueBytes: 500,
      snapshotChunkBlocks: 2,
      resumeRingBatches: 6,
    });
  }

  /** As a rank does it: the batch that made it necessary follows before anybody takes anything. */
  #withdraw(block: number): void {
    this.rank.withdrawAll();
    this.rank.store(block);
  }

  #subscribe(consumer: FakeConsumer): Subscriber {
    const resume = consumer.resumePoint;
    const subscriber = this.#fanOut.subscribe({ projection, onWake: () => {}, resume });
    if (subscriber === undefined) throw new TypeError("there is room");
    return subscriber;
  }

  #join(): void {
    const consumer = new FakeConsumer();
    this.followers.push({ consumer, subscriber: this.#subscribe(consumer) });
  }

  #cut(follower: Follower): void {
    follower.subscriber.close();
    follower.subscriber = this.#subscribe(follower.consumer);
  }

  #take({ subscriber, consumer }: Follower, limit: number): void {
    for (let taken = 0; taken < limit; taken++) {
      const item = subscriber.next();
      if (item === undefined) return;
      consumer.apply(item);
    }
  }

  #save(): void {
    const { held, epoch, sequence } = this.rank;
    const sequenceNumber = sequence === 0n ? undefined : sequence;
    const cursor = parseCursor({ epoch, sequenceNumber });
    const floor = cursor === undefined ? undefined : { cursor, instance: this.#instance };
    this.#checkpoint = { held: new Set(held), epoch, sequence, floor };
  }

  /** A new process goes on from the checkpoint, and may say other things than the old one did. */
  #restart(): void {
    const { rank } = this;
    this.resumed += this.#fanOut.counters().resumed;
    this.restarts++;
    for (const { subscriber } of this.followers) subscriber.close();
    rank.held.clear();
    if (this.#checkpoint === undefined) {
      rank.epoch += 100n;
      rank.sequence = 0n;
    } else {
      for (const block of this.#checkpoint.held) rank.held.add(block);
      rank.epoch = this.#checkpoint.epoch;
      rank.sequence = this.#checkpoint.sequence;
    }
    this.#fanOut = this.#makeFanOut(this.#checkpoint?.floor);
    for (const follower of this.followers) follower.subscriber = this.#subscribe(follower.consumer);
  }
}

const number = (max: number) => fc.integer({ min: 0, max });
const change = fc.record({ do: fc.constantFrom("store", "remove"), n: number(12) });
const reader = fc.record({ do: fc.constantFrom("take", "drain", "cut", "join"), n: number(2) });
const trouble = fc.record({ do: fc.constantFrom("withdraw", "epoch"), n: fc.constant(0) });
const process = fc.record({ do: fc.constantFrom("checkpoint", "restart"), n: fc.constant(0) });

// Goal: the law of the stream. Method: random changes of the truth between random takes of three
// consumers that come at random moments, are cut off and come back, with a queue and a ring that
// are small enough to overflow, and with a bridge that is killed and goes on from its checkpoint
// (or from nothing) with another future under the same numbers. Drained, each believes the truth.
test("whoever joined when, was cut off and took how slowly, drained it believes the truth", () => {
  let resumed = 0;
  let restarts = 0;
  const step = fc.oneof(
    { weight: 6, arbitrary: change },
    { weight: 6, arbitrary: reader },
    { weight: 2, arbitrary: trouble },
    { weight: 2, arbitrary: process },
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 40, maxLength: 120, size: "max" }), (steps) => {
      const world = new World();
      for (const { do: what, n } of steps) world.step(what, n);
      world.settle();
      resumed += world.resumed;
      restarts += world.restarts;
    }),
    { numRuns: 600 },
  );
  expect(resumed, "some went on from their cursors").toBeGreaterThan(50);
  expect(restarts, "some bridges restarted").toBeGreaterThan(50);
});
