import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { ScoreService } from "@kv-group-bridge/gen/kvgroup/v1/score_pb";
import { afterEach, expect, test } from "vitest";
import {
  type GatewaySettings,
  type RunningGateway,
  runGateway,
} from "../../../src/gateway/dist/index.js";
import { KvEventsError, LIMITS } from "../../../src/protocol/dist/index.js";
import {
  createMetrics,
  silentLog,
  systemClock,
  systemRandomness,
  systemTimers,
} from "../../../src/runtime/dist/index.js";
import { turns } from "../../support/until.ts";
import { SEED } from "./messages.ts";

const HOST = "127.0.0.1";
const running: RunningGateway[] = [];

afterEach(async () => {
  for (const each of running.splice(0)) await each.close();
});

async function run(more: Partial<GatewaySettings> = {}): Promise<RunningGateway> {
  const gateway = await runGateway(
    {
      keySeed: SEED,
      // Nobody listens there: the service serves all the same.
      workers: [{ name: "w", url: "http://127.0.0.1:9" }],
      listen: { host: HOST, port: 0 },
      health: { host: HOST, port: 0 },
      ...more,
    },
    {
      clock: systemClock,
      timers: systemTimers,
      randomness: systemRandomness,
      log: silentLog,
      metrics: createMetrics(),
    },
  );
  running.push(gateway);
  return gateway;
}

const urlOf = (address: { port: number } | undefined, scheme = "http"): string =>
  `${scheme}://${HOST}:${address?.port ?? 0}`;

const nextData = async (socket: Socket): Promise<string> => {
  const data = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  return data.toString("latin1");
};

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return "";
  } catch (error) {
    if (error instanceof KvEventsError) return error.code;
    if (error instanceof ConnectError) return Code[error.code] ?? "";
    throw error;
  }
};

test("one port answers gRPC over HTTP/2 and Connect over HTTP/1.1", async () => {
  const { address } = await run();
  const baseUrl = urlOf(address);
  for (const transport of [
    createGrpcTransport({ baseUrl }),
    createConnectTransport({ baseUrl, httpVersion: "2" }),
    createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  ]) {
    const { scores } = await createClient(ScoreService, transport).score({ tokenIds: [1, 2, 3] });
    expect(scores.map((score) => score.worker)).toEqual(["w"]);
  }
  const response = await fetch(`${baseUrl}/kvgroup.v1.ScoreService/ListWorkers`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect(await response.json()).toMatchObject({ ranks: [{ worker: "w" }] });
});

test("a first byte that comes alone is waited for", async () => {
  const { address } = await run();
  const socket = connect(address.port, HOST);
  socket.setNoDelay(true);
  const text = "POST /kvgroup.v1.ScoreService/ListWorkers HTTP/1.1\r\nhost: x\r\n";
  socket.write(text.slice(0, 1));
  await turns(200);
  socket.write(`${text.slice(1)}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`);
  const answer = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  expect(answer.toString("latin1")).toContain("200 OK");
  socket.destroy();
});

test("probes tell health, readiness and metrics, and nothing else", async () => {
  const { healthAddress } = await run();
  const get = async (path: string, method = "GET") => {
    const response = await fetch(urlOf(healthAddress) + path, { method });
    return [response.status, await response.text()] as const;
  };
  expect(await get("/healthz")).toEqual([200, "ok\n"]);
  expect(await get("/readyz?verbose")).toEqual([200, "ready\n"]);
  const [status, text] = await get("/metrics");
  expect(status).toBe(200);
  expect(text).toContain("kvgroup_gateway_queries_total 0");
  expect((await get("/"))[0]).toBe(404);
  expect((await get("/healthz", "POST"))[0]).toBe(405);
});

// The runner's limit is the claim: half of the grace that a close would wait for what does not end.
const PROMPTLY_MS = LIMITS.shutdownGraceMs.value / 2;

test("a close waits for no idle connection and no unreachable worker", {
  timeout: PROMPTLY_MS,
}, async () => {
  const gateway = await run();
  const baseUrl = urlOf(gateway.address);
  const client = createClient(ScoreService, createGrpcTransport({ baseUrl }));
  await client.listWorkers({});
  const idle = connect(gateway.address.port, HOST);
  await new Promise((resolve) => idle.once("connect", resolve));
  const closing = gateway.close();
  expect(gateway.close()).toBe(closing);
  await closing;
  expect(gateway.gateway.workers()).toEqual([]);
  expect(await codeOf(client.listWorkers({}))).toBe("Unavailable");
});

test("a close waits for no connection over HTTP/1.1 that is kept alive, but for a request on it", {
  timeout: PROMPTLY_MS,
}, async () => {
  const gateway = await run();
  const request = "POST /kvgroup.v1.ScoreService/ListWorkers HTTP/1.1\r\nhost: x\r\n";
  const fields = "content-type: application/json\r\ncontent-length: 2\r\n\r\n";
  const sockets = [1, 2].map(() => connect(gateway.address.port, HOST));
  const [busy, idle] = sockets;
  for (const socket of sockets) {
    socket.write(`${request}${fields}{}`);
    expect(await nextData(socket)).toContain("200 OK");
  }
  busy?.write(`${request}expect: 100-continue\r\n${fields}`);
  expect(busy && (await nextData(busy))).toContain("100 Continue");
  const ended = sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve)));
  const closing = gateway.close();
  await ended[1];
  expect(idle?.destroyed).toBe(true);
  expect(busy?.destroyed).toBe(false);
  busy?.write("{}");
  expect(busy && (await nextData(busy))).toContain("HTTP/1.1");
  await Promise.all([...ended, closing]);
});

