// Goal: a gateway that stops reading harms nobody and is right again when it goes on.
// Method: real processes; SIGSTOP and SIGCONT under load.
import { afterEach, expect, test } from "vitest";
import { LIMITS } from "../../src/protocol/dist/index.js";
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

const QUEUE_BYTES = 1024 * 1024;
/** A pair is some 32 kB of stream. */
const PAIRS = 40;
const ROUNDS = 10;
const MOST_ROUNDS = 100;
/** What a process may take beyond its queues: garbage that waits for its collection. */
const SLACK_BYTES = 96 * 1024 * 1024;

test("a paused gateway costs the bridge a bounded queue, others go on, and it catches up", async () => {
  const bridgeFlags = { "subscribers-queue-bytes": QUEUE_BYTES };
  scene = await Scene.open({ recording, gateways: 2, bridgeFlags });
  const [paused, other] = scene.followers;
  if (paused === undefined || other === undefined) throw new Error("two gateways");
  await scene.play(200);
  const judge = new Judge(scene, 200);
  await judge.right();
  const before = scene.bridge.residentBytes();
  paused.process.signal("SIGSTOP");
  let most = before;
  let overflows = 0;
  // Beyond the flow control windows of the stream, which the gateway opens wide, nothing else can take it.
  for (let round = 0; round < ROUNDS || (overflows === 0 && round < MOST_ROUNDS); round++) {
    await scene.flood(PAIRS);
    await judge.right({ followers: [other] });
    most = Math.max(most, scene.bridge.residentBytes());
    overflows = await scene.metric("kvgroup_bridge_subscriber_overflows_total");
  }
  expect(overflows).toBeGreaterThan(0);
  console.info(`bridge: ${mebibytes(before)} before, ${mebibytes(most)} at most`);
  // The ring for subscribers that come back fills under any load.
  const bound = QUEUE_BYTES + LIMITS.resumeRingBytes.value + SLACK_BYTES;
  expect(most - before).toBeLessThan(bound);
  const watch = judge.watch(judge.answers(200), { followers: [paused] });
  paused.process.signal("SIGCONT");
  await judge.right();
  expect(await watch.stop()).toEqual([]);
  await scene.play(240);
  await judge.right();
});

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MiB`;
}
