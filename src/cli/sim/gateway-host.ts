/**
 * What it is: a simulated gateway process: the real gateway over simulated streams.
 * Owns: the gateway of the running process, its timers, its stream, and the epoch of its view.
 * Refuses: nothing.
 * Does not do: judge answers.
 */
import {
  type BridgeSource,
  createGateway,
  type Gateway,
  type RankAnswer,
  type StreamHandlers,
} from "@kv-group-bridge/gateway";
import type { SubscribeResponse } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { ResumePoint } from "@kv-group-bridge/protocol";
import { type Clock, invariant, type Timers } from "@kv-group-bridge/runtime";
import type { BridgeHost } from "./bridge-host.ts";
import type { Coverage } from "./coverage.ts";
import type { FaultPlan } from "./fault-plan.ts";
import { HostTimers } from "./host-timers.ts";
import type { Plant } from "./plant.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";
import { SimStream } from "./sim-stream.ts";

/** What a gateway process is made of. */
export interface GatewayHostOptions {
  readonly name: string;
  readonly world: Timers & Clock;
  readonly dice: SeededRandomness;
  readonly plan: FaultPlan;
  readonly seed: string;
  readonly bridge: BridgeHost;
  readonly coverage: Coverage;
  readonly plant: Plant | undefined;
  readonly note: (text: string) => void;
  /** After each message that was taken. */
  readonly onTaken: (host: GatewayHost) => void;
}

const WORKER = "engine";
const LIMITS_OF_INDEX = { maxNodes: 10_000, maxEntriesPerRank: 10_000 };

interface Running {
  readonly gateway: Gateway;
  readonly timers: HostTimers;
}

/** What the process says of its one rank. */
export interface GatewayClaim {
  readonly epoch: bigint;
  readonly sequence: bigint | undefined;
}

/** See the file header. */
export class GatewayHost {
  readonly name: string;
  private readonly options: GatewayHostOptions;
  private running: Running | undefined = undefined;
  private current: SimStream | undefined = undefined;
  private epoch = 0n;
  private streams = 0;
  private moves = 0;
  private isPaused = false;

  constructor(options: GatewayHostOptions) {
    this.options = options;
    this.name = options.name;
  }

  /** The stream that is open now. */
  get stream(): SimStream | undefined {
    return this.current?.isOpen === true ? this.current : undefined;
  }

  /** True between `start` and `kill`. */
  get isAlive(): boolean {
    return this.running !== undefined;
  }

  /** A new process begins. */
  start(): void {
    invariant(this.running === undefined, "one process at a time");
    const { world, dice, seed, plant } = this.options;
    const timers = new HostTimers(world);
    const gateway = createGateway({
      seed,
      clock: world,
      timers,
      randomness: dice,
      indexLimits: LIMITS_OF_INDEX,
      sourceFactory: () => this.source(timers),
    });
    plant?.gateway?.(gateway);
    this.running = { gateway, timers };
    this.addWorker();
  }

  /** The process dies. */
  kill(): void {
    const { running } = this;
    if (running === undefined) return;
    this.count();
    running.gateway.close();
    running.timers.kill();
    this.running = undefined;
    this.isPaused = false;
  }

  /** The process stops for a while; it cannot be asked meanwhile. */
  pause(): void {
    this.isPaused = true;
    this.running?.timers.pause();
  }

