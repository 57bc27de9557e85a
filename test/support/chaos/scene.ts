/**
 * What it is: one worker as in production: an engine process a rank, a bridge process, gateway processes, with a
 * proxy on each way where a test wants to harm it.
 * Owns: every process and port of the scene; `close` ends them all.
 * Refuses: nothing.
 * Does not do: heal anything: what a test killed only that test starts again.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { BridgeService, type RankDescription } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { EngineProcess, type EngineSetup, type EngineState } from "./engine-process.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-ports.ts";
import { readMetrics } from "./metrics-text.ts";
import type { Recording } from "./recording.ts";
import { ScoreProbe } from "./score-probe.ts";
import { type Flags, type ServiceOptions, ServiceProcess } from "./service-process.ts";
import { TcpProxy } from "./tcp-proxy.ts";

/** What a scene is made of. */
export interface SceneOptions {
  readonly recording: Recording;
  readonly gateways?: number;
  /** Default: one rank, number 0. */
  readonly dpRanks?: readonly number[];
  readonly replayMode?: EngineSetup["replayMode"];
  readonly bufferSteps?: number;
  /** Where a proxy stands; it is the test's to harm. */
  readonly proxies?: readonly ProxyPlace[];
  readonly bridgeFlags?: Flags;
  /** The bridge keeps checkpoints, so often at most; default: none. */
  readonly checkpointIntervalMs?: number;
}

/** Between the engine's publisher and the bridge, its replay socket and the bridge, the bridge and gateways. */
export type ProxyPlace = "publish" | "replay" | "stream";

/** Short times, so that a test need not wait long for what a minute of production brings as well. */
const HEARTBEAT_MS = 200;
const STALE_AFTER_MS = 1_000;
const SEED = "a seed for tests";
const BUFFER_STEPS = 10_000;

/** One gateway and who asks it. */
export interface Follower {
  readonly probe: ScoreProbe;
  readonly port: number;
  process: ServiceProcess;
}

/** First ports of each kind; rank n of the list has the n-th after it. */
export interface Ports {
  readonly publish: number;
  readonly replay: number;
  readonly bridge: number;
  readonly health: number;
}

