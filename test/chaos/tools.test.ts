// Goal: the tools of this lane see what they are there to see.
// Method: each is held against a case that it must find.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { eventually } from "../support/chaos/eventually.ts";
import { freePorts } from "../support/chaos/free-ports.ts";
import { Judge } from "../support/chaos/judge.ts";
import { Recording } from "../support/chaos/recording.ts";
import { Scene } from "../support/chaos/scene.ts";
import { TcpProxy } from "../support/chaos/tcp-proxy.ts";
import "../support/chaos/test-limit.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test("the judge finds an answer that is too high, one that is too low, and a view that is a part", async () => {
  const recording = await Recording.open("gemma");
  const scene = await Scene.open({ recording, replayMode: "off" });
  closers.push(() => scene.close());
  await scene.play(300);
  const judge = new Judge(scene, 300);
  await judge.right();
  const wanted = judge.answers(300);
  expect(Math.max(...wanted)).toBeGreaterThan(0);
  const tooLow = judge.watch(wanted.map((tokens) => tokens - 1));
  await eventually("it looked", () => (tooLow.looks > wanted.length ? undefined : "not yet"));
  expect((await tooLow.stop()).length).toBeGreaterThanOrEqual(wanted.length);
  expect([...tooLow.notices]).toEqual([]);

  await scene.engine().drop(1);
  await scene.play(320);
  await judge.says(["lower_bound"]);
  const part = judge.watch(judge.answers(320));
  await eventually("it looked", () => (part.looks > wanted.length ? undefined : "not yet"));
  expect(await part.stop()).toEqual([]);
  expect([...part.notices].join()).toContain("incomplete");
});

async function echoThroughProxy() {
  const port = await freePorts();
  const server = createServer((socket) => socket.on("error", () => {}).pipe(socket));
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => server.close());
  const proxy = await TcpProxy.open(port);
  closers.push(() => proxy.close());
  const open = (): { socket: Socket; text: () => string } => {
    const socket = connect(proxy.port, "127.0.0.1").on("error", () => {});
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes.toString();
    });
    closers.push(() => socket.destroy());
    return { socket, text: () => text };
  };
  const echoes = async ({ socket, text }: ReturnType<typeof open>, word: string): Promise<void> => {
    socket.write(word);
    await eventually(word, () => (text().endsWith(word) ? undefined : `"${text()}"`));
  };
  return { proxy, open, echoes };
}

test("the proxy holds back and lets go in order, for old and new connections", async () => {
  const { proxy, open, echoes } = await echoThroughProxy();
  const old = open();
  await echoes(old, "one");
  proxy.stall();
  old.socket.write("two");
  const young = open();
  young.socket.write("three");
  await eventually("both are there", () => (proxy.connections === 2 ? undefined : "not yet"));
  expect([old.text(), young.text()]).toEqual(["one", ""]);
  proxy.resume();
  await echoes(old, "four");
  await echoes(young, "five");
  expect([old.text(), young.text()]).toEqual(["onetwofour", "threefive"]);
});

test("what the proxy swallows is gone, new connections are not", async () => {
  const { proxy, open, echoes } = await echoThroughProxy();
  const old = open();
  await echoes(old, "one");
  proxy.swallow();
  old.socket.write("two");
  await echoes(open(), "three");
  expect(old.text()).toBe("one");
  expect(old.socket.closed).toBe(false);
});

test("the proxy resets connections", async () => {
  const { proxy, open, echoes } = await echoThroughProxy();
  const old = open();
  await echoes(old, "one");
  proxy.cut();
  await eventually("closed", () => (old.socket.closed ? undefined : "open"));
  await echoes(open(), "two");
});
