// Goal: batches that the live socket loses are fetched and nobody notices, or the loss is said.
// Method: real processes; the engine keeps batches for replay that it does not publish.
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

describe.each(["served", "holey"] as const)("replay %s", (replayMode) => {
  test("subscribers notice nothing", async () => {
    scene = await Scene.open({ recording, gateways: 2, replayMode });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    const starts = await scene.metric("kvgroup_bridge_starts_total");
    const { cursor } = await scene.describe();
    const watch = judge.watch(judge.highest(300, 340));
    await scene.engine().drop(7);
    await scene.play(320);
    await judge.right();
    await scene.engine().drop(1);
    await scene.play(340);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
    const notices = [...watch.notices].filter((words) => !words.endsWith("stale (catching_up)"));
    expect(notices).toEqual([]);
    expect(await scene.metric("kvgroup_bridge_starts_total")).toBe(starts);
    expect((await scene.describe()).cursor?.epoch).toBe(cursor?.epoch);
  });
});

describe.each(["off", "silent"] as const)("replay %s", (replayMode) => {
  test("what may be too high is withdrawn, the rest is a part, and a clear makes all right", async () => {
    scene = await Scene.open({ recording, gateways: 2, replayMode });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    const watch = judge.watch(judge.highest(300, 310));
    await scene.engine().drop(5);
    await scene.play(310);
    await judge.says(["lower_bound", "unknown"]);
    await judge.safe(judge.answers(310));
    watch.bound = judge.highest(0, 310);
    await scene.clear();
    await scene.play(60);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
  });
});
