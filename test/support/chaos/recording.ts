/**
 * What it is: the first batches of a recorded engine, and what it would answer after any number of them.
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
/** Enough for what the tests tell; an engine process can play the rest as well, but nobody could judge it. */
const BATCHES = 400;

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
  private isChecked = false;

  private constructor(file: string, engine: TraceEngine) {
    this.file = file;
    this.engine = engine;
  }

  /** Reads `test/fixtures/traces/<name>.jsonl.gz`, so many batches of it at most. */
  static async open(name: string, batches = BATCHES): Promise<Recording> {
    const file = join(FOLDER, `${name}.jsonl.gz`);
    const trace = await openTrace(file);
    const recording = new Recording(file, trace.engine);
    for await (const entry of trace.entries) {
      if (entry.type === "restart") throw new Error(`${name} has restarts`);
      const at = recording.frames.length;
      if (entry.type === "frame" && at === batches) break;
      if (entry.type === "frame") recording.frames.push(entry.frames);
      else recording.lookups.set(at, [...(recording.lookups.get(at) ?? []), entry]);
    }
    return recording;
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

  /** The engine's number for each prompt after 0, 1, 2 ... batches. */
  answers(prompts: readonly TracePrompt[]): readonly (readonly number[])[] {
    const dpRank = parseDpRank(this.engine.dp_rank);
    if (dpRank === undefined) throw new Error("a recording has a rank");
    const engine = engineConfigOfTrace(this.engine);
    const path = new InProcessPath({ dpRank, engine, seed: SEED });
    const rows: number[][] = [];
    for (let at = 0; at <= this.frames.length; at++) {
      const frame = this.frames[at - 1];
      if (frame !== undefined) path.receive(frame);
      if (!this.isChecked) this.check(at, path);
      rows.push(prompts.map((prompt) => path.score(prompt).reusableTokens));
    }
    this.isChecked = true;
    path.gateway.close();
    return rows;
  }

  private check(at: number, path: InProcessPath): void {
    for (const { prompt, native } of this.lookups.get(at) ?? []) {
      const { reusableTokens } = path.score(prompt);
      if (reusableTokens === native) continue;
      throw new Error(`after ${at} batches the engine says ${native}, the path ${reusableTokens}`);
    }
  }
}
