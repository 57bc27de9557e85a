/**
 * What it is: claims about reading the engine's API over real HTTP: what is refused and why, and that nothing hangs.
 * Owns: one server a test, closed after it.
 * Refuses: nothing.
 * Does not do: sleep. A time-out is a timer that the test fires.
 */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { gzipSync } from "node:zlib";
import type { Timers } from "@kv-group-bridge/runtime";
import { afterEach, expect, test } from "vitest";
import { EngineHttp, parseHttpOrigin } from "../../src/bridge/dist/engine-http.js";
import { LIMITS } from "../../src/protocol/dist/index.js";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") expect.fail("it has a port");
  return `http://127.0.0.1:${address.port}`;
}

const never: Timers = { after: () => () => {}, every: () => () => {} };

function engine(origin: string, timers: Timers = never, apiKey?: string): EngineHttp {
  return new EngineHttp({ origin, apiKey }, { fetch, timers });
}

/** What a server that answers so is read as. */
async function get(answer: (response: ServerResponse, request: IncomingMessage) => void) {
  return engine(await serve((request, response) => answer(response, request))).getJson("/x");
}

test("the JSON of a path, whatever its content type", async () => {
  const seen: unknown[] = [];
  const answer = await get((response, request) => {
    seen.push(request.method, request.url, request.headers.authorization);
    response.end('{"data":[]}');
  });
  expect(answer).toEqual({ ok: true, value: { data: [] } });
  expect(seen).toEqual(["GET", "/x", undefined]);
});

test("a key is sent as bearer token; a server that wants another one is told apart", async () => {
  const origin = await serve((request, response) => {
    if (request.headers.authorization !== "Bearer right") response.statusCode = 401;
    response.end("{}");
  });
  expect(await engine(origin, never, "right").getJson("/x")).toEqual({ ok: true, value: {} });
  for (const key of ["wrong", undefined]) {
    const answer = await engine(origin, never, key).getJson("/x");
    expect(answer).toEqual({ ok: false, error: { reason: "unauthorized", status: 401 } });
  }
});

test("a redirect is not followed, so a key goes nowhere else", async () => {
  let followed = 0;
  const target = await serve((_, response) => {
    followed += 1;
    response.end("{}");
  });
  const origin = await serve((_, response) => {
    response.writeHead(307, { location: `${target}/x` }).end();
  });
  const answer = await engine(origin, never, "key").getJson("/x");
  expect(answer).toEqual({ ok: false, error: { reason: "redirected", status: 307 } });
  expect(followed).toBe(0);
});

test.each([204, 404, 500, 503])("status %i is refused by its number", async (status) => {
  const answer = await get((response) => response.writeHead(status).end());
  expect(answer).toEqual({ ok: false, error: { reason: "bad_status", status } });
});

test.each(["", "nothing", '{"data":', "\u0000", Buffer.from([0x22, 0xff, 0x22])])(
  "a body that is not JSON in UTF-8 is malformed: %j",
  async (body) => {
    const answer = await get((response) => response.end(body));
    expect(answer).toEqual({ ok: false, error: { reason: "malformed" } });
  },
);

test("a body of the largest size is read, one byte more is not", async () => {
  const most = LIMITS.engineHttpBytes.value;
  const text = (bytes: number): string => `"${"x".repeat(bytes - 2)}"`;
  expect((await get((response) => response.end(text(most)))).ok).toBe(true);
  expect(await get((response) => response.end(text(most + 1)))).toEqual({
    ok: false,
    error: { reason: "too_large" },
  });
});

test("a body without an end is given up at the bound, and so is the connection", async () => {
  let isGone = false;
  const answer = await get((response) => {
    response.on("close", () => {
      isGone = true;
    });
    const more = (): void => {
      while (!isGone && response.write("x".repeat(65_536)));
    };
    response.on("drain", more);
    more();
  });
  expect(answer).toEqual({ ok: false, error: { reason: "too_large" } });
  await until(() => isGone);
});

test("the bound is of the unpacked body", async () => {
  const packed = gzipSync(Buffer.alloc(8 * LIMITS.engineHttpBytes.value, 0x20));
  const answer = await get((response) => {
    response.writeHead(200, { "content-encoding": "gzip" }).end(packed);
  });
  expect(answer).toEqual({ ok: false, error: { reason: "too_large" } });
});

test("nobody there, or a connection that breaks off, is unreachable", async () => {
  const origin = await serve((_, response) => response.end("{}"));
  const server = servers.pop();
  await new Promise<unknown>((resolve) => server?.close(resolve));
  const answer = await engine(origin).getJson("/x");
  expect(answer).toEqual({ ok: false, error: { reason: "unreachable", code: "ECONNREFUSED" } });
  const broken = await get((response) => {
    response.writeHead(200, { "content-length": "100" }).write("{");
    response.socket?.end();
  });
  expect(broken.ok ? undefined : broken.error.reason).toBe("unreachable");
});

test.each([
  ["never begins", () => {}],
  ["never ends", (response: ServerResponse) => void response.write('{"data":[')],
])("an answer that %s is given up in time", async (_name, answer) => {
  let isAsked = false;
  let isGone = false;
  const origin = await serve((_request, response) => {
    isAsked = true;
    response.on("close", () => {
      isGone = true;
    });
    answer(response);
  });
  const clock = new VirtualClock();
  const got = engine(origin, clock).getJson("/x");
  await until(() => isAsked);
  clock.advance(LIMITS.engineHttpTimeoutMs.value);
  expect(await got).toEqual({ ok: false, error: { reason: "timeout" } });
  await until(() => isGone);
  expect(clock.pendingTimers).toBe(0);
});

test("closing ends the request under way, and there is no further one", async () => {
  let asked = 0;
  const origin = await serve(() => {
    asked += 1;
  });
  const clock = new VirtualClock();
  const http = engine(origin, clock);
  const got = http.getJson("/x");
  await until(() => asked === 1);
  http.close();
  const closed = { ok: false, error: { reason: "closed" } };
  expect(await got).toEqual(closed);
  expect(await http.getJson("/x")).toEqual(closed);
  expect([asked, clock.pendingTimers]).toEqual([1, 0]);
});

test.each([
  ["http://127.0.0.1:8000", "http://127.0.0.1:8000"],
  ["http://127.0.0.1:8000/", "http://127.0.0.1:8000"],
  ["https://engine.example", "https://engine.example"],
  ["http://[::1]:8000", "http://[::1]:8000"],
])("%s is an origin", (text, origin) => {
  expect(parseHttpOrigin(text)).toBe(origin);
});

test.each([
  "",
  "127.0.0.1:8000",
  "localhost:8000",
  "ftp://127.0.0.1",
  "http://",
  "http://user@127.0.0.1",
  "http://:pass@127.0.0.1",
  "http://@127.0.0.1",
  "http://127.0.0.1/v1",
  "http://127.0.0.1/?a=b",
  "http://127.0.0.1/#",
  "http://127.0.0.1:99999",
  " http://127.0.0.1",
])("%j is none", (text) => {
  expect(parseHttpOrigin(text)).toBeUndefined();
});
