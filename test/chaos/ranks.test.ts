// Goal: one data-parallel rank's trouble is its own.
// Method: real processes: two engines, one bridge; SIGKILL of one engine.
import { afterEach, expect, test } from "vitest";
import { Judge } from "../support/chaos/judge.ts";
import { Recording } from "../support/chaos/recording.ts";
import { Scene } from "../support/chaos/scene.ts";
import "../support/chaos/test-limit.ts";

const recording = await Recording.open("full-swa");
let scene: Scene | undefined;
afterEach(async () => {
  await scene?.close();
  scene = undefined;
});

test("the rank whose engine died is stale, the other one's answers stay good", async () => {
  scene = await Scene.open({ recording, gateways: 2, dpRanks: [0, 1] });
  await scene.play(300, 0);
  await scene.play(200, 1);
  const zero = new Judge(scene, 300);
  const one = new Judge(scene, 200);
  await zero.right({ dpRank: 0 });
  await one.right({ dpRank: 1 });

  const living = zero.watch(zero.highest(300, 340), { dpRank: 0 });
  await scene.engine(1).kill();
  await one.safe(one.nothing, { dpRank: 1 });
  const dead = one.watch(one.nothing, { dpRank: 1 });
  await scene.play(340, 0);
  await zero.right({ dpRank: 0 });
  await scene.startEngine(1);
  await scene.isHeard();
  dead.bound = one.highest(0, 50);
  await scene.play(50, 1);
  await one.right({ dpRank: 1 });
  await zero.right({ dpRank: 0 });
  expect(await dead.stop()).toEqual([]);
  expect(await living.stop()).toEqual([]);
  expect([...living.notices]).toEqual([]);
});
