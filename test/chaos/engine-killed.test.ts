// Goal: an engine that dies is told, and its successor is followed as a new engine, at every gateway.
// Method: real processes; SIGKILL; what the recorded engine itself answers.
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

describe.each(["served", "off"] as const)("replay %s", (replayMode) => {
  test("the old view is withdrawn at both gateways, and the new engine's answers are right", async () => {
    scene = await Scene.open({ recording, gateways: 2, replayMode });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();

    await scene.engine().kill();
    await judge.safe(judge.nothing);
    const watch = judge.watch(judge.nothing);
    await scene.startEngine();
    await scene.isHeard();
    watch.bound = judge.highest(0, 40);
    await scene.play(40);
    await judge.right();
    expect(await watch.stop()).toEqual([]);

    const later = new Judge(scene, 120);
    await scene.play(120);
    await later.right();
  });
});
