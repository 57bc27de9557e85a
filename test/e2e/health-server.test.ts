/**
 * What it is: claims about the probes and the scrape, over real HTTP.
 * Owns: the server of each test, closed after it.
 * Refuses: nothing.
 * Does not do: what a bridge reports (test/e2e/bridge-process.test.ts does).
 */
import { afterEach, expect, test } from "vitest";
import { startHealthServer } from "../../src/bridge/dist/health-server.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test("probes: alive always, ready until draining, metrics, and nothing else", async () => {
  let isReady = true;
  const health = await startHealthServer({
    host: "127.0.0.1",
    port: 0,
    isReady: () => isReady,
    metrics: async () => ({ contentType: "text/plain; version=0.0.4", body: "up 1\n" }),
  });
  closers.push(() => health.close());
  const get = async (path: string, method = "GET"): Promise<[number, string]> => {
    const response = await fetch(`http://127.0.0.1:${health.address.port}${path}`, { method });
    return [response.status, await response.text()];
  };
  expect(await get("/healthz")).toEqual([200, "ok\n"]);
  expect(await get("/readyz?verbose")).toEqual([200, "ready\n"]);
  isReady = false;
  expect(await get("/readyz")).toEqual([503, "draining\n"]);
  expect(await get("/healthz")).toEqual([200, "ok\n"]);
  expect(await get("/metrics")).toEqual([200, "up 1\n"]);
  expect((await get("/other"))[0]).toBe(404);
  expect((await get("/metrics", "POST"))[0]).toBe(405);
});

test("a scrape that fails is a 500, and the server lives on", async () => {
  const health = await startHealthServer({
    host: "127.0.0.1",
    port: 0,
    isReady: () => true,
    metrics: async () => {
      throw new TypeError("ours");
    },
  });
  closers.push(() => health.close());
  const url = `http://127.0.0.1:${health.address.port}`;
  expect((await fetch(`${url}/metrics`)).status).toBe(500);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});
