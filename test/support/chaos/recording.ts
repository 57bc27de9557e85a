/**
 * What it is: a recorded engine, and what it would answer after any number of its batches.
 * Owns: the recording in memory.
 * Refuses: recordings with restarts: they are more than one engine.
 * Does not do: ask the product under test. Where the recording has the engine's own number, that is the number;
 * for the other prompts the in-process path is asked, which must agree with the engine wherever both speak.
 */
import { join } from "node:path";
import { parseDpRank } from "@kv-group-bridge/protocol";
import { InProcessPath } from "../../../src/cli/dist/in-process-path.js";
import {
  engineConfigOfTrace,
  engineDescriptionOfTrace,
} from "../../../src/cli/dist/trace-engine.js";
import { openTrace, type TraceEngine, type TracePrompt } from "../../../src/cli/dist/trace-file.js";

const FOLDER = join(import.meta.dirname, "../../fixtures/traces");
const SEED = "a seed for recordings";

interface Lookup {
  readonly prompt: TracePrompt;
  readonly native: number;
}

/** One recording. */
export class Recording {
  readonly file: string;
  readonly engine: TraceEngine;
  private readonly frames: (readonly Uint8Array[])[] = [];
  /** Lookups by the number of batches before them. */
  private readonly lookups = new Map<number, Lookup[]>();

  private constructor(file: string, engine: TraceEngine) {
    this.file = file;
    this.engine = engine;
  }

  /** Reads `test/fixtures/traces/<name>.jsonl.gz`. */
  static async open(name: string): Promise<Recording> {
    const file = join(FOLDER, `${name}.jsonl.gz`);
    const trace = await openTrace(file);
    const recording = new Recording(file, trace.engine);
    for await (const entry of trace.entries) {
      if (entry.type === "restart") throw new Error(`${name} has restarts`);
      const at = recording.frames.length;
      if (entry.type === "frame") recording.frames.push(entry.frames);
      else recording.lookups.set(at, [...(recording.lookups.get(at) ?? []), entry]);
    }
    return recording;
  }

  /** Number of batches. */
  get length(): number {
    return this.frames.length;
  }

  /** The description as JSON, for the bridge's configuration. */
  get description(): string {
    return JSON.stringify(engineDescriptionOfTrace(this.engine));
  }

  /** The last `count` prompts asked of the engine at or before batch `until` whose number then was not 0. */
  promptsBefore(until: number, count: number): readonly TracePrompt[] {
    const found: TracePrompt[] = [];
    for (let at = until; at >= 0 && found.length < count; at--) {
      for (const { prompt, native } of this.lookups.get(at) ?? []) {
        if (native > 0 && found.length < count) found.push(prompt);
      }
    }
    return found;
  }

  /** The engine's number for each prompt after `until` batches. */
  answers(until: number, prompts: readonly TracePrompt[]): readonly number[] {
    return this.highest(until, until, prompts);
  }

  /** The highest number that the engine would have given for each prompt between two positions, both included. */
  highest(from: number, to: number, prompts: readonly TracePrompt[]): readonly number[] {
    const dpRank = parseDpRank(this.engine.dp_rank);
    if (dpRank === undefined) throw new Error("a recording has a rank");
    const path = new InProcessPath({
      dpRank,
      engine: engineConfigOfTrace(this.engine),
      seed: SEED,
    });
    const most = prompts.map(() => 0);
    for (let at = 0; at <= to; at++) {
      const frame = this.frames[at - 1];
      if (frame !== undefined) path.receive(frame);
      this.check(at, path);
      if (at < from) continue;
      for (const [i, prompt] of prompts.entries()) {
        most[i] = Math.max(most[i] ?? 0, path.score(prompt).reusableTokens);
      }
    }
    path.gateway.close();
    return most;
  }

  private check(at: number, path: InProcessPath): void {
    for (const { prompt, native } of this.lookups.get(at) ?? []) {
      const { reusableTokens } = path.score(prompt);
      if (reusableTokens === native) continue;
      throw new Error(`after ${at} batches the engine says ${native}, the path ${reusableTokens}`);
    }
  }
}
