/**
 * What it is: the judge of gateways' answers: right again in the end, never too high meanwhile.
 * Owns: the prompts that it asks.
 * Refuses: nothing.
 * Does not do: know what happened to the processes.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { TracePrompt } from "../../../src/cli/dist/trace-file.js";
import { eventually } from "./eventually.ts";
import type { Follower, Scene } from "./scene.ts";
import { NO_ANSWER, type ProbeAnswer, type ScoreProbe } from "./score-probe.ts";

const PROMPTS = 12;
const LOG_LINES = 20;
const PAUSE_MS = 25;
/** Nobody may rely on such a number. */
const DISCLAIMED: readonly string[] = ["stale", "unknown"];
/** A gateway, or a bridge, that got no processor for a while. */
const BUSY: readonly string[] = ["silent", NO_ANSWER];

/** Whom and what a claim is about; default: every gateway, rank 0. */
export interface Claim {
  readonly followers?: readonly Follower[];
  readonly dpRank?: number;
}

/** Asks prompts of one moment of the recording. */
export class Judge {
  readonly prompts: readonly TracePrompt[];
  private readonly scene: Scene;
  private readonly rows: readonly (readonly number[])[];

  /** The last prompts that the engine was asked before batch `at` and had something for. */
  constructor(scene: Scene, at: number) {
    this.scene = scene;
    this.prompts = scene.recording.promptsBefore(at, PROMPTS);
    if (this.prompts.length === 0) throw new Error(`no prompts before batch ${at}`);
    this.rows = scene.recording.answers(this.prompts);
  }

  /** Resolves when every answer is exact and the engine's own, as of its last batch. */
  async right(claim: Claim = {}): Promise<void> {
    const { followers = this.scene.followers, dpRank = 0 } = claim;
    const { position, lastSequence } = this.scene.state(dpRank);
    const wanted = this.answers(position);
    for (const [place, { probe }] of followers.entries()) {
      await this.eventually(`gateway ${place}, rank ${dpRank}, at batch ${position}`, async () => {
        const rank = await probe.rank(dpRank);
        const applied = rank?.sequenceNumber;
        if (lastSequence >= 0 && applied !== BigInt(lastSequence)) {
          return `applied ${applied}, published ${lastSequence}, ${rank?.reasons.join()}`;
        }
        return this.firstOf(probe, dpRank, (answer, i) =>
          answer.state === "exact" && answer.tokens === wanted[i]
            ? undefined
            : `prompt ${i}: ${words(answer)}, the engine says ${wanted[i]}`,
        );
      });
    }
  }

  /** Resolves when no answer claims more than `bound` without saying that it is stale or unknown. */
  async safe(bound: readonly number[], claim: Claim = {}): Promise<void> {
    await this.eachAnswer("safe", claim, (answer, i) =>
      isSafe(answer, bound[i] ?? 0) ? undefined : `prompt ${i}: ${words(answer)}, not ${bound[i]}`,
    );
  }

  /** Resolves when every answer says one of these states. */
  async says(states: readonly string[], claim: Claim = {}): Promise<void> {
    await this.eachAnswer(states.join(" or "), claim, (answer, i) =>
      states.includes(answer.state) ? undefined : `prompt ${i}: ${words(answer)}`,
    );
  }

  /** From now on every answer of these gateways is held against a bound, until `stop`. */
  watch(bound: readonly number[], claim: Claim = {}): Watch {
    const { followers = this.scene.followers, dpRank = 0 } = claim;
    return new Watch(this.prompts, bound, dpRank, followers);
  }

  /** The engine's numbers after `position` batches. */
  answers(position: number): readonly number[] {
    return this.highest(position, position);
  }

  /** The highest of the engine's numbers between two positions: while it runs, an answer may be a moment old. */
  highest(from: number, to: number): readonly number[] {
    const rows = this.rows.slice(from, to + 1);
    return this.prompts.map((_, i) => Math.max(...rows.map((row) => row[i] ?? 0)));
  }

  /** An engine that holds nothing. */
  get nothing(): readonly number[] {
    return this.prompts.map(() => 0);
  }

  private async eventually(goal: string, look: () => Promise<string | undefined>): Promise<void> {
    try {
      await eventually(goal, look);
    } catch (error) {
      const log = this.scene.bridge.lines.slice(-LOG_LINES).join("\n");
      throw new Error(`${String(error)}\nthe bridge's log ends with\n${log}`, { cause: error });
    }
  }

  private async eachAnswer(
    goal: string,
    { followers = this.scene.followers, dpRank = 0 }: Claim,
    missing: (answer: ProbeAnswer, i: number) => string | undefined,
  ): Promise<void> {
    for (const [place, { probe }] of followers.entries()) {
      await this.eventually(`gateway ${place}, rank ${dpRank}: ${goal}`, () =>
        this.firstOf(probe, dpRank, missing),
      );
    }
  }

  private async firstOf(
    probe: ScoreProbe,
    dpRank: number,
    missing: (answer: ProbeAnswer, i: number) => string | undefined,
  ): Promise<string | undefined> {
    for (const [i, prompt] of this.prompts.entries()) {
      const found = missing(await probe.ask(prompt, dpRank), i);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** Asks all the time and keeps what was too high. */
export class Watch {
  /** Raise it before the engine publishes more, lower it when the loss is known to be seen. */
  bound: readonly number[];
  /** Answers looked at. */
  looks = 0;
  /** What answers said of their view beside "exact", but for what a busy machine brings by itself. */
  readonly notices = new Set<string>();
  private readonly tooHigh: string[] = [];
  private readonly done: Promise<unknown>;
  private isStopped = false;

  /** Begins at once. */
  constructor(
    prompts: readonly TracePrompt[],
    bound: readonly number[],
    dpRank: number,
    followers: readonly Follower[],
  ) {
    this.bound = bound;
    this.done = Promise.all(
      followers.map(({ probe }, place) => this.follow(prompts, probe, dpRank, place)),
    );
  }

  /** Gives every answer that was too high; at least one answer was looked at. */
  async stop(): Promise<readonly string[]> {
    await eventually("something was asked", () => (this.looks > 0 ? undefined : "nothing"));
    this.isStopped = true;
    await this.done;
    return this.tooHigh;
  }

  private async follow(
    prompts: readonly TracePrompt[],
    probe: ScoreProbe,
    dpRank: number,
    place: number,
  ): Promise<void> {
    while (!this.isStopped) {
      for (const [i, prompt] of prompts.entries()) {
        const answer = await probe.ask(prompt, dpRank);
        this.looks += 1;
        const isBusy = answer.reasons.every((reason) => BUSY.includes(reason));
        if (answer.state !== "exact" && !isBusy) this.notices.add(words(answer));
        const bound = this.bound[i] ?? 0;
        if (isSafe(answer, bound)) continue;
        this.tooHigh.push(`gateway ${place}, prompt ${i}: ${words(answer)}, at most ${bound}`);
      }
      await pause(PAUSE_MS);
    }
  }
}

function isSafe(answer: ProbeAnswer, bound: number): boolean {
  return answer.tokens <= bound || DISCLAIMED.includes(answer.state);
}

function words({ tokens, state, reasons }: ProbeAnswer): string {
  return `${tokens} ${state} (${reasons.join(", ")})`;
}
