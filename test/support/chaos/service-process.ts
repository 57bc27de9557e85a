/**
 * What it is: `kvgroup bridge` or `kvgroup gateway` as a real process that may be killed, paused and started again.
 * Owns: the child process and the last lines of its log.
 * Refuses: a child that ends before it serves: the promise rejects with its last lines.
 * Does not do: restart it by itself.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MAIN = join(import.meta.dirname, "../../../src/cli/dist/main.js");
const KEPT_LINES = 500;
const KIB = 1024;

/** Flags by name, without the dashes. */
export type Flags = Readonly<Record<string, string | number>>;

/** How a child is started beside its flags. */
export interface ServiceOptions {
  /** A program that starts it, with its arguments: `prlimit` and the like. */
  readonly wrapper?: readonly string[];
}

/** One service process. */
export class ServiceProcess {
  /** What it logged, newest last. */
  readonly lines: string[] = [];
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  /** Resolves when its log says that it serves. */
  static async start(
    name: "bridge" | "gateway",
    flags: Flags,
    { wrapper = [] }: ServiceOptions = {},
  ): Promise<ServiceProcess> {
    const words = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
    const [program, ...before] = [...wrapper, process.execPath, MAIN, name, ...words];
    const child = spawn(program ?? process.execPath, before, {
      stdio: ["ignore", "inherit", "pipe"],
      env: { PATH: process.env["PATH"] ?? "" },
    });
    const service = new ServiceProcess(child);
    await service.serving(name);
    return service;
  }

  /** Sends a signal. SIGSTOP and SIGCONT pause and go on. */
  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.child.kill(name);
  }

  /** SIGKILL, or SIGTERM to let it end by itself; resolves with its exit code when it is gone. */
  async end(name: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<number | null> {
    if (this.isRunning) {
      const gone = once(this.child, "exit");
      this.child.kill(name);
      await gone;
    }
    return this.child.exitCode;
  }

  /** It has not ended, by itself or otherwise. */
  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Memory that the system counts for it now, in bytes. */
  residentBytes(): number {
    const status = readFileSync(`/proc/${this.child.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * KIB;
  }

  /** Lines of the log that contain `text`. */
  logged(text: string): readonly string[] {
    return this.lines.filter((line) => line.includes(text));
  }

  private serving(name: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (): void =>
        reject(new Error(`${name} ended before it served\n${this.lines.join("\n")}`));
      this.child.once("exit", fail);
      this.child.once("error", reject);
      if (this.child.stderr === null) return;
      createInterface({ input: this.child.stderr }).on("line", (line) => {
        this.lines.push(line);
        if (this.lines.length > KEPT_LINES) this.lines.shift();
        if (!line.includes(`"${name} serves"`)) return;
        this.child.removeListener("exit", fail);
        resolve();
      });
    });
  }
}
