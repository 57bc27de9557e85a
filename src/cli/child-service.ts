/**
 * What it is: a bridge or gateway as a child process, from start to end.
 * Owns: the child and the lines of its log.
 * Refuses: a child that ends or stays silent before it serves: the error carries its last lines.
 * Does not do: restart it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { KvEventsError } from "@kv-group-bridge/protocol";
import { systemTimers } from "@kv-group-bridge/runtime";

/** How long a child may take until it serves, and until it has ended after SIGTERM. */
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 10_000;
/** Lines kept for an error message. */
const KEPT_LINES = 20;

/** A child that serves. */
export class ChildService {
  private readonly child: ChildProcess;
  /** Where it serves. */
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.child = child;
    this.port = port;
  }

  /** Starts `kvgroup <args>` and resolves when its log says "<args[0]> serves". */
  static start(
    binary: string,
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
  ): Promise<ChildService> {
    const name = args[0] ?? "";
    const child = spawn(process.execPath, [binary, ...args], {
      stdio: ["ignore", "inherit", "pipe"],
      env: { PATH: "", ...environment },
    });
    return new Promise((resolve, reject) => {
      const lines: string[] = [];
      const fail = (why: string): void => {
        cancel();
        child.kill("SIGKILL");
        reject(new KvEventsError("listen_failed", `${name}: ${why}\n${lines.join("\n")}`));
      };
      const cancel = systemTimers.after(START_LIMIT_MS, () => fail("did not serve in time"));
      child.once("exit", (code) => fail(`ended with code ${String(code)}`));
      child.once("error", (error) => fail(error.message));
      if (child.stderr === null) return;
      createInterface({ input: child.stderr }).on("line", (line) => {
        lines.push(line);
        if (lines.length > KEPT_LINES) lines.shift();
        const port = servingPort(name, line);
        if (port === undefined) return;
        cancel();
        child.removeAllListeners("exit");
        resolve(new ChildService(child, port));
      });
    });
  }

  /** Asks it to end and resolves with its exit code; killed when it takes too long. */
  stop(): Promise<number | null> {
    return new Promise((resolve) => {
      if (this.child.exitCode !== null) {
        resolve(this.child.exitCode);
        return;
      }
      const cancel = systemTimers.after(STOP_LIMIT_MS, () => this.child.kill("SIGKILL"));
      this.child.once("exit", (code) => {
        cancel();
        resolve(code);
      });
      this.child.kill("SIGTERM");
    });
  }
}

function servingPort(name: string, line: string): number | undefined {
  if (!line.includes(`"${name} serves"`)) return undefined;
  const entry: unknown = JSON.parse(line);
  if (typeof entry !== "object" || entry === null || !("port" in entry)) return undefined;
  return typeof entry.port === "number" ? entry.port : undefined;
}
