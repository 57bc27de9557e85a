// Goal: a network that swallows between bridge and gateways is noticed, said, and survived.
// Method: real processes with a TCP proxy between them that keeps connections open and lets nothing pass.
import { afterEach, expect, test } from "vitest";
import { Judge } from "../support/chaos/judge.ts";
import { Recording } from "../support/chaos/recording.ts";
import { Scene } from "../support/chaos/scene.ts";
import "../support/chaos/test-limit.ts";

const recording = await Recording.open("gemma");
let scene: Scene | undefined;
afterEach(async () => {
  await scene?.close();
  scene = undefined;
});

test("a partition", async () => {
  scene = await Scene.open({ recording, gateways: 2, proxies: ["stream"] });
  await scene.play(300);
  const judge = new Judge(scene, 300);
  await judge.right();
  scene.proxy("stream").stall();
  await judge.says(["stale"]);
  const watch = judge.watch(judge.highest(300, 340));
  await scene.play(340);
  scene.proxy("stream").resume();
  await judge.right();
  expect(await watch.stop()).toEqual([]);
});

test("a connection that leads nowhere is given up and made anew", async () => {
  scene = await Scene.open({ recording, proxies: ["stream"] });
  await scene.play(300);
  const judge = new Judge(scene, 300);
  await judge.right();
  scene.proxy("stream").swallow();
  await judge.says(["stale"]);
  const watch = judge.watch(judge.highest(300, 340));
  await scene.play(340);
  await judge.right();
  expect(await watch.stop()).toEqual([]);
});

test("connections are reset again and again while the engine publishes", async () => {
  scene = await Scene.open({ recording, gateways: 2, proxies: ["stream"] });
  await scene.play(300);
  const judge = new Judge(scene, 300);
  await judge.right();
  const watch = judge.watch(judge.highest(300, 340));
  for (const until of [310, 320, 330, 340]) {
    scene.proxy("stream").cut();
    await scene.play(until);
  }
  await judge.right();
  expect(await watch.stop()).toEqual([]);
});
