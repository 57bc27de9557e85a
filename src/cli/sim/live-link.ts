/**
 * What it is: the connection of the bridge's SUB socket to the engine behind a service address, as ZMQ over
 * TCP behaves: in order, but with losses, and with connection events that are told on another way than data.
 * Owns: which engine process the socket is connected to, and what is under way.
 * Refuses: nothing.
 * Does not do: decide when a fault happens (chaos.ts does).
 */
import type { Clock, Timers } from "@kv-group-bridge/runtime";
import type { Coverage } from "./coverage.ts";
import type { EngineProcess, PublishedBatch } from "./engine-process.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** The bridge's side of the socket. */
export interface LiveReceiver {
  onFrames(batch: PublishedBatch): void;
  onConnection(isConnected: boolean): void;
}

/** What the link needs. */
export interface LiveLinkOptions {
  readonly world: Timers & Clock;
  readonly dice: SeededRandomness;
  readonly plan: FaultPlan;
  readonly coverage: Coverage;
}

/** ZMQ heartbeats notice a silent peer after so long. */
const HEARTBEAT_NOTICE_MS = 15_000;
/** libzmq waits so long before it connects again. */
const LEAST_RECONNECT_MS = 100;
const MOST_RECONNECT_MS = 600;
/** What stands in the socket's queue is read within this time. */
const MOST_READ_DELAY_MS = 5;

interface Connection {
  readonly process: EngineProcess;
  /** Frames swallowed by a network that may come back. */
  swallowed: PublishedBatch[];
  /** On their way, or in the socket's queue. */
  underWay: PublishedBatch[];
}

/** See the file header. */
export class LiveLink {
  private readonly options: LiveLinkOptions;
  private receiver: LiveReceiver | undefined = undefined;
  private connection: Connection | undefined = undefined;
  private target: EngineProcess | undefined = undefined;
  private isBlackholed = false;
  private socket = 0;
  private dataAtMs = 0;
  private toldAtMs = 0;
  private dropping = 0;

  constructor(options: LiveLinkOptions) {
    this.options = options;
  }

  /** A new bridge process opens its socket; undefined = it died. */
  attach(receiver: LiveReceiver | undefined): void {
    this.socket++;
    this.receiver = receiver;
    this.connection = undefined;
    this.toldAtMs = 0;
    this.dataAtMs = 0;
    if (receiver !== undefined) this.connectLater();
  }

  /** The address leads to this process from now on; an open connection stays. */
  leadTo(process: EngineProcess | undefined): void {
    this.target = process;
    if (this.connection === undefined) this.connectLater();
  }

  /** The process that the socket is connected to. */
  get connectedTo(): EngineProcess | undefined {
    return this.connection?.process;
  }

  /** True while the bridge has not been told of the latest change of the connection. */
  get isUntold(): boolean {
    return this.toldAtMs > this.options.world.monotonicMs();
  }

  /** When the last change was or will be told. */
  get lastToldMs(): number {
    return this.toldAtMs;
  }

  /** The next `count` frames are lost at the publisher's high-water mark. */
  drop(count: number): void {
    this.dropping = count;
  }

  /** A process publishes; `copies` > 1: the same frames arrive again. */
  publish(process: EngineProcess, batch: PublishedBatch, copies = 1): void {
    const { connection } = this;
    if (connection?.process !== process) return;
    if (this.dropping > 0) {
      this.dropping--;
      return;
    }
    if (this.isBlackholed) {
      connection.swallowed.push(batch);
      return;
    }
    for (let copy = 0; copy < copies; copy++) this.send(connection, batch);
  }

  /** The connection ends and both sides notice; a new one follows. */
  cut(): void {
    this.disconnect(this.tellDelayMs());
  }

  /** The bridge opens its socket anew: what is under way is lost, and both changes are told at once. */
  reopen(): void {
    const { connection } = this;
    if (connection !== undefined) connection.underWay = [];
    this.connection = undefined;
    this.tell(false, 0);
    this.connectLater();
  }

