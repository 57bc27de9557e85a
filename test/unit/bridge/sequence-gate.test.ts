import { describe, expect, test } from "vitest";
import type {
  GateBatch,
  GateInput,
  GateMemory,
  GateOptions,
} from "../../../src/bridge/dist/gate-step.js";
import { SequenceGate } from "../../../src/bridge/dist/sequence-gate.js";
import {
  LIMITS,
  parseSequenceNumber,
  type SequenceNumber,
} from "../../../src/protocol/dist/index.js";

function seq(value: number): SequenceNumber {
  const parsed = parseSequenceNumber(BigInt(value));
  if (parsed === undefined) throw new RangeError("not a sequence number");
  return parsed;
}

/** One process of an engine publishes `name` under every number. */
function batch(number: number, name = "a"): GateBatch {
  const payload = new TextEncoder().encode(`${name}${number}`);
  return { sequence: seq(number), digest: `${name}${number}`, payload };
}

const live = (number: number, name?: string): GateInput => ({
  type: "live",
  batch: batch(number, name),
});
const replayed = (number: number, name?: string): GateInput => ({
  type: "replayed",
  batch: batch(number, name),
});
const CONNECTED: GateInput = { type: "connected" };
const DISCONNECTED: GateInput = { type: "disconnected" };
const ENDED: GateInput = { type: "replay_ended" };
const FAILED: GateInput = { type: "replay_failed" };
const TIMER: GateInput = { type: "timer" };

/** A gate whose outputs are short words: "a3" delivered, "ask 2", "lost 4", "wait". */
class Told {
  readonly gate: SequenceGate;
  constructor(options: Partial<GateOptions> = {}, memory?: GateMemory) {
    this.gate = new SequenceGate({ canReplay: true, ...options }, memory);
  }

  step(...inputs: readonly GateInput[]): string[] {
    const words: string[] = [];
    for (const input of inputs) {
      for (const output of this.gate.step(input)) {
        if (output.type === "clear_timer") continue;
        if (output.type === "deliver") words.push(output.batch.digest);
        else if (output.type === "epoch") words.push(`${output.end} ${output.missing}`);
        else if (output.type === "request_replay") words.push(`ask ${output.from}`);
        else if (output.type === "set_timer") words.push(`wait ${output.delayMs}`);
        else if (output.type === "foreign") words.push(`foreign ${output.batches}`);
        else words.push(output.type);
      }
      this.gate.audit();
    }
    return words;
  }
}

const PROBE = `wait ${LIMITS.replayProbeMs.value}`;
const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** Joined when the engine had published 0 … last, and its live socket has shown the last one. */
function following(last: number): Told {
  const told = joined(last);
  expect(told.step(live(last), TIMER)).toEqual(["duplicate", PROBE]);
  return told;
}

/** Joined when the engine had published 0 … last, of which the live socket has shown nothing. */
function joined(last: number): Told {
  const told = new Told();
  const replies = range(0, last).map((number) => replayed(number));
  expect(told.step(CONNECTED, ...replies, ENDED)).toEqual([
    "ask 0",
    ...range(0, last).map((number) => `a${number}`),
    PROBE,
  ]);
  expect(told.gate.state).toBe("following");
  return told;
}

describe("without a replay socket", () => {
  const told = (): Told => new Told({ canReplay: false });

  test("a first batch is delivered whatever its number, and its successors", () => {
    expect(told().step(CONNECTED, live(7), live(8))).toEqual(["a7", "a8"]);
  });

  test("the same bytes again are a duplicate; other bytes under the number are another engine", () => {
    const gate = told();
    expect(gate.step(live(0), live(1), live(1), live(0))).toEqual([
      "a0",
      "a1",
      "duplicate",
      "duplicate",
    ]);
    expect(gate.step(live(1, "b"), live(2, "b"))).toEqual(["restarted 0", "b1", "b2"]);
  });

  test("a gap is a loss at once, with the number of batches that are missing", () => {
    expect(told().step(live(3), live(7), live(8))).toEqual(["a3", "lost 3", "a7", "a8"]);
  });

  test("an engine that answers after a loss of sight is not proved to be the same", () => {
    const gate = told();
    gate.step(CONNECTED, live(0), live(1));
    expect(gate.step(DISCONNECTED, CONNECTED, live(2, "b"))).toEqual(["unproven 0", "b2"]);
  });

  test("what is left of a connection that is gone is not delivered", () => {
    const gate = told();
    gate.step(CONNECTED, live(0));
    expect(gate.step(DISCONNECTED, live(1))).toEqual(["foreign 1"]);
  });

  test("at the bound of digests an older repeat is taken for another engine", () => {
    const gate = new Told({ canReplay: false, digests: 2 });
    gate.step(live(0), live(1), live(2));
    expect(gate.step(live(1))).toEqual(["duplicate"]);
    expect(gate.step(live(0))).toEqual(["restarted 0", "a0"]);
  });
});

