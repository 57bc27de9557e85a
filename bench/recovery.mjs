// What it is: time from SIGKILL of each party to the engine's own numbers again, with real processes. The killed process is
// started again at once; most of the time is that start.
// Run: npm run bench -- recovery.
import { join } from "node:path";
import { runnerImport } from "vite";
import { runBench } from "./harness.mjs";

const load = async (name) => {
  const file = join(import.meta.dirname, "../test/support/chaos", name);
  return (await runnerImport(file)).module;
};
const { Recording } = await load("recording.ts");
const { Scene } = await load("scene.ts");
const { Judge } = await load("judge.ts");

const MOST_BATCHES = 300;

const parties = {
  engine: {
    kill: (scene) => scene.engine().kill(),
    start: async (scene, at) => {
      await scene.startEngine();
      await scene.isHeard();
      await scene.play(at);
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

/** Without replay a new bridge knows a part only, until the engine clears its cache: no such case. */
const CASES = ["engine", "bridge", "gateway", "engine without replay", "gateway without replay"];

await runBench(import.meta.url, {
  name: "recovery",
  what: "from SIGKILL to right answers again",
  isPinned: () => false,
  cases: (context) => context.pick(["gateway"], CASES, CASES),
  async run(name, context) {
    const { kill, start } = parties[name.split(" ")[0]];
    const replayMode = name.endsWith("without replay") ? "off" : "served";
    const at = context.pick(20, MOST_BATCHES, MOST_BATCHES);
    const started = [];
    const right = [];
    const recording = await Recording.open("gemma", at);
    const scene = await Scene.open({ recording, replayMode });
    try {
      await scene.play(at);
      const judge = new Judge(scene, at);
      await judge.right();
      for (let round = 0; round < context.pick(1, 3, 10); round++) {
        const begin = performance.now();
        await kill(scene);
        await start(scene, at);
        started.push(performance.now() - begin);
        await judge.right();
        right.push(performance.now() - begin);
      }
    } finally {
      await scene.close();
    }
    context.row("started", "ms", started);
    context.row("right again", "ms", right);
  },
});
