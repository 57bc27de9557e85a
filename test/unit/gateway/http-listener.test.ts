// Goal: a request that is sent in part and never goes on does not keep its connection. Method: real sockets, a short bound.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { HttpListener } from "../../../src/gateway/dist/http-listener.js";
import { systemTimers } from "../../../src/runtime/dist/index.js";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function client(silenceMs: number): Promise<Socket> {
  const listener = new HttpListener(
    (_request, response) => response.end("answer"),
    undefined,
    systemTimers,
    silenceMs,
  );
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  closers.push(() => listener.close(0));
  const socket = connect(port, "127.0.0.1");
  closers.push(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

test("half of a request's head ends with the connection", async () => {
  const socket = await client(50);
  socket.write("POST /kvgroup.v1.ScoreService/Score HTTP/1.1\r\nhost: a\r\ncontent-");
  await once(socket.resume(), "close");
  expect(socket.bytesRead).toBe(0);
});

test("half of a second one too", async () => {
  const socket = await client(50);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const [answer] = await once(socket, "data");
  expect(String(answer)).toContain("200 OK");
  socket.write("GET / HTTP/1.1\r\nhost");
  await once(socket.resume(), "close");
});
