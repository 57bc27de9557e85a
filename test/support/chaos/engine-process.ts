/**
 * What it is: a recorded engine as a real process, and its orders.
 * Owns: the child process.
 * Refuses: an order that the child cannot follow: the promise rejects with its reason.
 * Does not do: judge answers, or start anew by itself: a second `startEngine` on the same ports does.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

/** How replay requests are answered: as vLLM does, with holes, never, or nobody listens. */
export type ReplayMode = "served" | "holey" | "silent" | "off";

/** What an engine process is started with. */
export interface EngineSetup {
  /** File of the recording. */
  readonly trace: string;
  readonly publishPort: number;
  readonly replayPort: number;
  /** Tells processes apart that play the same recording: their payloads differ in `ts` only. */
  readonly generation: number;
  readonly dpRank: number;
  readonly replayMode: ReplayMode;
  /** Batches kept for replay; vLLM's default is 10,000. */
  readonly bufferSteps: number;
}

/** Where an engine process stands. */
export interface EngineState {
  /** Recorded batches played since its start or its last clear. */
  readonly position: number;
  /** -1 = none. */
  readonly lastSequence: number;
  readonly subscribers: number;
  /** Replay requests that arrived. */
  readonly requests: number;
}

interface Reply extends EngineState {
  readonly id: number;
  readonly failure?: string;
}

const MAIN = join(import.meta.dirname, "engine-main.mjs");

/** One engine process. */
export class EngineProcess {
  private readonly child: ChildProcess;
  private readonly waiting = new Map<number, (reply: Reply) => void>();
  private lastId = 0;

  private constructor(child: ChildProcess) {
    this.child = child;
    child.on("message", (reply: Reply) => {
      this.waiting.get(reply.id)?.(reply);
      this.waiting.delete(reply.id);
    });
    child.once("exit", () => {
      const failure = "the engine process is gone";
      for (const [id, resolve] of this.waiting) resolve({ id, failure, ...NOWHERE });
      this.waiting.clear();
    });
  }

  /** Resolves when both sockets are bound. */
  static async start(setup: EngineSetup): Promise<EngineProcess> {
    const engine = new EngineProcess(
      fork(MAIN, [JSON.stringify(setup)], { stdio: ["ignore", "inherit", "inherit", "ipc"] }),
    );
    await engine.reply(0);
    return engine;
  }

  /** Publishes the recording up to and without batch `until`. */
  play(until: number): Promise<EngineState> {
    return this.order("play", { until });
  }

  /** Publishes `AllBlocksCleared`; the recording begins anew, the numbers go on. */
  clear(): Promise<EngineState> {
    return this.order("clear");
  }

  /** Stores 2,048 blocks and removes them again, `pairs` times: much to send, and nothing is different then. */
  flood(pairs: number): Promise<EngineState> {
    return this.order("flood", { pairs });
  }

  /** The next `count` batches are kept for replay but not published. */
  drop(count: number): Promise<EngineState> {
    return this.order("drop", { count });
  }

  /** How replay requests are answered from now on. */
  replay(mode: ReplayMode): Promise<EngineState> {
    return this.order("replay", { mode });
  }

  /** Where it stands. */
  state(): Promise<EngineState> {
    return this.order("state");
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await gone;
  }

  private order(order: string, more: object = {}): Promise<EngineState> {
    this.lastId += 1;
    const id = this.lastId;
    const answered = this.reply(id);
    this.child.send({ id, order, ...more });
    return answered;
  }

  private async reply(id: number): Promise<EngineState> {
    const reply = await new Promise<Reply>((resolve) => this.waiting.set(id, resolve));
    if (reply.failure !== undefined) throw new Error(reply.failure);
    return reply;
  }
}

const NOWHERE: EngineState = { position: 0, lastSequence: -1, subscribers: 0, requests: 0 };