describe("a late bridge asks for everything that the engine still has", () => {
  test("live batches wait until the past is delivered, each once", () => {
    const told = new Told();
    expect(told.step(CONNECTED, live(7), live(8))).toEqual(["ask 0"]);
    expect(told.gate.isCatchingUp).toBe(true);
    expect(told.step(...range(0, 7).map((n) => replayed(n)))).toEqual(
      range(0, 8).map((n) => `a${n}`),
    );
    expect(told.step(ENDED, live(9))).toEqual([PROBE, "a9"]);
    expect(told.gate.isCatchingUp).toBe(false);
  });

  test("an engine that has published nothing yet: its first batch is number 0", () => {
    const told = new Told();
    expect(told.step(CONNECTED, ENDED, live(0))).toEqual(["ask 0", PROBE, "a0"]);
  });

  test("an engine that has published nothing, and whose first batch was missed: it is asked for", () => {
    const told = new Told();
    told.step(CONNECTED, ENDED);
    expect(told.step(live(1), replayed(0), replayed(1), ENDED)).toEqual([
      "ask 0",
      "a0",
      "a1",
      PROBE,
    ]);
  });

  test("a buffer that forgets: the oldest it has comes first", () => {
    const told = new Told();
    expect(told.step(CONNECTED, replayed(640), replayed(641), ENDED)).toEqual([
      "ask 0",
      "a640",
      "a641",
      PROBE,
    ]);
  });

  test("a socket that never answers is given up after two requests; what came live is delivered", () => {
    const told = new Told();
    expect(told.step(CONNECTED, live(5), FAILED)).toEqual([
      "ask 0",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
    expect(told.step(TIMER, live(6), FAILED)).toEqual(["ask 0", "a5", "a6", PROBE]);
    expect(told.step(live(7))).toEqual(["a7"]);
  });
});

describe("a gap", () => {
  test("is filled: batches before and after it are delivered in order, once", () => {
    const told = following(3);
    expect(told.step(live(6), live(7))).toEqual(["ask 0"]);
    expect(told.step(...[2, 3, 4, 5, 6].map((n) => replayed(n)), ENDED)).toEqual([
      "a4",
      "a5",
      "a6",
      "a7",
      PROBE,
    ]);
    // Field case C7: no second request.
    expect(told.step(...range(8, 50).map((n) => live(n)))).toEqual(
      range(8, 50).map((n) => `a${n}`),
    );
  });

  test("is asked with the batches before it, at most the overlap", () => {
    const told = following(100);
    expect(told.step(live(102))).toEqual([`ask ${100 - (LIMITS.replayOverlapBatches.value - 1)}`]);
  });

  test("with a hole in the reply is asked again from the hole, with growing pauses", () => {
    const told = following(3);
    expect(told.step(live(9), ...[3, 4, 6, 8].map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      "a4",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
    const pauses: string[] = [];
    for (let i = 1; i < LIMITS.replayAttempts.value - 1; i++) {
      pauses.push(...told.step(TIMER, replayed(4), replayed(6), ENDED).slice(1));
    }
    expect(pauses).toEqual(
      [2, 4, 8].map((n) => `wait ${n * LIMITS.replayPauseMs.value}`).slice(0, pauses.length),
    );
    expect(told.step(TIMER, replayed(4), replayed(6), ENDED)).toEqual([
      "ask 0",
      "lost 1",
      "a6",
      "lost 1",
      "a8",
      "a9",
      PROBE,
    ]);
  });

  test("in a buffer that has forgotten it is a loss at once (field case C13)", () => {
    const told = following(3);
    expect(told.step(live(80), ...range(50, 80).map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      "lost 46",
      ...range(50, 80).map((n) => `a${n}`),
      PROBE,
    ]);
    expect(told.step(live(81))).toEqual(["a81"]);
  });

  test("where known numbers have other payloads is another engine, and the live socket is opened anew", () => {
    const told = following(3);
    expect(told.step(live(6), replayed(2, "b"))).toEqual([
      "ask 0",
      "cancel_replay",
      "restarted 0",
      "reopen_live",
    ]);
    expect(told.step(CONNECTED, replayed(0, "b"), ENDED)).toEqual(["ask 0", "b0", PROBE]);
  });

  test("where the engine has never published what was delivered last is another engine", () => {
    const told = following(3);
    expect(told.step(live(6), ENDED)).toContain("restarted 0");
  });

  test("whose reply lacks the batch that would prove the engine is asked again, not given up", () => {
    const told = following(3);
    expect(told.step(live(6), replayed(2), replayed(4), replayed(6), ENDED)).toEqual([
      "ask 0",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
  });

  test("with a dead replay socket costs the bounded number of requests", () => {
    const told = following(3);
    let asked = told.step(live(6), FAILED).filter((word) => word.startsWith("ask")).length;
    const words: string[] = [];
    while (told.gate.state !== "following") words.push(...told.step(TIMER, FAILED));
    asked += words.filter((word) => word.startsWith("ask")).length;
    expect(asked).toBe(LIMITS.replayAttempts.value);
    expect(words.slice(-3)).toEqual(["lost 2", "a6", PROBE]);
  });

  test("a long reply is asked on until a short one ends it: its newest batches may be missing", () => {
    const told = following(0);
    const many = range(0, LIMITS.replayShortBatches.value).map((n) => replayed(n));
    const words = told.step(live(2), ...many, ENDED);
    expect(words.at(-1)).toMatch(/^ask/);
    expect(told.step(replayed(LIMITS.replayShortBatches.value), ENDED)).toEqual([PROBE]);
  });
});

describe("an engine that restarts", () => {
  test("with number 0 begins at once", () => {
    const told = following(3);
    expect(told.step(live(0, "b"), live(1, "b"))).toEqual(["restarted 0", "b0", PROBE, "b1"]);
  });

  test("with a later number is asked from 0", () => {
    const told = following(3);
    expect(told.step(live(2, "b"))).toEqual(["restarted 0", "ask 0"]);
    expect(told.step(...[0, 1, 2].map((n) => replayed(n, "b")), ENDED)).toEqual([
      "b0",
      "b1",
      "b2",
      PROBE,
    ]);
  });

  test("while a gap is asked: what was held is void", () => {
    const told = following(3);
    told.step(live(6));
    expect(told.step(live(0, "b"), ENDED)).toEqual(["cancel_replay", "restarted 0", "b0", PROBE]);
  });

  test("unseen, so that its numbers run past ours, is told by its payloads", () => {
    const told = following(3);
    expect(told.step(DISCONNECTED, CONNECTED, live(4, "b"))).toEqual(["ask 0"]);
    expect(told.step(replayed(0, "b"))).toEqual(["cancel_replay", "restarted 0", "ask 0"]);
    expect(told.step(...range(0, 4).map((n) => replayed(n, "b")), ENDED)).toEqual([
      ...range(0, 4).map((n) => `b${n}`),
      PROBE,
    ]);
  });

  test("unseen, with a batch of the new one delivered before the loss was told, is told by the overlap", () => {
    const told = following(3);
    expect(told.step(live(4, "b"), DISCONNECTED, CONNECTED)).toEqual(["b4", "ask 0"]);
    expect(told.step(replayed(0, "b"))).toContain("restarted 0");
  });
});

describe("an engine that comes back into sight", () => {
  test("and proves to be the same goes on in the same epoch", () => {
    const told = following(3);
    expect(told.step(DISCONNECTED, CONNECTED, live(5))).toEqual(["ask 0"]);
    expect(told.gate.isCatchingUp).toBe(true);
    expect(told.step(...range(0, 5).map((n) => replayed(n)), ENDED)).toEqual(["a4", "a5", PROBE]);
  });

  test("and does not answer is not trusted", () => {
    const told = following(3);
    told.step(DISCONNECTED, CONNECTED);
    const words: string[] = [];
    while (told.gate.state !== "following") {
      words.push(...told.step(told.gate.state === "asking" ? FAILED : TIMER));
    }
    expect(words.slice(-2)).toEqual(["unproven 0", PROBE]);
  });

  test("and has forgotten what was delivered last is not trusted", () => {
    const told = following(3);
    expect(told.step(DISCONNECTED, CONNECTED, replayed(40), replayed(41), ENDED)).toEqual([
      "ask 0",
      "unproven 36",
      "a40",
      "a41",
      PROBE,
    ]);
  });

  test("old batches that are still in the socket's queue are not taken for new ones", () => {
    const told = following(3);
    expect(told.step(DISCONNECTED, CONNECTED, live(100))).toEqual(["ask 0"]);
    expect(told.step(replayed(0, "b"))).toContain("restarted 0");
    told.step(live(101));
    expect(told.step(replayed(0, "b"), ENDED)).toEqual([
      "b0",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
    // 101 came before this request was made, and the engine's answer ends without it.
    expect(told.step(TIMER, replayed(0, "b"), ENDED)).toEqual(["ask 0", "foreign 1", PROBE]);
    expect(told.step(live(1, "b"), replayed(0, "b"), replayed(1, "b"), ENDED)).toEqual([
      "ask 0",
      "b1",
      PROBE,
    ]);
  });

  test("a live socket that brings what the engine never published, again and again, is opened anew", () => {
    const told = following(3);
    const words: string[] = [];
    for (let i = 0; i < LIMITS.replayForeignReplies.value; i++) {
      words.push(...told.step(live(50 + i, "x"), replayed(3), ENDED, TIMER, replayed(3), ENDED));
    }
    expect(words.at(-1)).toBe("reopen_live");
  });
});

describe("a replacement behind one address", () => {
  test("the first live batch of a connection is delivered once a reply shows it too", () => {
    const told = joined(3);
    expect(told.step(live(4))).toEqual(["ask 0"]);
    expect(told.step(...[2, 3, 4].map((n) => replayed(n)), ENDED)).toEqual(["a4", PROBE]);
    expect(told.step(live(5)), "later ones do not wait").toEqual(["a5"]);
    told.step(DISCONNECTED, CONNECTED, ...[4, 5].map((n) => replayed(n)), ENDED);
    expect(told.step(live(6)), "after a loss it must be shown again").toEqual(["ask 0"]);
  });

  test("live and replay that lead to two processes: the live batch is not taken for the next one", () => {
    const told = joined(3);
    expect(told.step(live(4, "b"), ...[2, 3].map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      "foreign 1",
      PROBE,
    ]);
    // The address leads to the new process now.
    expect(told.step(live(5, "b"), replayed(2, "b"))).toContain("restarted 0");
  });

  test("a batch that comes live while the past is asked waits until a reply shows it", () => {
    const told = new Told();
    expect(told.step(CONNECTED, replayed(0), live(1, "b"), ENDED)).toEqual([
      "ask 0",
      "a0",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
    expect(told.step(TIMER, replayed(0), ENDED)).toEqual(["ask 0", "foreign 1", PROBE]);
  });

  test("an engine whose first batch came live needs no second request", () => {
    const told = new Told();
    expect(told.step(CONNECTED, ENDED, live(0), live(1))).toEqual(["ask 0", PROBE, "a0", "a1"]);
  });
});

describe("a replay socket that was given up and works again", () => {
  const withoutReplay = (): Told => {
    const told = new Told();
    expect(told.step(CONNECTED, live(5), FAILED, TIMER, FAILED).slice(-2)).toEqual(["a5", PROBE]);
    told.step(live(6), TIMER);
    return told;
  };
  const known = [5, 6].map((n) => replayed(n));

  test("is asked from 0, and what is older begins the epoch again", () => {
    const told = withoutReplay();
    expect(told.step(TIMER, ...known, ENDED).slice(-1)).toEqual(["ask 0"]);
    expect(told.gate.isCatchingUp).toBe(true);
    expect(told.step(...range(0, 6).map((n) => replayed(n)), ENDED)).toEqual([
      "lost 0",
      ...range(0, 6).map((n) => `a${n}`),
      PROBE,
    ]);
    // What was replayed may be another process's: the live socket shows again where it leads.
    expect(told.step(live(7), ...range(0, 7).map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      "a7",
      PROBE,
    ]);
    expect(told.step(TIMER, TIMER).filter((word) => word.startsWith("ask")).length).toBe(1);
    expect(told.step(...range(0, 7).map((n) => replayed(n)), ENDED), "once").toEqual([PROBE]);
  });

  test("and breaks off again has left a hole: it is asked on, and given up only as any other", () => {
    const told = withoutReplay();
    told.step(TIMER, ...known, ENDED);
    expect(told.step(replayed(0), replayed(1), FAILED)).toEqual([
      "lost 0",
      "a0",
      "a1",
      `wait ${LIMITS.replayPauseMs.value}`,
    ]);
    expect(told.gate.isCatchingUp, "6 is known to be published").toBe(true);
    expect(told.step(TIMER, ...range(0, 6).map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      ...range(2, 6).map((n) => `a${n}`),
      PROBE,
    ]);
  });

  test("that has nothing older changes nothing", () => {
    const told = withoutReplay();
    told.step(TIMER, ...known, ENDED);
    expect(told.step(...known, ENDED)).toEqual([PROBE]);
    expect(told.step(live(7))).toEqual(["a7"]);
  });

  test("that shows another engine is believed", () => {
    const told = withoutReplay();
    told.step(TIMER, ...known, ENDED);
    expect(told.step(replayed(6, "b"))).toContain("restarted 0");
  });
});

describe("silence", () => {
  test("is probed only when nothing came for a whole period", () => {
    const told = following(3);
    told.step(live(4));
    expect(told.step(TIMER)).toEqual([PROBE]);
    expect(told.step(TIMER)).toEqual(["ask 0"]);
    expect(told.gate.isCatchingUp, "a probe is no loss").toBe(false);
    expect(told.step(live(5)), "live batches do not wait for a probe").toEqual(["a5"]);
    expect(told.step(replayed(4), replayed(5), ENDED)).toEqual([PROBE]);
  });

  test("that hides lost batches is found, and a deaf live socket is opened anew", () => {
    const told = following(3);
    expect(told.step(TIMER, replayed(3), replayed(4), ENDED)).toEqual([
      "ask 0",
      "a4",
      `wait ${LIMITS.deafGraceMs.value}`,
    ]);
    expect(told.step(TIMER)).toEqual(["reopen_live"]);
  });

  test("that hid a batch in flight is no deafness", () => {
    const told = following(3);
    told.step(TIMER, replayed(3), replayed(4), ENDED);
    expect(told.step(live(4), live(5))).toEqual(["duplicate", "a5"]);
    expect(told.step(TIMER)).toEqual([PROBE]);
  });

  test("of another engine is told by the probe", () => {
    const told = following(3);
    expect(told.step(TIMER, replayed(3, "b"))).toEqual([
      "ask 0",
      "cancel_replay",
      "restarted 0",
      "reopen_live",
    ]);
  });

  test("of a dead publisher counts as a loss of sight after so many probes, until it speaks", () => {
    const told = following(3);
    for (let i = 0; i < LIMITS.replayProbeFailures.value; i++) {
      expect(told.gate.silence.isUnresponsive).toBe(false);
      expect(told.step(TIMER, FAILED)).toEqual(["ask 0", PROBE]);
    }
    expect(told.gate.silence.isUnresponsive).toBe(true);
    told.step(live(4));
    expect(told.gate.silence.isUnresponsive).toBe(false);
  });
});

describe("bounds and memory", () => {
  test("held batches beyond either bound are dropped and asked again", () => {
    for (const bounds of [{ heldBatches: 2 }, { heldBytes: 4 }]) {
      const told = new Told(bounds);
      told.step(CONNECTED, replayed(0), ENDED);
      // The first two arrive before the range is asked again, the others after it.
      expect(told.step(live(2), live(3), live(4), live(5))).toEqual(["ask 0"]);
      const { held } = told.gate.order;
      expect([held.count, held.sizeBytes, held.dropped]).toEqual([2, 4, 2]);
      const words = told.step(...range(0, 3).map((n) => replayed(n)), ENDED);
      expect(words).toEqual(["a1", "a2", "a3", `wait ${LIMITS.replayPauseMs.value}`]);
      const rest = range(0, 5).map((n) => replayed(n));
      expect(told.step(TIMER, ...rest, ENDED)).toEqual(["ask 0", "a4", "a5", PROBE]);
    }
  });

  test("a later process goes on where this one was, once the engine is proved", () => {
    const memory = following(3).gate.order.memory();
    const same = new Told({}, memory);
    expect(same.step(CONNECTED, ...[2, 3, 4].map((n) => replayed(n)), ENDED)).toEqual([
      "ask 0",
      "a4",
      PROBE,
    ]);
    const other = new Told({}, memory);
    expect(other.step(CONNECTED, replayed(2, "b"))).toContain("restarted 0");
    const blind = new Told({ canReplay: false }, memory);
    expect(blind.step(CONNECTED, live(4))).toEqual(["unproven 0", "a4"]);
  });

  test("inputs of requests that are over have no effect", () => {
    const told = following(3);
    expect(told.step(replayed(4), ENDED, FAILED, CONNECTED)).toEqual([]);
  });
});
