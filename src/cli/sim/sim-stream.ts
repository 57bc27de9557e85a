/**
 * What it is: one stream between a bridge and a gateway over a network that delays, cuts and swallows.
 * Owns: the messages under way, at most the window's number; the subscriber at the bridge's end.
 * Refuses: nothing.
 * Does not do: decide when a fault happens, or judge messages.
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Subscriber, toResponse } from "@kv-group-bridge/bridge";
import type { StreamHandlers } from "@kv-group-bridge/gateway";
import {
  type SubscribeResponse,
  SubscribeResponseSchema,
} from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import type { ResumePoint } from "@kv-group-bridge/protocol";
import type { Clock, Timers } from "@kv-group-bridge/runtime";
import type { BridgeHost, ServedStream } from "./bridge-host.ts";
import type { SeededRandomness } from "./seeded-randomness.ts";

/** What a stream needs. */
export interface SimStreamOptions {
  readonly world: Timers & Clock;
  readonly dice: SeededRandomness;
  readonly bridge: BridgeHost;
  readonly latencyMs: number;
  readonly window: number;
  readonly handlers: StreamHandlers;
  readonly resume: ResumePoint | undefined;
  /** Does something inside the gateway's process. */
  readonly atGateway: (action: () => void) => void;
  /** Takes a message inside the gateway's process. */
  readonly onMessage: (message: SubscribeResponse) => void;
}

/** HTTP/2 pings notice a half-open connection after so long. */
const KEEPALIVE_NOTICE_MS = 15_000;

/** See the file header. */
export class SimStream implements ServedStream {
  private readonly options: SimStreamOptions;
  private subscriber: Subscriber | undefined = undefined;
  private isClosed = false;
  private isHalfOpen = false;
  private isReading = true;
  private unread: (() => void)[] = [];
  private underWay = 0;
  private atMs = 0;

  constructor(options: SimStreamOptions) {
    this.options = options;
    const { bridge } = options;
    this.later(() => {
      if (this.isClosed || this.isHalfOpen) return;
      if (bridge.isAlive) bridge.run(() => this.accepted());
      else this.toGateway(() => this.end("bridge_unreachable"));
    });
  }

  /** False when the gateway has closed it, or it has ended. */
  get isOpen(): boolean {
    return !this.isClosed;
  }

  /** The gateway closes the stream; the bridge hears of it later. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.unread = [];
    const { world, bridge, latencyMs } = this.options;
    const delayMs = this.isHalfOpen ? KEEPALIVE_NOTICE_MS : latencyMs;
    world.after(delayMs, () => bridge.run(() => this.leave()));
  }

  /** The connection breaks and both ends notice. */
  cut(): void {
    if (this.isClosed || this.isHalfOpen) return;
    const { bridge } = this.options;
    this.isHalfOpen = true;
    bridge.run(() => this.leave());
    this.options.atGateway(() => this.end("bridge_unreachable"));
  }

  /** The connection breaks and nobody is told. */
  halfOpen(): void {
    if (this.isClosed || this.isHalfOpen) return;
    this.isHalfOpen = true;
    const { world, dice, bridge, atGateway } = this.options;
    world.after(dice.between(KEEPALIVE_NOTICE_MS, 4 * KEEPALIVE_NOTICE_MS), () =>
      bridge.run(() => this.leave()),
    );
    // A proxy between may answer the pings itself: then only the silence tells.
    if (dice.chance(0.5)) return;
    world.after(KEEPALIVE_NOTICE_MS, () => atGateway(() => this.end("bridge_unreachable")));
  }

  /** The gateway stops to read, or goes on. */
  setReading(isReading: boolean): void {
    this.isReading = isReading;
    if (!isReading) return;
    const { unread } = this;
    this.unread = [];
    for (const action of unread) action();
  }

  pump(): void {
    const { subscriber } = this;
    while (subscriber !== undefined && this.underWay < this.options.window) {
      const item = subscriber.next();
      if (item === undefined) return;
      const bytes = toBinary(SubscribeResponseSchema, toResponse(item, false));
      this.underWay++;
      this.toGateway(() => {
        this.underWay--;
        this.options.onMessage(fromBinary(SubscribeResponseSchema, bytes));
        if (!this.isClosed) this.options.bridge.run(() => this.pump());
      });
    }
  }

  bridgeDied(): void {
    this.subscriber = undefined;
    if (this.isClosed || this.isHalfOpen) return;
    this.toGateway(() => this.end("bridge_unreachable"));
  }

  private accepted(): void {
    if (this.isClosed || this.isHalfOpen) return;
    this.subscriber = this.options.bridge.subscribe(this, this.options.resume);
    if (this.subscriber === undefined) {
      this.toGateway(() => this.end("resource_exhausted"));
      return;
    }
    this.toGateway(() => this.options.handlers.onOpened());
    this.pump();
  }

  private leave(): void {
    this.subscriber?.close();
    this.subscriber = undefined;
    this.options.bridge.leave(this);
  }

  private end(error: "bridge_unreachable" | "resource_exhausted"): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.options.handlers.onEnded(error);
  }

  /** In order, with the network's delay. */
  private toGateway(action: () => void): void {
    this.later(() => {
      if (this.isClosed || this.isHalfOpen) return;
      this.options.atGateway(() => {
        const act = (): void => {
          if (!this.isClosed) action();
        };
        if (this.isReading) act();
        else this.unread.push(act);
      });
    });
  }

  private later(action: () => void): void {
    const { world, dice, latencyMs } = this.options;
    const nowMs = world.monotonicMs();
    this.atMs = Math.max(this.atMs, nowMs + dice.between(0, latencyMs));
    world.after(this.atMs - nowMs, action);
  }
}
