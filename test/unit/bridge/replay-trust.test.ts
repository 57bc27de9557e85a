import { describe, expect, test } from "vitest";
import type { GateInput, GateOutput } from "../../../src/bridge/dist/gate-step.js";
import { SequenceGate } from "../../../src/bridge/dist/sequence-gate.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { batchOf } from "../../support/gate-world.ts";

const CONNECTED: GateInput = { type: "connected" };
const ENDED: GateInput = { type: "replay_ended" };
const FAILED: GateInput = { type: "replay_failed" };
const TIMER: GateInput = { type: "timer" };
const live = (number: number, name = "a"): GateInput => ({
  type: "live",
  batch: batchOf(name, number),
});
const replayed = (number: number, name = "a"): GateInput => ({
  type: "replayed",
  batch: batchOf(name, number),
});

/** Outputs as short words. */
function told(gate: SequenceGate, ...inputs: readonly GateInput[]): string[] {
  const words = inputs.flatMap((input) => gate.step(input).map(word));
  gate.audit();
  return words.filter((text) => text !== "clear_timer" && text !== "set_timer");
}

function word(output: GateOutput): string {
  if (output.type === "deliver") return output.batch.digest;
  if (output.type === "epoch") return `${output.end} ${output.missing}`;
  return output.type;
}

const gateOf = (): SequenceGate => new SequenceGate({ canReplay: true });

describe("a replay socket that keeps nothing", () => {
  /** Refutes the gate's replay socket; the engine is at number `next` afterwards. */
  function refuted(): { gate: SequenceGate; next: number } {
    const gate = gateOf();
    told(gate, CONNECTED, ENDED);
    let next = 7;
    while (!gate.trust.isRefuted) {
      const words = told(gate, live(next), ENDED);
      if (words.includes("reopen_live")) told(gate, CONNECTED, ENDED);
      next += 1;
    }
    return { gate, next };
  }

  test("is not believed after so many replies; what the live socket brings counts then", () => {
    const { gate, next } = refuted();
    expect(next - 7).toBe(LIMITS.replayContradictions.value);
    expect(gate.order.last).toBe(BigInt(next - 1));
    expect(told(gate, live(next), live(next + 3))).toEqual([
      `a:${next}`,
      "lost 2",
      `a:${next + 3}`,
    ]);
  });

  test("a loss of sight is a new epoch at once, without a request", () => {
    const { gate, next } = refuted();
    expect(told(gate, { type: "disconnected" }, CONNECTED, live(next))).toEqual([
      "unproven 0",
      `a:${next}`,
    ]);
  });

  test("it is probed, also while batches come, and changes nothing until it agrees", () => {
    const { gate, next } = refuted();
    expect(told(gate, live(next), TIMER)).toEqual([`a:${next}`, "request_replay"]);
    expect(told(gate, replayed(0, "b"), replayed(next + 1), ENDED)).toEqual([]);
    expect(gate.trust.isRefuted).toBe(true);
    expect(told(gate, TIMER, replayed(next), ENDED)).toEqual(["request_replay"]);
    expect(gate.trust.isRefuted).toBe(false);
    expect(told(gate, live(next + 2), ...[0, 1, 2].map((n) => replayed(next + n)), ENDED)).toEqual([
      "request_replay",
      `a:${next + 1}`,
      `a:${next + 2}`,
    ]);
  });

  test("a gap while a probe is under way is a loss at once", () => {
    const { gate, next } = refuted();
    expect(told(gate, TIMER, live(next + 1))).toEqual([
      "request_replay",
      "lost 1",
      `a:${next + 1}`,
    ]);
    expect(told(gate, ENDED, live(next + 2))).toEqual([`a:${next + 2}`]);
  });
});

describe("requests come to an end", () => {
  test("a reply without an end is enough where the live socket joins what it proved", () => {
    const gate = gateOf();
    told(gate, CONNECTED, replayed(0), ENDED, { type: "disconnected" }, CONNECTED);
    expect(told(gate, live(2), replayed(0), replayed(1), replayed(2), FAILED)).toEqual([
      "a:1",
      "a:2",
    ]);
    expect(gate.state).toBe("following");
  });

  test("a long reply with nothing new is not asked on", () => {
    const gate = gateOf();
    const all = Array.from({ length: LIMITS.replayShortBatches.value }, (_, n) => replayed(n));
    expect(told(gate, CONNECTED, ...all, ENDED).at(-1)).toBe("request_replay");
    expect(told(gate, ...all, ENDED)).toEqual([]);
    expect(gate.state).toBe("following");
  });
});

test("another process is told after a loss that left nothing behind it", () => {
  const gate = new SequenceGate({ canReplay: true, heldBytes: 1, attempts: 1 });
  told(gate, CONNECTED, replayed(0), ENDED);
  expect(told(gate, live(2), FAILED)).toEqual(["request_replay", "lost 0"]);
  expect(told(gate, { type: "disconnected" }, CONNECTED, FAILED)).toEqual([
    "request_replay",
    "unproven 0",
  ]);
});
