// What it is: what a block costs in a bridge: bytes of a process that follows one rank, for each block that is held, and for
// each block that is gone and whose place is remembered.
// Run: npm run bench -- mirror-memory.
import { memoryNow, runBench } from "./harness.mjs";
import { checkHeld, rankPipeline } from "./rank-pipelines.mjs";
import { frames, payload, removalPayload } from "./workloads/payloads.mjs";

const PER_EVENT = 64;
const CASES = ["integers", "digests of 32 bytes"];

await runBench(import.meta.url, {
  name: "mirror-memory",
  what: "bytes of a held block, and of a remembered one, in a bridge",
  cases: (context) => context.pick(CASES.slice(1), CASES, CASES),
  run(name, context) {
    const blocks = context.pick(64 * 64, 4_096 * 64, 4_096 * 192);
    const hasDigests = name !== "integers";
    const pipeline = rankPipeline(() => {});
    const before = memoryNow();
    let sequence = 0;
    const send = (make) => {
      for (let first = 0; first < blocks; first += PER_EVENT) {
        pipeline.receive(frames(sequence++, make(first, PER_EVENT, hasDigests)), 0);
      }
    };
    const report = (what) => {
      const after = memoryNow();
      context.row(`${what}, heap`, "B/block", [(after.heap - before.heap) / blocks]);
      context.row(`${what}, resident set`, "B/block", [
        (after.resident - before.resident) / blocks,
      ]);
    };
    send(payload);
    checkHeld(pipeline, blocks);
    report("held");
    send(removalPayload);
    checkHeld(pipeline, 0);
    report("remembered");
  },
});
