/**
 * What it is: what must be true of every gateway at every moment, at calm moments, and at the end.
 * Owns: the first failure that was found.
 * Refuses: nothing.
 * Does not do: change anything.
 */
import type { AnswerReason, RankAnswer } from "@kv-group-bridge/gateway";
import { type Clock, InvariantViolation } from "@kv-group-bridge/runtime";
import type { Claims } from "./claims.ts";
import type { Coverage } from "./coverage.ts";
import type { GatewayHost } from "./gateway-host.ts";
import type { LiveLink } from "./live-link.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";
import type { ProbeAnswers, TrueAnswers } from "./true-answers.ts";

/** What a judge needs. */
export interface JudgeOptions {
  readonly clock: Clock;
  readonly dice: SeededRandomness;
  readonly truth: TrueAnswers;
  readonly claims: Claims;
  readonly live: LiveLink;
  readonly coverage: Coverage;
  readonly note: (text: string) => void;
}

/** How the end of a run is judged. */
export type EndRule =
  /** Every answer equals the truth. */
  | "equal"
  /** Batches were lost for good: an answer may be lower, and says so. */
  | "incomplete";

/** Says that an answer may be too low. */
const LOWER: ReadonlySet<AnswerReason> = new Set([
  "snapshot_pending",
  "incomplete",
  "unplaced_blocks",
  "withdrawn",
  "limit_reached",
]);
/**
 * An engine that was replaced by one whose numbers go on cannot be told apart by its first batches. The bridge may
 * need so long after it was told of the reconnection.
 */
const PROOF_GRACE_MS = 45_000;

/** See the file header. */
export class Judge {
  /** The first failure; undefined = none. */
  failure: string | undefined = undefined;
  private readonly options: JudgeOptions;

  constructor(options: JudgeOptions) {
    this.options = options;
  }

  /** Always: an answer that is not stale is at most the truth at the moment that its view claims. */
  atAnyTime(gateway: GatewayHost): void {
    const { dice, truth } = this.options;
    if (gateway.sawBrokenContract) this.fail(`${gateway.name}: the stream broke the contract`);
    const probe = dice.below(truth.prompts.length);
    const answer = this.ask(gateway, probe);
    if (answer !== undefined) this.judgeClaim(gateway, probe, answer);
  }

  /**
   * At a calm moment: stale, or at most the truth of now, and equal to it when the answer says so. `now` is
   * undefined while no engine runs.
   */
  atCalm(gateway: GatewayHost, now: ProbeAnswers | undefined): void {
    this.options.coverage.add("calm_moments");
    for (let probe = 0; probe < this.options.truth.prompts.length; probe++) {
      const answer = this.ask(gateway, probe);
      if (answer === undefined) continue;
      this.judgeClaim(gateway, probe, answer);
      if (isOpenAbout(answer)) continue;
      const owed = now?.[probe] ?? 0;
      const said = answer.reusableTokens;
      const says = describe(gateway, probe, answer);
      if (said > owed) this.fail(`${says}, at a calm moment it is ${owed}`);
      const isLower = answer.reasons.some((reason) => LOWER.has(reason));
      if (!isLower && said !== owed)
        this.fail(`${says} without doubt, at a calm moment it is ${owed}`);
    }
  }

  /** At the end, when everything was healed long ago. */
  atEnd(gateway: GatewayHost, now: ProbeAnswers, rule: EndRule): void {
    const { coverage, truth } = this.options;
    this.atCalm(gateway, now);
    let isEqual = true;
    for (let probe = 0; probe < truth.prompts.length; probe++) {
      const answer = this.ask(gateway, probe);
      const owed = now[probe] ?? 0;
      if (answer === undefined) {
        this.fail(`${gateway.name}: no answer at the end`);
        return;
      }
      const says = describe(gateway, probe, answer);
      if (isOpenAbout(answer)) this.fail(`${says} at the end, when all is healed`);
      if (answer.reusableTokens === owed) continue;
      isEqual = false;
      if (rule === "equal") this.fail(`${says} at the end, when it is ${owed}`);
    }
    coverage.add(isEqual ? "ends_equal" : "ends_incomplete");
  }

  /** Runs an audit; a broken invariant is a failure. */
  audit(name: string, audit: () => void): void {
    try {
      audit();
    } catch (error) {
      if (!(error instanceof InvariantViolation)) throw error;
      this.fail(`${name}: audit: ${error.message}`);
    }
  }

  /** Keeps the first failure. */
  fail(text: string): void {
    if (this.failure !== undefined) return;
    this.failure = `${text} (after ${Math.round(this.options.clock.monotonicMs())} ms)`;
    this.options.note(`FAILED: ${this.failure}`);
  }

  private ask(gateway: GatewayHost, probe: number): RankAnswer | undefined {
    const prompt = this.options.truth.prompts[probe];
    return prompt === undefined ? undefined : gateway.ask(prompt);
  }

  private judgeClaim(gateway: GatewayHost, probe: number, answer: RankAnswer): void {
    const { claims, truth, coverage } = this.options;
    coverage.add("answers_judged");
    if (isOpenAbout(answer)) {
      coverage.add("answers_stale");
      return;
    }
    const claim = gateway.claim();
    if (claim === undefined) return;
    const { epoch, sequence } = claim;
    const moment = sequence === undefined ? undefined : claims.at(epoch, sequence);
    if (sequence !== undefined && moment === undefined) {
      this.fail(`${gateway.name}: has the cursor ${epoch}:${sequence}, which no bridge applied`);
      return;
    }
    const owed = (moment?.answers ?? truth.nothing)[probe] ?? 0;
    if (answer.reusableTokens === owed) coverage.add("answers_equal");
    if (answer.reusableTokens < owed && !answer.reasons.some((reason) => LOWER.has(reason))) {
      const at = `${moment?.process}:${moment?.sequence} as ${epoch}:${sequence}`;
      this.fail(`${describe(gateway, probe, answer)} without doubt, but at ${at} it is ${owed}`);
    }
    if (answer.reusableTokens <= owed) return;
    if (this.isExcused(epoch)) {
      coverage.add("answers_excused");
      return;
    }
    const at = `${moment?.process}:${moment?.sequence} as ${epoch}:${sequence}`;
    this.fail(`${describe(gateway, probe, answer)}, but at ${at} it is ${owed}`);
  }

  /** A replaced engine with numbers that go on, before the bridge could know. */
  private isExcused(epoch: bigint): boolean {
    const { claims, clock, live } = this.options;
    const mixedAtMs = claims.mixedAtMs(epoch);
    if (mixedAtMs === undefined) return false;
    return clock.monotonicMs() <= Math.max(mixedAtMs, live.lastToldMs) + PROOF_GRACE_MS;
  }
}

/** The answer says itself that it is no statement about now. */
function isOpenAbout(answer: RankAnswer): boolean {
  return answer.state === "stale" || answer.state === "unknown";
}

function describe(gateway: GatewayHost, probe: number, answer: RankAnswer): string {
  const reasons = answer.reasons.length > 0 ? ` (${answer.reasons.join(", ")})` : "";
  return `${gateway.name}: says ${answer.reusableTokens} ${answer.state}${reasons} for probe ${probe}`;
}
