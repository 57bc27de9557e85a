/**
 * What it is: tests of the log: what a line looks like, and that prompts and secrets never reach
 * one.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: test pino.
 */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import {
  createLogger,
  LOG_LEVELS,
  type LogLevel,
  REDACTED,
  redactFields,
  silentLog,
} from "../../../src/runtime/dist/index.js";

function capture(level: LogLevel) {
  const lines: string[] = [];
  const log = createLogger({ level, destination: { write: (line) => void lines.push(line) } });
  const parsed = (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line));
  return { log, lines, parsed };
}

/** Tokens that stand nowhere else, so that finding their digits in a line convicts. */
const TOKENS = Array.from({ length: 40 }, (_, i) => 777_000 + i);

describe("createLogger", () => {
  test("a line is one JSON object with level, time, fields and message", () => {
    const { log, lines, parsed } = capture("info");
    log.info({ rank: 3, epoch: 18446744073709551615n }, "rank connected");
    expect(lines[0]?.endsWith("\n")).toBe(true);
    expect(parsed()).toEqual([
      {
        level: "info",
        time: expect.any(Number),
        rank: 3,
        epoch: "18446744073709551615",
        msg: "rank connected",
      },
    ]);
  });

  test("lines below the level are not written", () => {
    const { log, parsed } = capture("warn");
    log.debug({}, "no");
    log.info({}, "no");
    log.warn({}, "yes");
    log.error({}, "yes too");
    expect(parsed().map((line) => [line["level"], line["msg"]])).toEqual([
      ["warn", "yes"],
      ["error", "yes too"],
    ]);
  });

  test("every level of the list is accepted, and silent is silent", () => {
    for (const level of LOG_LEVELS) {
      const { log, lines } = capture(level);
      log.error({}, "x");
      expect(lines).toHaveLength(level === "silent" || level === "fatal" ? 0 : 1);
    }
    silentLog.child({ a: 1 }).error({}, "nothing happens");
  });

  test("a child's fields stand in each of its lines", () => {
    const { log, parsed } = capture("info");
    log.child({ rank: 1 }).child({ peer: "a" }).info({ n: 2 }, "x");
    expect(parsed()[0]).toMatchObject({ rank: 1, peer: "a", n: 2, msg: "x" });
  });

  test("nothing is lost or kept with a destination of one's own", () => {
    const { log } = capture("info");
    log.flush();
    expect(log.lostLines()).toBe(0);
  });

  // Goal: nothing is lost at an exit. Method: a process of its own that logs to the default
  // destination.
  test("the default destination is standard error, and flush writes what is buffered", () => {
    const runtime = new URL("../../../src/runtime/dist/index.js", import.meta.url).href;
    const code = `
      const { createLogger, exitProcess } = await import(${JSON.stringify(runtime)});
      const log = createLogger({ level: "info" });
      for (let n = 0; n < 200; n++) log.info({ n, token_ids: [777001] }, "line");
      log.flush();
      exitProcess(log.lostLines());`;
    const run = spawnSync(process.execPath, ["--input-type=module", "-e", code], {
      encoding: "utf8",
    });
    expect([run.status, run.stdout]).toEqual([0, ""]);
    const lines = run.stderr
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => line.n)).toEqual(Array.from({ length: 200 }, (_, n) => n));
    expect(run.stderr).not.toContain("777001");
  });

  test.each([
    ["token_ids at the top", { token_ids: TOKENS }],
    ["tokenIds in camel case", { tokenIds: TOKENS }],
    ["tokens in a nested object", { event: { inner: { tokens: TOKENS } } }],
    ["token_ids in a list of objects", { events: [{ token_ids: TOKENS }] }],
    ["few tokens, under a name that tells", { tokens: [777_001, 777_002] }],
    ["a prompt as text", { prompt: "777001 say the secret" }],
    ["look-ahead tokens", { lookahead_token_ids: TOKENS }],
    ["a long list of numbers under a harmless name", { values: TOKENS }],
    ["a long list of bigints", { values: TOKENS.map(BigInt) }],
    ["a typed array", { values: Uint32Array.from(TOKENS) }],
    ["bytes", { payload: Buffer.from("777001") }],
    ["an error's own fields", { err: Object.assign(new RangeError("bad"), { tokens: TOKENS }) }],
    ["an error's cause", { err: new RangeError("bad", { cause: { tokens: TOKENS } }) }],
    ["a map", { byTokens: new Map([["a", TOKENS]]) }],
    ["a key seed", { keys: { seed: "777001-very-secret" } }],
    ["a cache salt", { cache_salt: "777001" }],
    ["values too deep to look at", { a: { b: { c: { d: { e: { f: { g: "777001" } } } } } } }],
  ])("%s never reaches the destination", (_name, fields) => {
    const { log, lines } = capture("debug");
    log.debug(fields, "refused");
    log.child(fields).error({}, "refused");
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).not.toMatch(/777/);
  });

  test("what was hidden is said; counts under the same names pass", () => {
    expect(redactFields({ tokens: TOKENS, prompt: "x" })).toEqual({
      tokens: REDACTED,
      prompt: REDACTED,
    });
    expect(redactFields({ tokens: 12, prompt: null, sizes: [1, 2, 3] })).toEqual({
      tokens: 12,
      prompt: null,
      sizes: [1, 2, 3],
    });
  });

  test("an error is told by type, message, code, stack and cause", () => {
    const error = Object.assign(new TypeError("outer", { cause: new RangeError("inner") }), {
      code: "config_invalid",
    });
    expect(redactFields({ err: error })).toEqual({
      err: {
        type: "TypeError",
        message: "outer",
        code: "config_invalid",
        stack: expect.stringContaining("TypeError: outer"),
        cause: { type: "RangeError", message: "inner", stack: expect.any(String) },
      },
    });
  });

  test("cycles, wide values, throwing getters and odd values end in a bounded line", () => {
    const cycle: Record<string, unknown> = { when: new Date(0), never: new Date(Number.NaN) };
    for (let i = 0; i < 100; i++) cycle[`self${i}`] = cycle;
    expect(JSON.stringify(redactFields({ cycle })).length).toBeLessThan(20_000);
    const list: unknown[] = Array.from({ length: 5_000 }, (_, i) => `entry ${i}`);
    expect(JSON.stringify(redactFields({ list })).length).toBeLessThan(10_000);
    const trap = {
      get bad(): string {
        throw new RangeError("no");
      },
    };
    expect(redactFields({ trap })).toEqual({ unreadable: true });
    expect(redactFields({ f: () => 1, s: Symbol("x"), u: undefined })).toEqual({
      f: "[function]",
      s: "[symbol]",
      u: undefined,
    });
  });
});
