/**
 * What it is: tests of the seam to the process, in child processes of their own.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: send signals to the test runner.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { exitProcess, onShutdown, readEnvironment } from "../../../src/runtime/dist/index.js";

const runtime = new URL("../../../src/runtime/dist/index.js", import.meta.url).href;

/** A process that installs the handlers, says "ready", and says which signal it got. */
function child(afterSignal: string) {
  const code = `
    const { onShutdown, exitProcess } = await import(${JSON.stringify(runtime)});
    const keepAlive = setInterval(() => {}, 1000);
    const off = onShutdown((signal) => { console.log(signal); ${afterSignal} });
    console.log("ready");`;
  const started = spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  const seen = async (text: string): Promise<void> => {
    while (!output.includes(text)) output += String((await once(started.stdout, "data"))[0]);
  };
  return { process: started, seen };
}

describe("process", () => {
  test("the environment is a copy", () => {
    const before = readEnvironment();
    process.env["KVGROUP_TEST_VARIABLE"] = "x";
    expect(before["KVGROUP_TEST_VARIABLE"]).toBeUndefined();
    expect(readEnvironment()["KVGROUP_TEST_VARIABLE"]).toBe("x");
    delete process.env["KVGROUP_TEST_VARIABLE"];
  });

  test("handlers are removed again", () => {
    const counts = () => [process.listenerCount("SIGTERM"), process.listenerCount("SIGINT")];
    const before = counts();
    const off = onShutdown(() => exitProcess(1));
    expect(counts()).toEqual(before.map((count) => count + 1));
    off();
    off();
    expect(counts()).toEqual(before);
  });

  test("the first signal asks; the process ends in its own time, with its own code", async () => {
    const { process: started, seen } = child("exitProcess(7);");
    await seen("ready");
    started.kill("SIGINT");
    expect(await once(started, "exit")).toEqual([7, null]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const)("a second signal, %s, forces the exit with %i", async (signal, code) => {
    const { process: started, seen } = child("");
    await seen("ready");
    started.kill("SIGTERM");
    await seen("SIGTERM");
    started.kill(signal);
    expect(await once(started, "exit")).toEqual([code, null]);
  });
});
