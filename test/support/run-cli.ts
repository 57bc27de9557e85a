/**
 * What it is: the shipped binary as a child process, run to its end.
 * Owns: nothing after it returns.
 * Refuses: nothing.
 * Does not do: judge output.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";

/** What a run left behind. */
export interface CliRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `kvgroup <args>` with nothing but `environment` in its environment. */
export function runCli(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CliRun> {
  const binary = join(import.meta.dirname, "../../src/cli/dist/main.js");
  const child = spawn(process.execPath, [binary, ...args], {
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((resolve) => {
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
