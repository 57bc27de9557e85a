// Goal: a malformed Host or :authority ends its own request only, and a listener on [::1] serves our own client.
// Method: a real gateway process's listener and a real bridge server, raw requests.
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:http2";
import { create } from "@bufbuild/protobuf";
import { KeySchemeSchema } from "@kv-group-bridge/gen/kvgroup/v1/bridge_pb";
import { afterEach, describe, expect, test } from "vitest";
import { BridgeServer } from "../../src/bridge/dist/bridge-server.js";
import { type FanOut, UNSTATED_ENGINE } from "../../src/bridge/dist/index.js";
import { InProcessPath } from "../../src/cli/dist/in-process-path.js";
import { createGateway, runGateway } from "../../src/gateway/dist/index.js";
import { KEY_SCHEME_ID, KeyedHasher, parseDpRank } from "../../src/protocol/dist/index.js";
import {
  createMetrics,
  silentLog,
  systemClock,
  systemRandomness,
  systemTimers,
} from "../../src/runtime/dist/index.js";
import { until } from "../support/until.ts";

const SEED = "sixteen characters";
const ODD = ["[", "a b", "::1:5", "x:99999999", ""];
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const deps = {
  clock: systemClock,
  timers: systemTimers,
  randomness: systemRandomness,
  log: silentLog,
};

async function bridgeOn(host: string): Promise<number> {
  const dpRank = parseDpRank(0);
  if (dpRank === undefined) throw new RangeError("no rank");
  const path = new InProcessPath({ dpRank, engine: UNSTATED_ENGINE, seed: SEED });
  const fanOut: FanOut = path.fanOut;
  const keyScheme = create(KeySchemeSchema, {
    id: KEY_SCHEME_ID,
    checkValue: new KeyedHasher(SEED).checkValue(),
  });
  const server = new BridgeServer({
    host,
    port: 0,
    tls: undefined,
    timers: systemTimers,
    service: {
      ranks: new Map([[0, { fanOut, describe: () => path.pipeline.describe(0) }]]),
      keyScheme,
      isEngineProjectionAllowed: false,
      bridgeVersion: "0",
    },
  });
  const address = await server.start();
  closers.push(() => server.close());
  return address.port;
}

describe("odd authorities", () => {
  test.each(ODD)("a gateway over HTTP/1.1 lives on after Host: %j", async (host) => {
    const gateway = await runGateway(
      { keySeed: SEED, workers: [], listen: { host: "127.0.0.1", port: 0 } },
      { ...deps, metrics: createMetrics() },
    );
    closers.push(() => gateway.close());
    const ask = async (value: string): Promise<number | undefined> => {
      const request = httpRequest({
        port: gateway.address.port,
        host: "127.0.0.1",
        method: "POST",
        path: "/kvgroup.v1.ScoreService/ListWorkers",
        headers: { host: value, "content-type": "application/json" },
      });
      request.end("{}");
      const [response] = await once(request, "response");
      response.resume();
      return response.statusCode;
    };
    await ask(host);
    expect(await ask("localhost")).toBe(200);
  });

  test.each(["[", "::1:5", "x:99999999"])(
    "a bridge over HTTP/2 lives on after :authority %j",
    async (authority) => {
      const port = await bridgeOn("127.0.0.1");
      const session = connect(`http://127.0.0.1:${port}`);
      closers.push(() => session.destroy());
      for (const value of [authority, "localhost"]) {
        const stream = session.request({
          ":method": "POST",
          ":path": "/kvgroup.v1.BridgeService/Describe",
          ":authority": value,
          "content-type": "application/json",
        });
        stream.end("{}");
        const [headers] = await once(stream, "response");
        stream.resume();
        expect(headers[":status"]).toBe(200);
      }
    },
  );

  test("our own gateway follows a bridge on [::1]", async () => {
    const port = await bridgeOn("::1");
    const gateway = createGateway({ seed: SEED });
    closers.push(() => gateway.close());
    gateway.addWorker({ name: "v6", url: `http://[::1]:${port}` });
    await until(() => gateway.workers()[0]?.subscriptionState === "live");
    expect(gateway.workers()[0]?.lastError).toBeUndefined();
  });
});
