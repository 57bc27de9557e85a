/**
 * What it is: the law of the stream, over random histories.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: single claims (test/unit/bridge/fan-out.test.ts does).
 */
import { Projection } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FanOut } from "../../src/bridge/dist/fan-out.js";
import type { Subscriber } from "../../src/bridge/dist/subscriber.js";
import { FakeConsumer, FakeRank } from "../support/fake-rank.ts";

const projection = Projection.PREFIX_KEYS;

// Goal: the law of the stream. Method: random changes of the truth between random takes of three
// subscribers that come at random moments, with a queue small enough to overflow; drained, each
// believes the truth.
test("whoever joined when and took how slowly, drained it believes the truth", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("store"), n: fc.integer({ min: 1, max: 12 }) }),
    fc.record({ do: fc.constant("remove"), n: fc.integer({ min: 1, max: 12 }) }),
    fc.record({ do: fc.constant("take"), n: fc.integer({ min: 0, max: 2 }) }),
    fc.record({ do: fc.constant("join"), n: fc.integer({ min: 0, max: 2 }) }),
    fc.record({ do: fc.constantFrom("withdraw", "epoch"), n: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const rank: FakeRank = new FakeRank((output) => fanOut.publish(output));
      const fanOut = new FanOut({ view: rank, instance: 1n, queueBytes: 400, snapshotChunkBlocks: 2 });
      const followers: { subscriber: Subscriber; consumer: FakeConsumer }[] = [];
      for (const { do: what, n } of steps) {
        const follower = followers[n];
        if (what === "store") rank.store(n);
        else if (what === "remove") rank.remove(n);
        else if (what === "withdraw") rank.withdrawAll();
        else if (what === "epoch") rank.newEpoch();
        else if (what === "join" && followers.length < 3) {
          const subscriber = fanOut.subscribe({ projection, onWake: () => {} });
          if (subscriber !== undefined)
            followers.push({ subscriber, consumer: new FakeConsumer() });
        } else if (what === "take" && follower !== undefined) {
          const item = follower.subscriber.next();
          if (item !== undefined) follower.consumer.apply(item);
        }
        fanOut.audit();
      }
      for (const { subscriber, consumer } of followers) {
        for (let item = subscriber.next(); item !== undefined; item = subscriber.next()) {
          consumer.apply(item);
        }
        expect(consumer.isWhole).toBe(true);
        expect(consumer.held).toEqual(rank.held);
      }
    }),
    { numRuns: 300 },
  );
});
