// Goal: a bridge goes on where it was, when it can prove that the engine is the same; a disk that fails costs only that.
// Method: real processes; SIGKILL and SIGTERM; a file system of 1 MiB, a limit on file sizes, a directory that is gone.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "../support/chaos/eventually.ts";
import { Judge } from "../support/chaos/judge.ts";
import { Recording } from "../support/chaos/recording.ts";
import { Scene, type SceneOptions } from "../support/chaos/scene.ts";
import "../support/chaos/test-limit.ts";

const INTERVAL_MS = 1_000;
const recording = await Recording.open("gemma");
let scene: Scene | undefined;
const cleanups: (() => void)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) clean();
  await scene?.close();
  scene = undefined;
});

/** A scene whose bridge keeps checkpoints in `directory` of its folder. */
async function open(more: Partial<SceneOptions> = {}): Promise<Scene> {
  return Scene.open({
    recording,
    gateways: 2,
    checkpointIntervalMs: INTERVAL_MS,
    ...more,
  });
}

function counted(at: Scene, name: string): Promise<number> {
  return at.metric("kvgroup_bridge_counter_total", `name="checkpoint.${name}"`);
}

async function epoch(at: Scene): Promise<bigint | undefined> {
  return (await at.describe()).cursor?.epoch;
}

describe("the bridge goes on in the same epoch", () => {
  test("after SIGTERM, though the engine has forgotten its first batches", async () => {
    scene = await open({ bufferSteps: 100 });
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    const before = await epoch(scene);
    expect(await scene.bridge.end("SIGTERM")).toBe(0);
    const watch = judge.watch(judge.highest(300, 340));
    await scene.play(340);
    await scene.startBridge();
    await judge.right();
    expect(await epoch(scene)).toBe(before);
    expect(await watch.stop()).toEqual([]);
  });

  test("after SIGKILL, from the last checkpoint and the engine's replay", async () => {
    scene = await open();
    const at = scene;
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    await eventually("a checkpoint", async () =>
      (await counted(at, "written")) > 0 ? undefined : "none written",
    );
    const before = await epoch(scene);
    await scene.bridge.end("SIGKILL");
    const watch = judge.watch(judge.highest(300, 340));
    await scene.play(340);
    await scene.startBridge();
    await judge.right();
    expect(await epoch(scene)).toBe(before);
    expect(await watch.stop()).toEqual([]);
  });
});

test("an engine that was replaced meanwhile gets a new epoch, and nothing of the old one", async () => {
  scene = await open();
  await scene.play(100);
  const judge = new Judge(scene, 100);
  await judge.right();
  const before = await epoch(scene);
  expect(await scene.bridge.end("SIGTERM")).toBe(0);
  await judge.says(["stale"]);
  await scene.engine().kill();
  await scene.startEngine();
  await scene.play(60);
  await scene.clear();
  await scene.play(60);
  const watch = judge.watch(judge.answers(60));
  await scene.startBridge();
  await judge.right();
  expect(await epoch(scene)).not.toBe(before);
  expect(await watch.stop()).toEqual([]);
});

/** Makes the next checkpoint impossible; a running bridge must not depend on it. */
const FAILURES: Readonly<Record<string, (directory: string) => void>> = {
  "a full file system": (directory) => {
    if (!mountSmall(directory)) return;
    writeFileSync(join(directory, "filler"), "");
    try {
      writeFileSync(join(directory, "filler"), Buffer.alloc(2 * 1024 * 1024));
    } catch {
      // Full is what it shall be.
    }
  },
  "a directory that became a file": (directory) => {
    rmSync(directory, { recursive: true });
    writeFileSync(directory, "");
  },
};

/** A file system of 1 MiB at `directory`; false = not allowed here. */
function mountSmall(directory: string): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], {
      stdio: "ignore",
    });
  } catch {
    console.info("no right to mount: the limit on file sizes stands for a full file system");
    return false;
  }
  cleanups.push(() => execFileSync("umount", [directory]));
  return true;
}

test.each(Object.entries(FAILURES))(
  "%s: the bridge goes on, counts and says it",
  async (name, fail) => {
    scene = await open();
    const at = scene;
    await scene.bridge.end("SIGTERM");
    fail(scene.checkpointDirectory);
    // Files may have 8 blocks of 512 bytes, or of 1,024: less than a checkpoint, where the way above has no right.
    const limit = ["sh", "-c", 'ulimit -f 8; exec "$0" "$@"'];
    await scene.startBridge({}, name.startsWith("a full") ? { wrapper: limit } : {});
    await scene.play(300);
    const judge = new Judge(scene, 300);
    await judge.right();
    const watch = judge.watch(judge.highest(300, 340));
    for (const until of [310, 320, 330]) {
      const before = await counted(scene, "failed");
      await scene.play(until);
      await eventually("the failure is counted", async () =>
        (await counted(at, "failed")) > before ? undefined : `${before} as before`,
      );
    }
    await scene.play(340);
    await judge.right();
    expect(await watch.stop()).toEqual([]);
    expect(await counted(scene, "written")).toBe(0);
    expect(scene.bridge.logged("checkpoint failed").length).toBe(1);
    expect(scene.bridge.isRunning).toBe(true);
  },
);

test("a directory that works again is written again", async () => {
  scene = await open();
  const at = scene;
  await scene.play(100);
  const directory = scene.checkpointDirectory;
  FAILURES["a directory that became a file"]?.(directory);
  await scene.play(200);
  await eventually("a failure", async () =>
    (await counted(at, "failed")) > 0 ? undefined : "none yet",
  );
  rmSync(directory);
  mkdirSync(directory);
  const before = await counted(scene, "written");
  await scene.play(300);
  await eventually("a checkpoint", async () =>
    (await counted(at, "written")) > before ? undefined : "none yet",
  );
});
