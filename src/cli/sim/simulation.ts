/**
 * What it is: one run from one seed: engines, a bridge and gateways in one thread on a virtual clock.
 * Owns: the world of the run. The seed decides everything.
 * Refuses: nothing.
 * Does not do: print.
 */
import { type EngineConfig, parseEngineDescription } from "@kv-group-bridge/bridge";
import { KeyedHasher, parseDpRank } from "@kv-group-bridge/protocol";
import { InvariantViolation, invariant } from "@kv-group-bridge/runtime";
import { BridgeHost } from "./bridge-host.ts";
import { Chaos } from "./chaos.ts";
import { CheckpointShelf } from "./checkpoint-shelf.ts";
import { Claims } from "./claims.ts";
import type { Coverage } from "./coverage.ts";
import { groupsOf, hasTails, schedulerStride } from "./engine-layout.ts";
import { Engines } from "./engines.ts";
import { drawPlan, type FaultPlan, rateOf } from "./fault-plan.ts";
import { GatewayHost } from "./gateway-host.ts";
import { type EndRule, Judge } from "./judge.ts";
import { LiveLink } from "./live-link.ts";
import type { Plant } from "./plant.ts";
import { TREE_BLOCK_TOKENS } from "./prompt-tree.ts";
import { ReplayLink } from "./replay-link.ts";
import { SeededRandomness } from "./seeded-randomness.ts";
import { TrueAnswers } from "./true-answers.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** What a run is made of. */
export interface SimulationOptions {
  readonly seed: number;
  readonly coverage: Coverage;
  readonly plant?: Plant | undefined;
  /** Told of everything that happens, for the replay of one seed. */
  readonly trace?: ((line: string) => void) | undefined;
}

const KEY_SEED = "simulated fleet 1";
const HASHER = new KeyedHasher(KEY_SEED);
const CALM_MS = 120_000;
/** Seconds that messages under way may need after that, and faults that may end meanwhile. */
/** A stream of one message at a time takes its while. */
const MOST_WAITS = 120;
/** After this much time nothing of what was healed may still be felt. */
const HEALING_MS = 120_000;
/** Beyond one period of the bridge's probes and one request. */
const PROBE_MS = 65_000;

/** Runs one seed; the text of the first failure, or undefined. */
export function runSeed(options: SimulationOptions): string | undefined {
  const simulation = new Simulation(options);
  try {
    return simulation.run();
  } catch (error) {
    if (!(error instanceof InvariantViolation)) throw error;
    return `invariant: ${error.message}`;
  }
}

class Simulation {
  private readonly options: SimulationOptions;
  private readonly plan: FaultPlan;
  private readonly dice: SeededRandomness;
  private readonly clock = new VirtualClock();
  private readonly truth: TrueAnswers;
  private readonly live: LiveLink;
  private readonly replay: ReplayLink;
  private readonly engines: Engines;
  private readonly bridge: BridgeHost;
  private readonly gateways: GatewayHost[] = [];
  private readonly judge: Judge;
  private readonly chaos: Chaos;
  private minted = 0n;

  constructor(options: SimulationOptions) {
    this.options = options;
    const { coverage, plant } = options;
    const dice = new SeededRandomness(options.seed);
    const plan = drawPlan(dice);
    const world = this.clock;
    const note = (text: string): void => this.note(text);
    this.dice = dice;
    this.plan = plan;
    this.truth = new TrueAnswers(plan, dice);
    const { truth } = this;
    const claims = new Claims();
    this.live = new LiveLink({ world, dice, plan, coverage });
    this.replay = new ReplayLink({ world, dice, plan, coverage });
    const { live, replay } = this;
    this.engines = new Engines({ plan, dice, truth, live, replay, note });
    this.bridge = new BridgeHost({
      world,
      plan,
      dpRank: rankZero(),
      engine: describeEngine(plan),
      hasher: HASHER,
      live,
      replay,
      shelf: new CheckpointShelf({ plan, dice, coverage }),
      truth,
      claims,
      coverage,
      plant,
      note,
      mintNumber: () => ++this.minted,
    });
    const { engines, bridge, gateways } = this;
    this.judge = new Judge({ clock: world, dice, truth, claims, live, coverage, note });
    for (let i = 0; i < plan.gateways; i++) {
      const onTaken = (gateway: GatewayHost): void => this.judge.atAnyTime(gateway);
      const name = `gateway ${i}`;
      gateways.push(
        new GatewayHost({
          name,
          world,
          dice,
          plan,
          seed: KEY_SEED,
          bridge,
          coverage,
          plant,
          note,
          onTaken,
        }),
      );
    }
    this.chaos = new Chaos({
      world,
      dice,
      plan,
      coverage,
      engines,
      live,
      replay,
      bridge,
      gateways,
      note,
    });
  }

