/**
 * What it is: tests of the bounded queue, driven to both bounds.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: measure time.
 */
import { describe, expect, test } from "vitest";
import { BoundedQueue, InvariantViolation } from "../../../src/runtime/dist/index.js";
import { SeededRandomness } from "../../support/seeded-randomness.ts";

describe("BoundedQueue", () => {
  test("items leave in the order in which they came", () => {
    const queue = new BoundedQueue<string>({ maxItems: 3, maxBytes: 100 });
    for (const item of ["a", "b", "c"]) expect(queue.offer(item, 1)).toBe("queued");
    expect([queue.take(), queue.take(), queue.take(), queue.take()]).toEqual([
      "a",
      "b",
      "c",
      undefined,
    ]);
  });

  test("the item bound is reached exactly and a refused offer changes nothing", () => {
    const queue = new BoundedQueue<number>({ maxItems: 2, maxBytes: 100 });
    expect(queue.offer(1, 0)).toBe("queued");
    expect(queue.offer(2, 0)).toBe("queued");
    expect(queue.offer(3, 0)).toBe("full");
    expect([queue.itemCount, queue.sizeBytes]).toEqual([2, 0]);
    queue.take();
    expect(queue.offer(3, 0)).toBe("queued");
  });

  test("the byte bound is reached exactly", () => {
    const queue = new BoundedQueue<number>({ maxItems: 100, maxBytes: 10 });
    expect(queue.offer(1, 4)).toBe("queued");
    expect(queue.offer(2, 7)).toBe("full");
    expect(queue.offer(3, 6)).toBe("queued");
    expect(queue.sizeBytes).toBe(10);
    expect(queue.offer(4, 1)).toBe("full");
    expect(queue.offer(5, 0)).toBe("queued");
  });

  test("an item larger than the whole queue is refused also when the queue is empty", () => {
    const queue = new BoundedQueue<number>({ maxItems: 1, maxBytes: 10 });
    expect(queue.offer(1, 11)).toBe("full");
    expect(queue.offer(1, 10)).toBe("queued");
  });

  test("clear empties it and gives the whole room back", () => {
    const queue = new BoundedQueue<number>({ maxItems: 2, maxBytes: 2 });
    queue.offer(1, 1);
    queue.offer(2, 1);
    expect(queue.clear()).toBe(2);
    expect([queue.itemCount, queue.sizeBytes, queue.take()]).toEqual([0, 0, undefined]);
    expect(queue.offer(3, 2)).toBe("queued");
    queue.audit();
  });

  test("false sizes and false bounds are our bugs", () => {
    const queue = new BoundedQueue<number>({ maxItems: 1, maxBytes: 1 });
    for (const size of [-1, 0.5, Number.NaN]) {
      expect(() => queue.offer(1, size)).toThrow(InvariantViolation);
    }
    for (const limits of [
      { maxItems: 0, maxBytes: 1 },
      { maxItems: 1, maxBytes: Number.POSITIVE_INFINITY },
    ]) {
      expect(() => new BoundedQueue(limits)).toThrow(InvariantViolation);
    }
  });

  test("it equals a plain array under 20,000 random operations, audited on the way", () => {
    const random = new SeededRandomness(11);
    const limits = { maxItems: 40, maxBytes: 200 };
    const queue = new BoundedQueue<{ id: number }>(limits);
    let model: { item: { id: number }; size: number }[] = [];
    let fullCount = 0;
    for (let step = 0; step < 20_000; step++) {
      const choice = random.below(100);
      if (choice < 55) {
        const item = { id: step };
        const size = random.below(12);
        const owed = model.reduce((sum, entry) => sum + entry.size, 0);
        const isFull = model.length === limits.maxItems || owed + size > limits.maxBytes;
        expect(queue.offer(item, size)).toBe(isFull ? "full" : "queued");
        if (isFull) fullCount += 1;
        else model.push({ item, size });
      } else if (choice < 99) {
        expect(queue.take()).toBe(model.shift()?.item);
      } else {
        expect(queue.clear()).toBe(model.length);
        model = [];
      }
      expect(queue.itemCount).toBe(model.length);
      if (step % 16 === 0) queue.audit();
    }
    expect(fullCount).toBeGreaterThan(100);
  });
});
