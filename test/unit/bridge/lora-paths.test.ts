/**
 * What it is: claims about when the engine's list of adapters is read, and what follows.
 * Owns: a source that answers when the test says so, and a virtual clock.
 * Refuses: nothing.
 * Does not do: HTTP (test/e2e/engine-http.test.ts does).
 */
import type { Log } from "@kv-group-bridge/runtime";
import { silentLog } from "@kv-group-bridge/runtime";
import { expect, test } from "vitest";
import type { EngineHttpError } from "../../../src/bridge/dist/engine-http.js";
import { LoraPaths } from "../../../src/bridge/dist/lora-paths.js";
import { LIMITS, MAX_LORA_PATHS, type Result } from "../../../src/protocol/dist/index.js";
import { turns } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const MIN_PAUSE_MS = LIMITS.loraPathsMinPauseMs.value;
const INTERVAL_MS = LIMITS.loraPathsIntervalMs.value;

type Answer = Result<unknown, EngineHttpError>;

const listOf = (paths: Readonly<Record<string, string>>): Answer => ({
  ok: true,
  value: { data: Object.entries(paths).map(([id, root]) => ({ id, root, parent: "base" })) },
});
const UNREACHABLE: Answer = { ok: false, error: { reason: "unreachable", code: "ECONNREFUSED" } };

class Bench {
  readonly clock = new VirtualClock();
  readonly told: Readonly<Record<string, string>>[] = [];
  readonly lines: string[] = [];
  readonly bugs: unknown[] = [];
  asked = 0;
  isSourceClosed = false;
  private resolve: ((answer: Answer) => void) | undefined = undefined;
  readonly reader: LoraPaths;

  constructor(
    stated: Readonly<Record<string, string>> = {},
    onPaths?: (paths: ReadonlyMap<string, string>) => void,
  ) {
    const line = (fields: object, message: string): void => {
      this.lines.push(`${message} ${JSON.stringify(fields)}`);
    };
    const log: Log = { ...silentLog, info: line, warn: line };
    this.reader = new LoraPaths({
      source: {
        getJson: (path) => {
          expect(path).toBe("/v1/models");
          expect(this.resolve, "one request at a time").toBeUndefined();
          this.asked += 1;
          return new Promise((resolve) => {
            this.resolve = resolve;
          });
        },
        close: () => {
          this.isSourceClosed = true;
        },
      },
      stated: new Map(Object.entries(stated)),
      clock: this.clock,
      timers: this.clock,
      log,
      onPaths: onPaths ?? ((paths) => void this.told.push(Object.fromEntries(paths))),
      onBug: (error) => this.bugs.push(error),
    });
    this.reader.start();
    this.clock.advance(0);
  }

  async answer(answer: Answer): Promise<void> {
    const { resolve } = this;
    this.resolve = undefined;
    if (resolve === undefined) expect.fail("nothing was asked");
    resolve(answer);
    await turns(1);
  }
}

test("it asks at the start and then every interval; only what changes is told", async () => {
  const bench = new Bench();
  expect(bench.asked).toBe(1);
  await bench.answer(listOf({ a: "/1" }));
  for (const paths of [{ a: "/1" }, { a: "/2" }, {}]) {
    bench.clock.advance(INTERVAL_MS - 1);
    const before = bench.asked;
    bench.clock.advance(1);
    expect(bench.asked).toBe(before + 1);
    await bench.answer(listOf(paths));
  }
  expect(bench.told).toEqual([{ a: "/1" }, { a: "/2" }, {}]);
  expect(bench.reader.counters()).toMatchObject({ read: 4, paths: 0 });
});

test("a path that is wanted is asked for as soon as the pause allows, once however often it is wanted", async () => {
  const bench = new Bench();
  await bench.answer(listOf({}));
  for (let i = 0; i < 1_000; i++) bench.reader.want();
  bench.clock.advance(MIN_PAUSE_MS - 1);
  expect(bench.asked).toBe(1);
  bench.clock.advance(1);
  expect(bench.asked).toBe(2);
  await bench.answer(listOf({ a: "/1" }));
  expect(bench.told).toEqual([{ a: "/1" }]);
  // Long after the last reading there is nothing to wait for.
  bench.clock.advance(MIN_PAUSE_MS);
  bench.reader.want();
  bench.clock.advance(0);
  expect(bench.asked).toBe(3);
});

