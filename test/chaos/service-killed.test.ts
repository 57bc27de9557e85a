// Goal: a bridge or a gateway that dies says so, and its successor is right again.
// Method: real processes; SIGKILL while the engine goes on.
import { afterEach, describe, expect, test } from "vitest";
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

describe("the bridge is killed", () => {
  test("replay from the engine's first batch makes its successor's view whole", async () => {
    scene = await Scene.open({ recording, gateways: 2 });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    await scene.bridge.end("SIGKILL");
    await judge.says(["stale"]);
    const watch = judge.watch(judge.highest(300, 340));
    await scene.play(340);
    await scene.startBridge();
    await judge.right();
    expect(await watch.stop()).toEqual([]);
    await scene.play(380);
    await new Judge(scene, 380).right();
  });

  test("without replay its successor knows a part, says so, and is right after a clear", async () => {
    scene = await Scene.open({ recording, replayMode: "off" });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    await scene.bridge.end("SIGKILL");
    await judge.says(["stale"]);
    const watch = judge.watch(judge.highest(300, 310));
    await scene.startBridge();
    await scene.isHeard();
    await scene.play(310);
    await judge.says(["lower_bound", "unknown"]);
    watch.bound = judge.highest(0, 310);
    await scene.clear();
    await scene.play(60);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
  });

  test("an engine that has forgotten its first batches gives a part, which is said", async () => {
    scene = await Scene.open({ recording, bufferSteps: 50 });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    await scene.bridge.end("SIGKILL");
    await judge.says(["stale"]);
    const watch = judge.watch(judge.answers(300));
    await scene.startBridge();
    await judge.says(["lower_bound"]);
    watch.bound = judge.highest(0, 300);
    await scene.clear();
    await scene.play(60);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
  });
});

test("a gateway that is killed starts anew, and the other one notices nothing", async () => {
  scene = await Scene.open({ recording, gateways: 2 });
  const [killed, other] = scene.followers;
  if (killed === undefined || other === undefined) throw new Error("two gateways");
  await scene.play(300);
  const judge = new Judge(scene, 300);
  await judge.right();
  const watch = judge.watch(judge.highest(300, 340), { followers: [other] });
  await killed.process.end("SIGKILL");
  await scene.play(340);
  await judge.right({ followers: [other] });
  expect(await watch.stop()).toEqual([]);
  expect([...watch.notices]).toEqual([]);
  const own = judge.watch(judge.answers(340), { followers: [killed] });
  await scene.startGateway(0);
  await judge.right();
  expect(await own.stop()).toEqual([]);
});
