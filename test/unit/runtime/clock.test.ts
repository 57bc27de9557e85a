/**
 * What it is: tests of the seam to time, and of its virtual twin.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: wait: the real timers are tested by cancelling and by their range only.
 */
import { describe, expect, test } from "vitest";
import {
  InvariantViolation,
  systemClock,
  systemTimers,
  yieldToEventLoop,
} from "../../../src/runtime/dist/index.js";
import { VirtualClock } from "../../support/virtual-clock.ts";

describe("system clock and timers", () => {
  test("wall time is the machine's and monotonic time does not go back", () => {
    expect(Math.abs(systemClock.nowMs() - Date.now())).toBeLessThan(1_000);
    const first = systemClock.monotonicMs();
    expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(first);
  });

  test("a timer fires after the call, a cancelled one never", async () => {
    const fired: string[] = [];
    const cancel = systemTimers.after(0, () => fired.push("cancelled"), { unref: true });
    await new Promise<void>((resolve) => {
      systemTimers.after(0, () => {
        fired.push("kept");
        resolve();
      });
      expect(fired).toEqual([]);
      cancel();
      cancel();
    });
    expect(fired).toEqual(["kept"]);
  });

  test("a period repeats until cancelled", async () => {
    let count = 0;
    await new Promise<void>((resolve) => {
      const cancel = systemTimers.every(1, () => {
        count += 1;
        if (count < 3) return;
        cancel();
        resolve();
      });
    });
    await yieldToEventLoop();
    expect(count).toBe(3);
  });

  test.each([-1, Number.NaN, 2 ** 31, Number.POSITIVE_INFINITY])(
    "a delay of %s, which Node would turn into 1 ms, is refused",
    (delayMs) => {
      expect(() => systemTimers.after(delayMs, () => {})).toThrow(InvariantViolation);
      expect(() => systemTimers.every(delayMs, () => {})).toThrow(InvariantViolation);
      expect(() => new VirtualClock().after(delayMs, () => {})).toThrow(InvariantViolation);
    },
  );

  test("the longest delay is accepted", () => {
    systemTimers.after(2 ** 31 - 1, () => {}, { unref: true })();
    systemTimers.every(2 ** 31 - 1, () => {}, { unref: true })();
  });

  test("a period of 0 is refused", () => {
    expect(() => systemTimers.every(0, () => {})).toThrow(InvariantViolation);
  });
});

describe("virtual clock", () => {
  test("timers fire in order of due time, then of arming, at their own time", () => {
    const clock = new VirtualClock(1_000);
    const seen: [string, number][] = [];
    const note = (name: string) => () => void seen.push([name, clock.monotonicMs()]);
    clock.after(20, note("late"));
    clock.after(10, note("first"));
    clock.after(10, note("second"));
    clock.every(8, note("period"));
    clock.advance(20);
    expect(seen).toEqual([
      ["period", 8],
      ["first", 10],
      ["second", 10],
      ["period", 16],
      ["late", 20],
    ]);
    expect(clock.nowMs()).toBe(1_020);
    expect(clock.pendingTimers).toBe(1);
  });

  test("a timer armed by another runs within the same span when it falls due there", () => {
    const clock = new VirtualClock();
    const seen: number[] = [];
    clock.after(5, () => clock.after(5, () => seen.push(clock.monotonicMs())));
    clock.advance(9);
    expect(seen).toEqual([]);
    clock.advance(1);
    expect(seen).toEqual([10]);
  });

  test("a timer cancelled by another, or by itself, does not fire again", () => {
    const clock = new VirtualClock();
    let count = 0;
    const cancelled = clock.after(5, () => (count += 100));
    clock.after(4, cancelled);
    const cancelPeriod = clock.every(1, () => {
      count += 1;
      if (count === 2) cancelPeriod();
    });
    clock.advance(50);
    expect(count).toBe(2);
    expect(clock.pendingTimers).toBe(0);
  });

  test("wall time may jump back; monotonic time does not notice", () => {
    const clock = new VirtualClock(0);
    clock.advance(10);
    clock.jumpWall(-7);
    expect([clock.nowMs(), clock.monotonicMs()]).toEqual([3, 10]);
  });

  test("a timer that re-arms itself at once for ever is a failure, not a hang", () => {
    const clock = new VirtualClock();
    const again = (): void => void clock.after(0, again);
    again();
    expect(() => clock.advance(0)).toThrow(InvariantViolation);
  });
});