test("what was opened is closed again when a later part fails", async () => {
  const first = await run();
  const { port } = first.address;
  expect(await codeOf(run({ listen: { host: HOST, port } }))).toBe("listen_failed");
  await expect(run({ listen: { host: HOST, port } })).rejects.toThrow("EADDRINUSE");
  expect(await codeOf(run({ health: { host: HOST, port } }))).toBe("listen_failed");
  const twice = { name: "w", url: "http://127.0.0.1:9" };
  expect(await codeOf(run({ workers: [twice, twice] }))).toBe("worker_exists");
  expect(await codeOf(run({ workers: [{ name: "w", url: "nowhere" }] }))).toBe("config_invalid");
});

test("with TLS a client certificate can be asked for; both HTTP versions are served", async () => {
  const folder = mkdtempSync(join(tmpdir(), "kvgroup-"));
  const subject = ["-subj", "/CN=localhost", "-addext", `subjectAltName=IP:${HOST}`];
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")];
  execFileSync("openssl", ["req", "-x509", ...newKey, ...files, "-days", "2", ...subject], {
    stdio: "ignore",
  });
  const key = readFileSync(join(folder, "key.pem"), "utf8");
  const cert = readFileSync(join(folder, "cert.pem"), "utf8");
  const tls = { key, cert, clientCa: cert };
  const { address } = await run({ listen: { host: HOST, port: 0, tls } });
  const baseUrl = urlOf(address, "https");
  const list = (transport: ReturnType<typeof createGrpcTransport>) =>
    codeOf(createClient(ScoreService, transport).listWorkers({}));
  const known = { ca: cert, key, cert };
  expect(await list(createGrpcTransport({ baseUrl, nodeOptions: known }))).toBe("");
  const http1 = createConnectTransport({ baseUrl, httpVersion: "1.1", nodeOptions: known });
  expect(await list(http1)).toBe("");
  expect(await list(createGrpcTransport({ baseUrl, nodeOptions: { ca: cert } }))).not.toBe("");
});

test("key material that cannot be used is named", async () => {
  const tls = { key: "no key", cert: "no certificate" };
  expect(await codeOf(run({ listen: { host: HOST, port: 0, tls } }))).toBe("tls_invalid");
});