/** A running scene. */
export class Scene {
  readonly recording: Recording;
  readonly dpRanks: readonly number[];
  readonly followers: Follower[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), "kvgroup-chaos-"));
  readonly proxies = new Map<ProxyPlace, TcpProxy>();
  private readonly options: SceneOptions;
  readonly ports: Ports;
  private readonly engines = new Map<number, EngineProcess>();
  private readonly states = new Map<number, EngineState>();
  private readonly all: (() => unknown)[] = [];
  private bridgeProcess: ServiceProcess | undefined;
  private generation = 0;

  private constructor(options: SceneOptions, ports: Ports) {
    this.options = options;
    this.recording = options.recording;
    this.dpRanks = options.dpRanks ?? [0];
    this.ports = ports;
  }

  /** Resolves when everything runs, the bridge hears every engine and every gateway follows live. */
  static async open(options: SceneOptions): Promise<Scene> {
    const ranks = options.dpRanks?.length ?? 1;
    const scene = new Scene(options, {
      publish: await freePorts(ranks),
      replay: await freePorts(ranks),
      bridge: await freePorts(),
      health: await freePorts(),
    });
    mkdirSync(scene.checkpointDirectory);
    try {
      await scene.openProxies();
      for (const dpRank of scene.dpRanks) await scene.startEngine(dpRank);
      await scene.startBridge();
      for (let i = 0; i < (options.gateways ?? 1); i++) await scene.startGateway(i);
      await scene.isHeard();
      await scene.isFollowed();
    } catch (error) {
      await scene.close();
      throw error;
    }
    return scene;
  }

  /** An engine process that begins with number 0, on the same ports as the one before. */
  async startEngine(dpRank = 0, more: Partial<EngineSetup> = {}): Promise<EngineProcess> {
    this.generation += 1;
    const index = this.dpRanks.indexOf(dpRank);
    const engine = await EngineProcess.start({
      trace: this.recording.file,
      publishPort: this.ports.publish + index,
      replayPort: this.ports.replay + index,
      generation: this.generation,
      dpRank,
      replayMode: this.options.replayMode ?? "served",
      bufferSteps: this.options.bufferSteps ?? BUFFER_STEPS,
      ...more,
    });
    this.all.push(() => engine.kill());
    this.engines.set(dpRank, engine);
    this.states.set(dpRank, await engine.state());
    return engine;
  }

  /** A bridge process, on the same ports as the one before. */
  async startBridge(more: Flags = {}, how: ServiceOptions = {}): Promise<ServiceProcess> {
    const { ports, recording } = this;
    const publish = this.proxies.get("publish")?.port ?? ports.publish;
    const replay = this.proxies.get("replay")?.port ?? ports.replay;
    const bridge = await ServiceProcess.start(
      "bridge",
      {
        "engine-endpoint": `tcp://127.0.0.1:${publish}`,
        "engine-replay-endpoint": `tcp://127.0.0.1:${replay}`,
        "engine-topic": recording.engine.topic ?? "",
        "engine-dp-ranks": this.dpRanks.join(","),
        "engine-port-offset": "index",
        "engine-description": recording.description,
        "keys-seed": SEED,
        "heartbeat-interval-ms": HEARTBEAT_MS,
        "listen-port": ports.bridge,
        "health-port": ports.health,
        ...this.checkpointFlags(),
        ...this.options.bridgeFlags,
        ...more,
      },
      how,
    );
    this.all.push(() => bridge.end());
    this.bridgeProcess = bridge;
    return bridge;
  }

  /** A gateway process, on the same port as the one before it in this place. */
  async startGateway(place = 0): Promise<Follower> {
    const before = this.followers[place];
    const port = before?.port ?? (await freePorts());
    const bridge = this.proxies.get("stream")?.port ?? this.ports.bridge;
    const workers = [{ name: "engine", url: `http://127.0.0.1:${bridge}`, dp_ranks: this.dpRanks }];
    const process = await ServiceProcess.start("gateway", {
      workers: JSON.stringify(workers),
      "keys-seed": SEED,
      "stale-after-ms": STALE_AFTER_MS,
      "listen-port": port,
      "health-port": 0,
    });
    this.all.push(() => process.end());
    if (before !== undefined) {
      before.process = process;
      return before;
    }
    const follower = { probe: new ScoreProbe(port), port, process };
    this.all.push(() => follower.probe.close());
    this.followers.push(follower);
    return follower;
  }

  /** Where the bridge keeps checkpoints, if it does. */
  get checkpointDirectory(): string {
    return join(this.folder, "checkpoints");
  }

  /** The running engine of a rank. */
  engine(dpRank = 0): EngineProcess {
    const engine = this.engines.get(dpRank);
    if (engine === undefined) throw new Error(`no engine of rank ${dpRank}`);
    return engine;
  }

  /** The bridge that was started last. */
  get bridge(): ServiceProcess {
    if (this.bridgeProcess === undefined) throw new Error("no bridge");
    return this.bridgeProcess;
  }

  /** The proxy at a place where the options asked for one. */
  proxy(place: ProxyPlace): TcpProxy {
    const proxy = this.proxies.get(place);
    if (proxy === undefined) throw new Error(`no proxy at ${place}`);
    return proxy;
  }

  /** The engine publishes up to and without batch `until` of the recording. */
  async play(until: number, dpRank = 0): Promise<void> {
    this.states.set(dpRank, await this.engine(dpRank).play(until));
  }

  /** The engine empties its cache and begins the recording anew; its numbers go on. */
  async clear(dpRank = 0): Promise<void> {
    this.states.set(dpRank, await this.engine(dpRank).clear());
  }

  /** The engine publishes much that leaves its cache as it was. */
  async flood(pairs: number, dpRank = 0): Promise<void> {
    this.states.set(dpRank, await this.engine(dpRank).flood(pairs));
  }

  /** Where a rank's engine stood after its last order. */
  state(dpRank = 0): EngineState {
    const state = this.states.get(dpRank);
    if (state === undefined) throw new Error(`no engine of rank ${dpRank}`);
    return state;
  }

  /** Resolves when every engine has its subscriber. */
  async isHeard(): Promise<void> {
    for (const dpRank of this.dpRanks) {
      await eventually(`the bridge hears rank ${dpRank}`, async () => {
        const { subscribers } = await this.engine(dpRank).state();
        return subscribers > 0 ? undefined : "no subscriber";
      });
    }
  }

  /** Resolves when every gateway follows every rank live. */
  async isFollowed(followers: readonly Follower[] = this.followers): Promise<void> {
    for (const { probe } of followers) {
      for (const dpRank of this.dpRanks) {
        await eventually(`a gateway follows rank ${dpRank}`, async () => {
          const rank = await probe.rank(dpRank);
          return rank?.subscriptionState === "live" ? undefined : rank?.subscriptionState;
        });
      }
    }
  }

  /** What the bridge says of a rank. */
  async describe(dpRank = 0): Promise<RankDescription> {
    const baseUrl = `http://127.0.0.1:${this.ports.bridge}`;
    const sessionManager = new Http2SessionManager(baseUrl);
    const client = createClient(BridgeService, createGrpcTransport({ baseUrl, sessionManager }));
    const { ranks } = await client.describe({});
    sessionManager.abort();
    const rank = ranks.find((candidate) => candidate.dpRank === dpRank);
    if (rank === undefined) throw new Error(`the bridge has no rank ${dpRank}`);
    return rank;
  }

  /** A number of the bridge's metrics, summed over the series whose labels contain `label`. */
  metric(name: string, label = ""): Promise<number> {
    return readMetrics(this.ports.health, name, label);
  }

  /** Ends everything and removes the folder. */
  async close(): Promise<void> {
    for (const end of this.all.reverse()) await end();
    for (const proxy of this.proxies.values()) await proxy.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private checkpointFlags(): Flags {
    const { checkpointIntervalMs } = this.options;
    if (checkpointIntervalMs === undefined) return {};
    return {
      "checkpoint-directory": this.checkpointDirectory,
      "checkpoint-interval-ms": checkpointIntervalMs,
    };
  }

  private async openProxies(): Promise<void> {
    const { publish, replay, bridge } = this.ports;
    const targets = { publish, replay, stream: bridge };
    for (const place of this.options.proxies ?? []) {
      this.proxies.set(place, await TcpProxy.open(targets[place]));
    }
  }
}
