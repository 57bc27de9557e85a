// Goal: an engine that was replaced while nobody looked is taken for a new one, whatever numbers it has reached.
// Method: real processes; the bridge is paused (SIGSTOP) while its engine is killed and another takes its place.
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

/**
 * The second engine has published 121 batches before the bridge goes on: far beyond what the first one had. It holds
 * what the recording holds after 60; an old view that is continued with its last batches claims more.
 */
async function replaceUnseen(judge: Judge, at: Scene): Promise<void> {
  at.bridge.signal("SIGSTOP");
  await at.engine().kill();
  await judge.says(["stale"]);
  await at.startEngine();
  await at.play(60);
  await at.clear();
  await at.play(60);
}

test("with replay the new engine's numbers are right without help", async () => {
  scene = await Scene.open({ recording });
  await scene.play(100);
  const judge = new Judge(scene, 100);
  await judge.right();
  await replaceUnseen(judge, scene);
  const watch = judge.watch(judge.answers(60));
  scene.bridge.signal("SIGCONT");
  await judge.right();
  expect(await watch.stop()).toEqual([]);
  await scene.play(140);
  await new Judge(scene, 140).right();
});

describe("without replay", () => {
  test("no answer is too high, and after a clear all are right", async () => {
    scene = await Scene.open({ recording, replayMode: "off" });
    await scene.play(100);
    const judge = new Judge(scene, 100);
    await judge.right();
    await replaceUnseen(judge, scene);
    const watch = judge.watch(judge.answers(60));
    scene.bridge.signal("SIGCONT");
    await scene.isHeard();
    watch.bound = judge.highest(60, 70);
    await scene.play(70);
    await judge.safe(judge.answers(70));
    await scene.clear();
    watch.bound = judge.highest(0, 80);
    await scene.play(80);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
  });

  test("an engine whose next batch has the number that the old one's would have had", async () => {
    scene = await Scene.open({ recording, replayMode: "off" });
    await scene.play(100);
    const judge = new Judge(scene, 100);
    await judge.right();
    scene.bridge.signal("SIGSTOP");
    await scene.engine().kill();
    await judge.says(["stale"]);
    await scene.startEngine();
    await scene.play(50);
    await scene.clear();
    await scene.play(49);
    expect(scene.state().lastSequence).toBe(99);
    const watch = judge.watch(judge.highest(49, 50));
    scene.bridge.signal("SIGCONT");
    await scene.isHeard();
    await scene.play(50);
    await judge.says(["lower_bound"]);
    await scene.clear();
    watch.bound = judge.highest(0, 80);
    await scene.play(80);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
  });
});