  /** The process goes on. */
  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.running?.timers.resume();
  }

  /** The worker is followed again. */
  addWorker(): void {
    const { running } = this;
    if (running === undefined || running.gateway.hasWorker(WORKER)) return;
    this.epoch = 0n;
    running.gateway.addWorker({ name: WORKER, url: "http://simulated", dpRanks: [0] });
  }

  /** The worker is forgotten. */
  removeWorker(): void {
    this.running?.gateway.removeWorker(WORKER);
  }

  /** The same bridge has another address. */
  moveWorker(): void {
    const { running } = this;
    if (running?.gateway.hasWorker(WORKER) !== true) return;
    this.moves++;
    const url = `http://simulated-${this.moves}`;
    running.gateway.updateWorker({ name: WORKER, url, dpRanks: [0] });
  }

  /** The answer for a prompt; undefined = nobody can be asked. */
  ask(tokens: Uint32Array): RankAnswer | undefined {
    if (this.isPaused) return undefined;
    return this.running?.gateway.score({ tokens })[0];
  }

  /** The cursor of the view. */
  claim(): GatewayClaim | undefined {
    const status = this.running?.gateway.workers()[0];
    if (status === undefined) return undefined;
    return { epoch: this.epoch, sequence: status.sequenceNumber };
  }

  /** True unless the process has a view with another cursor, takes a snapshot, or has only just heard again. */
  isAt(cursor: GatewayClaim | undefined): boolean {
    const rank = this.running?.gateway.workers()[0];
    if (rank?.subscriptionState === "snapshot") return false;
    const isUnderWay = (["silent", "catching_up"] as const).some((why) =>
      rank?.reasons.includes(why),
    );
    if (rank?.subscriptionState === "live" && isUnderWay) return false;
    const claim = this.claim();
    if (claim === undefined || cursor === undefined) return true;
    return claim.epoch === cursor.epoch && claim.sequence === cursor.sequence;
  }

  /** True when the bridge broke the contract of the stream, as the gateway sees it. */
  get sawBrokenContract(): boolean {
    return this.running?.gateway.workers()[0]?.lastError === "bridge_protocol";
  }

  /** Adds what the running process counts to the coverage; again only after `start`. */
  count(): void {
    const status = this.running?.gateway.workers()[0];
    this.options.coverage.add("unplaced_found", status?.unplacedFound ?? 0);
  }

  /** Recomputes the invariants. */
  audit(): void {
    this.running?.gateway.audit();
  }

  private source(timers: HostTimers): BridgeSource {
    let last: SimStream | undefined;
    return {
      open: (_dpRank, handlers, resume) => {
        const stream = this.open(timers, handlers, resume);
        last = stream;
        return () => stream.close();
      },
      close: () => last?.close(),
    };
  }

  private open(
    timers: HostTimers,
    handlers: StreamHandlers,
    resume: ResumePoint | undefined,
  ): SimStream {
    const { world, dice, plan, bridge, plant, note, name, onTaken } = this.options;
    const earlierStreams = this.streams++;
    const take = (message: SubscribeResponse): void => {
      const { case: kind } = message.message;
      if (message.message.case === "start") this.started(message, earlierStreams);
      countUnplaced(message, this.options.coverage);
      note(`${name}: takes ${kind}`);
      handlers.onMessage(message);
      onTaken(this);
    };
    const stream = new SimStream({
      world,
      dice,
      bridge,
      latencyMs: plan.latencyMs,
      window: plan.streamWindow,
      handlers,
      resume,
      atGateway: (action) => timers.run(action),
      onMessage: plant?.stream?.({ earlierStreams, resume }, take) ?? take,
    });
    this.current = stream;
    return stream;
  }

  private started(message: SubscribeResponse, earlierStreams: number): void {
    if (message.message.case !== "start") return;
    const { cursor, isResumed } = message.message.value;
    this.epoch = cursor?.epoch ?? 0n;
    const { coverage } = this.options;
    if (isResumed) coverage.add("resumes");
    if (earlierStreams > 0) coverage.add("starts_repeated");
  }
}

/** Messages that name unplaced blocks. */
function countUnplaced({ message }: SubscribeResponse, coverage: Coverage): void {
  if (message.case === "snapshotChunk")
    coverage.add("unplaced_told", message.value.unplaced.length);
  if (message.case !== "batch") return;
  const { unplacedStored = [], unplacedRemoved = [] } = message.value.batch ?? {};
  coverage.add("unplaced_told", unplacedStored.length);
  coverage.add("unplaced_taken_back", unplacedRemoved.length);
}