test("what is wanted while a request is under way may be newer than its answer: it is asked again", async () => {
  const bench = new Bench();
  bench.reader.want();
  expect(bench.asked).toBe(1);
  await bench.answer(listOf({}));
  bench.clock.advance(MIN_PAUSE_MS);
  expect(bench.asked).toBe(2);
});

test("after failures the pause doubles up to the interval; a wanted path is asked for at the least one", async () => {
  const bench = new Bench();
  const pauses: number[] = [];
  for (let i = 0; i < 8; i++) {
    await bench.answer(UNREACHABLE);
    const before = bench.asked;
    let pauseMs = 0;
    for (; bench.asked === before; pauseMs += 1_000) bench.clock.advance(1_000);
    pauses.push(pauseMs);
  }
  expect(pauses.slice(0, 3)).toEqual([MIN_PAUSE_MS, 2 * MIN_PAUSE_MS, 4 * MIN_PAUSE_MS]);
  expect(pauses.slice(-2)).toEqual([INTERVAL_MS, INTERVAL_MS]);
  bench.reader.want();
  for (let i = 0; i < 3; i++) {
    // Wanted until there is an answer.
    await bench.answer(UNREACHABLE);
    const before = bench.asked;
    bench.clock.advance(MIN_PAUSE_MS);
    expect(bench.asked).toBe(before + 1);
  }
});

test("a failure keeps the paths of before, counts its reason and is said once a minute", async () => {
  const bench = new Bench();
  await bench.answer(listOf({ a: "/1" }));
  for (let i = 0; i < 3; i++) {
    bench.reader.want();
    bench.clock.advance(MIN_PAUSE_MS);
    await bench.answer(i === 2 ? { ok: true, value: "no list" } : UNREACHABLE);
  }
  const { failed, paths } = bench.reader.counters();
  expect([...failed]).toEqual([
    ["unreachable", 2],
    ["malformed", 1],
  ]);
  expect([paths, bench.told]).toEqual([1, [{ a: "/1" }]]);
  const said = bench.lines.filter((line) => line.includes("could not be read"));
  expect(said.length).toBe(2);
  expect(said[0]).toContain("ECONNREFUSED");
});

test("lines carry numbers, neither names nor paths", async () => {
  const bench = new Bench();
  await bench.answer(listOf({ secretname: "/secretpath", noroot: "" }));
  expect(bench.lines.length).toBe(2);
  expect(bench.lines.join()).not.toContain("secret");
  expect(bench.reader.counters().leftOut).toBe(1);
});

test("stated paths win, also over the bound; a list that says the same tells nothing", async () => {
  const bench = new Bench({ a: "/stated" });
  expect(bench.reader.counters().paths).toBe(1);
  await bench.answer(listOf({ a: "/listed" }));
  expect(bench.told).toEqual([]);
  const many: Record<string, string> = {};
  for (let i = 0; i < MAX_LORA_PATHS; i++) many[`a${i}`] = `/${i}`;
  bench.reader.want();
  bench.clock.advance(MIN_PAUSE_MS);
  await bench.answer(listOf(many));
  const [told = {}] = bench.told;
  expect([Object.keys(told).length, told["a"]]).toEqual([MAX_LORA_PATHS, "/stated"]);
});

test("after the end nothing is asked and nothing told", async () => {
  const bench = new Bench();
  bench.reader.close();
  expect(bench.isSourceClosed).toBe(true);
  await bench.answer(listOf({ a: "/1" }));
  bench.reader.want();
  bench.clock.advance(INTERVAL_MS);
  expect([bench.asked, bench.told, bench.clock.pendingTimers]).toEqual([1, [], 0]);
});

test("an error of who is told is our bug", async () => {
  const bench = new Bench({}, () => {
    throw new TypeError("ours");
  });
  await bench.answer(listOf({ a: "/1" }));
  await turns(1);
  expect(bench.bugs.length).toBe(1);
});
