/**
 * What it is: a publisher in a process of its own, on one port over any number of lives.
 * Owns: the child.
 * Refuses: nothing.
 * Does not do: know what was received.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const SCRIPT = join(import.meta.dirname, "publisher-process.mjs");

/** Publishes `["kv", sequence from 0, name of this life]` from `start` until `kill`. */
export class PublisherProcess {
  private readonly endpoint: string;
  private child: ChildProcess | undefined;

  constructor(endpoint: string) {
    this.endpoint = endpoint;
  }

  /** Resolves when the socket is bound. */
  async start(name: string): Promise<void> {
    const child = spawn(process.execPath, [SCRIPT, this.endpoint, name], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.child = child;
    await once(child.stdout, "data");
  }

  /** SIGSTOP: the process stands still, its connections stay open. */
  stop(): void {
    this.child?.kill("SIGSTOP");
  }

  /** SIGCONT. */
  resume(): void {
    this.child?.kill("SIGCONT");
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}
