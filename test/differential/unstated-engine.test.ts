// Goal: where events tell everything, an operator needs to state nothing: groups, block sizes, look-ahead and, by
// recomputing the engine's hashes, the hash unit and fine mode are found out, and answers equal the engine's own.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseEngineDescription } from "../../src/bridge/dist/config-engine.js";
import { InProcessPath } from "../../src/cli/dist/in-process-path.js";
import { openTrace } from "../../src/cli/dist/trace-file.js";
import { parseDpRank } from "../../src/protocol/dist/index.js";

const folder = join(import.meta.dirname, "../fixtures/traces");

describe("an engine of which nothing is stated", () => {
  test.each(["deepseek-v4", "full8-swa4", "fine-unit", "fine-16-32", "mtp-2", "hash-xxh-cbor"])(
    "%s",
    async (name) => {
      const trace = await openTrace(join(folder, `${name}.jsonl.gz`));
      const dpRank = parseDpRank(trace.engine.dp_rank);
      if (dpRank === undefined) throw new RangeError("no rank");
      const engine = parseEngineDescription({});
      const path = new InProcessPath({ dpRank, engine, seed: "a seed for tests" });
      let lookups = 0;
      for await (const entry of trace.entries) {
        if (entry.type === "frame") path.receive(entry.frames);
        else if (entry.type === "restart") path.publisherReplaced();
        else {
          lookups += 1;
          expect(path.score(entry.prompt).reusableTokens, `line ${entry.line}`).toBe(entry.native);
        }
      }
      expect(lookups).toBeGreaterThan(0);
      const described = path.pipeline.describe(0).engine;
      expect(described?.hashScheme?.unitTokens).toBe(trace.engine.hash_block_size);
      path.gateway.close();
    },
  );
});