  run(): string | undefined {
    this.begin();
    const calmStep = this.dice.below(2 * this.plan.steps);
    for (let step = 0; step < this.plan.steps && this.isGood; step++) {
      if (!this.plan.isFaultless) this.chaos.step();
      this.engines.step(this.chaos.takeCopies());
      this.clock.advance(this.dice.below(this.plan.longestStepMs) + this.chaos.takeIdleMs());
      for (const gateway of this.gateways) this.judge.atAnyTime(gateway);
      this.bridge.keep();
      if (step === calmStep) this.calm();
    }
    if (this.isGood) this.end();
    this.count();
    return this.judge.failure;
  }

  private get isGood(): boolean {
    return this.judge.failure === undefined;
  }

  private begin(): void {
    const { dice, plan, engines, live, replay, bridge } = this;
    if (this.options.trace !== undefined) {
      this.note(JSON.stringify({ ...plan, rates: [...plan.rates].filter((pair) => pair[1] > 0) }));
    }
    if (!plan.hasReplay) this.options.coverage.add("replay_absent");
    if (plan.isFaultless) this.options.coverage.add("seeds_without_faults");
    // Half of all bridges come to an engine that is warm already.
    const first = engines.create(plan.isFaultless || dice.chance(0.5) ? 0 : dice.between(1, 30));
    engines.use(first);
    live.leadTo(first);
    replay.leadTo(first);
    bridge.start();
    for (const gateway of this.gateways) gateway.start();
    this.clock.advance(plan.isFaultless ? 5000 : dice.below(5000));
  }

  /** No new faults; those that last may last. */
  private calm(): void {
    this.live.drop(0);
    const isUpToDate = (gateway: GatewayHost): boolean => gateway.isAt(this.bridge.cursor);
    this.engines.step();
    this.clock.advance(CALM_MS / 2);
    this.engines.step();
    this.clock.advance(CALM_MS);
    // A fault that ended meanwhile needs its own time until all is told.
    for (let waits = 0; waits < MOST_WAITS && this.calmSinceMs < CALM_MS; waits++) {
      this.clock.advance(CALM_MS - this.calmSinceMs);
    }
    // A reply that comes slowly may end without its end: then the next probe tells what is missing.
    for (let waits = 0; waits < MOST_WAITS && this.bridge.isCatchingUp; waits++) {
      this.clock.advance(1000);
    }
    this.clock.advance(PROBE_MS);
    // What is under way arrives first.
    for (let waits = 0; waits < MOST_WAITS && !this.gateways.every(isUpToDate); waits++) {
      this.clock.advance(1000);
    }
    this.note("calm");
    // With nothing wrong any more it is as at the end, unless an engine has not shown all of its groups yet.
    const isWhole = this.chaos.isQuiet && !this.plan.isLearnt && this.endRule() === "equal";
    if (isWhole) this.judgeEnd("equal");
    for (const gateway of this.gateways) {
      this.judge.atCalm(gateway, this.engines.currentAnswers);
    }
    this.audit();
  }

  private get calmSinceMs(): number {
    return this.clock.monotonicMs() - this.chaos.lastEndMs;
  }