  /** Nothing comes through until `clear`. Short ones are healed by TCP itself. */
  blackhole(): void {
    if (this.isBlackholed) return;
    this.isBlackholed = true;
    const { socket, connection } = this;
    if (connection === undefined) return;
    this.options.world.after(HEARTBEAT_NOTICE_MS, () => {
      if (this.socket !== socket || this.connection !== connection || !this.isBlackholed) return;
      this.disconnect(0);
    });
  }

  /** The network is whole again. */
  clear(): void {
    this.dropping = 0;
    if (!this.isBlackholed) return;
    this.isBlackholed = false;
    const { connection } = this;
    if (connection === undefined) {
      this.connectLater();
      return;
    }
    const { swallowed } = connection;
    connection.swallowed = [];
    for (const batch of swallowed) this.send(connection, batch);
  }

  /** The connected process died. Loudly, or so that only the heartbeat notices. */
  died(process: EngineProcess, isLoud: boolean): void {
    const { connection, socket } = this;
    if (connection?.process !== process) return;
    if (isLoud) {
      this.disconnect(this.tellDelayMs());
      return;
    }
    this.options.world.after(HEARTBEAT_NOTICE_MS, () => {
      if (this.socket === socket && this.connection === connection) this.disconnect(0);
    });
  }

  private send(connection: Connection, batch: PublishedBatch): void {
    const { world, dice, plan } = this.options;
    const { socket } = this;
    const delayMs = dice.between(0, plan.latencyMs);
    this.dataAtMs = Math.max(this.dataAtMs, world.monotonicMs() + delayMs);
    connection.underWay.push(batch);
    world.after(this.dataAtMs - world.monotonicMs(), () => {
      const [next] = connection.underWay.splice(0, 1);
      if (this.socket === socket && next !== undefined) this.receiver?.onFrames(next);
    });
  }

  private disconnect(tellAfterMs: number): void {
    const { connection } = this;
    if (connection === undefined) return;
    this.connection = undefined;
    this.flush(connection);
    this.tell(false, tellAfterMs);
    this.connectLater();
  }

  /** What had arrived before the end is read soon, maybe after the end was told; or all of it is lost. */
  private flush(connection: Connection): void {
    const { world, dice } = this.options;
    const { socket } = this;
    const { underWay } = connection;
    connection.underWay = [];
    if (dice.chance(0.5)) return;
    const delayMs = dice.between(0, MOST_READ_DELAY_MS);
    this.dataAtMs = world.monotonicMs() + delayMs;
    world.after(delayMs, () => {
      for (const batch of underWay) if (this.socket === socket) this.receiver?.onFrames(batch);
    });
  }

  private connectLater(): void {
    const { world, dice } = this.options;
    const { socket } = this;
    world.after(dice.between(LEAST_RECONNECT_MS, MOST_RECONNECT_MS), () => {
      if (this.socket !== socket || this.connection !== undefined) return;
      const { target } = this;
      if (target?.isAlive !== true || this.isBlackholed) return;
      this.connection = {
        process: target,
        swallowed: [],
        underWay: [],
      };
      this.tell(true, this.tellDelayMs());
    });
  }

  private tellDelayMs(): number {
    const { dice, plan, coverage } = this.options;
    if (!dice.chance(plan.lateToldRate)) return dice.chance(0.5) ? 0 : 5;
    coverage.add("connection_told_late");
    return dice.between(50, 8000);
  }

  private tell(isConnected: boolean, delayMs: number): void {
    const { world } = this.options;
    const { socket } = this;
    this.toldAtMs = Math.max(this.toldAtMs, world.monotonicMs() + delayMs);
    world.after(this.toldAtMs - world.monotonicMs(), () => {
      if (this.socket === socket) this.receiver?.onConnection(isConnected);
    });
  }
}
