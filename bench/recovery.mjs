// Time from SIGKILL of each party to the engine's own numbers again, with real processes. Run: node bench/recovery.mjs
// [rounds] (after a build). The killed process is started again at once; most of the time is that start.
// Prints the median and the longest of all rounds; compare lines inside one run, never absolute times across machines.
import { join } from "node:path";
import { runnerImport } from "vite";

const load = async (name) => {
  const file = join(import.meta.dirname, "../test/support/chaos", name);
  return (await runnerImport(file)).module;
};
const { Recording } = await load("recording.ts");
const { Scene } = await load("scene.ts");
const { Judge } = await load("judge.ts");

const ROUNDS = Number(process.argv[2] ?? 5);
const AT = 300;
const recording = await Recording.open("gemma");
const modes = [
  ["replay", { replayMode: "served" }],
  ["no replay", { replayMode: "off" }],
];

const parties = {
  engine: {
    kill: (scene) => scene.engine().kill(),
    start: async (scene) => {
      await scene.startEngine();
      await scene.isHeard();
      await scene.play(AT);
    },
  },
  bridge: {
    kill: (scene) => scene.bridge.end("SIGKILL"),
    start: (scene) => scene.startBridge(),
  },
  gateway: {
    kill: (scene) => scene.followers[0].process.end("SIGKILL"),
    start: (scene) => scene.startGateway(0),
  },
};

function row(cells) {
  console.log(
    cells
      .map((cell, i) =>
        String(cell)
          .padEnd(i < 2 ? 12 : 0)
          .padStart(14),
      )
      .join(""),
  );
}

function summary(times) {
  const sorted = [...times].sort((a, b) => a - b);
  return [sorted[sorted.length >> 1], sorted.at(-1)].map((ms) => `${Math.round(ms)} ms`);
}

row(["killed", "engine with", "started", "longest", "right again", "longest"]);
for (const [mode, options] of modes) {
  for (const [name, { kill, start }] of Object.entries(parties)) {
    // Without replay a new bridge knows a part only, until the engine clears its cache.
    if (name === "bridge" && mode === "no replay") continue;
    const started = [];
    const right = [];
    const scene = await Scene.open({ recording, ...options });
    try {
      await scene.play(AT);
      const judge = new Judge(scene, AT);
      await judge.right();
      for (let round = 0; round < ROUNDS; round++) {
        const begin = performance.now();
        await kill(scene);
        await start(scene);
        started.push(performance.now() - begin);
        await judge.right();
        right.push(performance.now() - begin);
      }
      row([name, mode, ...summary(started), ...summary(right)]);
    } catch (error) {
      row([name, mode, String(error)]);
    } finally {
      await scene.close();
    }
  }
}
process.exit(0);