  private end(): void {
    // What the last checkpoint has is judged too.
    const { plan, dice } = this;
    if (hasTails(plan) && !plan.isFaultless && dice.chance(0.8)) this.chaos.strike("bridge_killed");
    this.note("healing");
    this.chaos.heal();
    for (let batches = 0; batches < 4; batches++) {
      this.clock.advance(HEALING_MS / 4);
      this.engines.step();
    }
    this.clock.advance(HEALING_MS);
    this.note("healed");
    this.judgeEnd(this.endRule());
    this.engines.reset();
    for (let batches = 0; batches < 4; batches++) {
      this.engines.step();
      this.clock.advance(5000);
    }
    this.clock.advance(HEALING_MS);
    this.note("after a clear");
    const isAlwaysReadable = this.engines.all.every(({ unreadable }) => unreadable === 0);
    this.judgeEnd(isAlwaysReadable ? "equal" : "incomplete");
    this.audit();
  }

  private judgeEnd(rule: EndRule): void {
    const now = this.engines.currentAnswers;
    invariant(now !== undefined, "an engine runs at the end");
    for (const gateway of this.gateways) this.judge.atEnd(gateway, now, rule);
  }

  /** Whether nothing can be lost for good. */
  private endRule(): EndRule {
    const { plan } = this;
    const faults =
      plan.replayHoleRate +
      plan.replayEndLostRate +
      plan.replayRefusedRate +
      plan.replaySlowRate +
      rateOf(plan, "replay_dead");
    const isSound = plan.hasReplay && plan.replaySteps >= plan.steps * 100 && faults === 0;
    const isAlwaysReadable = this.engines.all.every(({ unreadable }) => unreadable === 0);
    return isSound && isAlwaysReadable ? "equal" : "incomplete";
  }

  private audit(): void {
    this.judge.audit("bridge", () => this.bridge.audit());
    for (const gateway of this.gateways) this.judge.audit(gateway.name, () => gateway.audit());
  }

  private count(): void {
    const { coverage } = this.options;
    this.bridge.countAll();
    for (const gateway of this.gateways) gateway.count();
    if (this.plan.isFine) coverage.add("seeds_with_fine_hits");
    for (const { published, unreadable, clears } of this.engines.all) {
      coverage.add("batches", published.length);
      coverage.add("removal_unreadable", unreadable);
      coverage.add("clears", clears);
    }
  }

  private note(text: string): void {
    this.options.trace?.(`${this.clock.monotonicMs().toFixed(0).padStart(8)}  ${text}`);
  }
}

function rankZero(): NonNullable<ReturnType<typeof parseDpRank>> {
  const dpRank = parseDpRank(0);
  invariant(dpRank !== undefined, "0 is a rank");
  return dpRank;
}

/** What an operator would state: everything, or the roster alone. */
function describeEngine(plan: FaultPlan): EngineConfig {
  const groups = groupsOf(plan).map(({ groupId, kind, stride, windowTokens }) => {
    const size = { block_size: stride * TREE_BLOCK_TOKENS };
    // A group whose first store is an entry inside a block seems to have small blocks until it stores a whole one.
    if (plan.isLearnt) return { group_id: groupId, ...(hasTails(plan) ? size : {}) };
    return {
      group_id: groupId,
      kind,
      ...size,
      ...(windowTokens === undefined ? {} : { sliding_window: windowTokens }),
      spec_class: groupId,
    };
  });
  const stated = {
    scheduler_block_size: schedulerStride(groupsOf(plan)) * TREE_BLOCK_TOKENS,
    hash_block_size: plan.hashing?.unitTokens ?? TREE_BLOCK_TOKENS,
    fine: plan.isFine,
    lookahead_tokens: 0,
    eagle_bound: "hash_end",
    replay_tokens: 0,
  };
  return parseEngineDescription({
    vllm_version: "0.33.0",
    roster_complete: true,
    groups,
    ...(plan.isLearnt ? {} : stated),
  });
}
