// What it is: one worker as in production on this machine: a ZeroMQ publisher here, a bridge process and a gateway process, and
// a client that asks the gateway.
// Owns: the processes; `close` ends them.
// Refuses: a gateway that never follows.
// Does not do: measure.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { runnerImport } from "vite";
import { ScoreService } from "../gen/es/kvgroup/v1/score_pb.js";
import { KEY_SEED } from "./workloads/fleet.mjs";
import { frames } from "./workloads/payloads.mjs";

// Resolved as the bridge would: the dependency is declared there.
const requireAsBridge = createRequire(join(import.meta.dirname, "../src/bridge/package.json"));
const { XPublisher } = requireAsBridge("zeromq");
const ENGINE = {
  roster_complete: true,
  groups: [{ group_id: 0, kind: "full_attention", block_size: 16 }],
  hash_block_size: 16,
  scheduler_block_size: 16,
};
const PATIENCE_MS = 30_000;

const load = async (name) => {
  const file = join(import.meta.dirname, "../test/support/chaos", name);
  return (await runnerImport(file)).module;
};

/** See the header. */
export class Loopback {
  static async open() {
    const [{ ServiceProcess }, { freePorts }] = [
      await load("service-process.ts"),
      await load("free-ports.ts"),
    ];
    const [publish, bridge, gateway] = [await freePorts(), await freePorts(), await freePorts()];
    const loopback = new Loopback(gateway);
    try {
      await loopback.publisher.bind(`tcp://127.0.0.1:${publish}`);
      loopback.services.push(
        await ServiceProcess.start("bridge", {
          "engine-endpoint": `tcp://127.0.0.1:${publish}`,
          "engine-description": JSON.stringify(ENGINE),
          "keys-seed": KEY_SEED,
          "listen-port": bridge,
          "health-port": 0,
        }),
        await ServiceProcess.start("gateway", {
          workers: JSON.stringify([{ name: "engine", url: `http://127.0.0.1:${bridge}` }]),
          "keys-seed": KEY_SEED,
          "listen-port": gateway,
          "health-port": 0,
        }),
      );
      // The bridge's subscription.
      await loopback.publisher.receive();
      return loopback;
    } catch (error) {
      await loopback.close();
      throw error;
    }
  }

  constructor(port) {
    const baseUrl = `http://127.0.0.1:${port}`;
    this.services = [];
    this.publisher = new XPublisher({ linger: 0, sendHighWaterMark: 100_000 });
    this.sessions = new Http2SessionManager(baseUrl);
    const transport = createGrpcTransport({ baseUrl, sessionManager: this.sessions });
    this.client = createClient(ScoreService, transport);
    this.sequence = 0;
  }

  /** Publishes one payload. */
  publish(body) {
    const multipart = frames(this.sequence++, body).map((frame) => Buffer.from(frame));
    return this.publisher.send(multipart);
  }

  /** The worker's answer in tokens. */
  async ask(tokens) {
    const { scores } = await this.client.score({ tokenIds: Array.from(tokens) });
    return scores[0]?.reusableTokens ?? 0;
  }

  /** Asks again and again until the answer is `wanted`; gives how long that took in µs. */
  async until(tokens, wanted, begin = performance.now()) {
    for (;;) {
      if ((await this.ask(tokens)) === wanted) return (performance.now() - begin) * 1_000;
      if (performance.now() - begin > PATIENCE_MS) throw new Error("it never became visible");
    }
  }

  /** Ends everything. */
  async close() {
    for (const service of this.services.reverse()) await service.end();
    this.sessions.abort();
    this.publisher.close();
  }
}
