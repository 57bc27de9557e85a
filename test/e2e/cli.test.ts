// Goal: the binary does what the README says, and says what is wrong by name. Method: real processes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { runCli } from "../support/run-cli.ts";

const traces = join(import.meta.dirname, "../fixtures/traces");
const folder = mkdtempSync(join(tmpdir(), "kvgroup-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A recording with the engine's answers changed. */
function altered(name: string, change: (native: number) => number): string {
  const lines = gunzipSync(readFileSync(join(traces, name)))
    .toString("utf8")
    .split("\n");
  const text = lines
    .map((line) =>
      line.includes('"native":')
        ? line.replace(/"native":\s*(\d+)/, (_, n: string) => `"native":${change(Number(n))}`)
        : line,
    )
    .join("\n");
  const path = join(folder, `altered-${name.replace(".gz", "")}`);
  writeFileSync(path, text);
  return path;
}

describe("demo", () => {
  test("real processes give the recorded engine's own numbers, and the exit code says so", async () => {
    const run = await runCli(["demo", "--prompts", "40"]);
    expect(run.stdout).toContain("40 equal, 0 above, 0 below");
    expect(run.stdout).toMatch(/limited by group 1 \(sliding_window/);
    expect(run.code).toBe(0);
  });

  test("an answer above the engine's makes the exit code non-zero", async () => {
    const trace = altered("gemma.jsonl.gz", (native) => Math.max(0, native - 16));
    const run = await runCli(["demo", "--prompts", "20", "--trace", trace]);
    expect(run.stdout).toMatch(/[1-9]\d* above/);
    expect(run.code).toBe(1);
  });

  test("look-ahead hashing and a rank other than 0 go the whole way too", async () => {
    for (const name of ["eagle-lookahead.jsonl.gz", "dp-rank-1.jsonl.gz"]) {
      const run = await runCli(["demo", "--prompts", "30", "--trace", join(traces, name)]);
      expect(run.stdout).toContain("30 equal, 0 above, 0 below");
      expect(run.code).toBe(0);
    }
  });
});

describe("verify-trace", () => {
  test("--faults and --join say what they did, and refuse what is no number", async () => {
    const file = join(traces, "qwen-528.jsonl.gz");
    const faults = await runCli(["verify-trace", "--faults", "3", file]);
    expect(faults.stdout).toMatch(/seed 3, 1600 lookups: \d+ equal, 0 above/);
    expect(faults.code).toBe(0);
    const late = await runCli(["verify-trace", "--join", "100", file]);
    expect(late.stdout).toContain("1600 equal, 0 above, 0 below");
    expect(late.code).toBe(0);
    for (const flags of [
      ["--faults", "x"],
      ["--join", "-1"],
      ["--join", "3", "--faults", "3"],
      ["--exact", "--faults", "3"],
    ]) {
      const refused = await runCli(["verify-trace", ...flags, file]);
      expect(refused.stderr).toContain("kvgroup: config_invalid: --");
      expect(refused.code).toBe(2);
    }
  });

  test("--exact: what events cannot tell is no excuse for an answer below", async () => {
    const path = altered("full8-swa4.jsonl.gz", (native) => native + 4);
    expect((await runCli(["verify-trace", path])).code).toBe(0);
    const exact = await runCli(["verify-trace", "--exact", path]);
    expect([exact.code, exact.stdout.includes("WRONG")]).toEqual([1, true]);
    expect(exact.stdout).toContain("again: npm run verify-trace -- --json --exact ");
    expect(
      (await runCli(["verify-trace", "--exact", join(traces, "qwen-528.jsonl.gz")])).code,
    ).toBe(0);
  });

  test("it says how entries got their place; with a late gateway nobody can", async () => {
    const file = join(traces, "full8-swa4.jsonl.gz");
    const plain = JSON.parse(
      (await runCli(["verify-trace", "--json", "--no-recompute", file])).stdout.split("\n")[0] ??
        "",
    );
    expect(plain.entries).toMatchObject({ recomputed: 0, queryAlone: 0, found: 0 });
    expect(plain.entries.notPlaced).toBeGreaterThan(0);
    const late = await runCli(["verify-trace", "--json", "--join", "9", file]);
    expect(JSON.parse(late.stdout.split("\n")[0] ?? "").entries).toBeUndefined();
  });

  test("--json gives one object a file and a sum", async () => {
    const run = await runCli(["verify-trace", "--json", join(traces, "qwen-528.jsonl.gz")]);
    const [report, sum] = run.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(report).toMatchObject({ lookups: 1600, equal: 1600, above: 0, below: 0, isGood: true });
    expect(sum.sum.files).toBe(1);
    expect(run.code).toBe(0);
  });

  test("a difference in either direction fails, with the line that replays it", async () => {
    for (const change of [(n: number) => n + 528, (n: number) => Math.max(0, n - 528)]) {
      const run = await runCli(["verify-trace", altered("qwen-528.jsonl.gz", change)]);
      expect(run.code).toBe(1);
      expect(run.stdout).toContain("WRONG");
      expect(run.stdout).toMatch(/first mismatch: .*"line":\d+/);
    }
  });

  test("what is no trace is refused with file and line", async () => {
    const path = join(folder, "broken.jsonl");
    writeFileSync(path, '{"format":"kvtrace/1","engine":{"vllm":"0"}}\n');
    const run = await runCli(["verify-trace", path]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain("trace_invalid");
    expect(run.stderr).toContain("broken.jsonl:1");
    const missing = await runCli(["verify-trace", join(folder, "none.jsonl.gz")]);
    expect(missing.code).toBe(2);
    expect(missing.stderr).toContain("trace_invalid");
  });
});

describe("configuration is refused at start, by name", () => {
  test("an unknown flag", async () => {
    const run = await runCli(["bridge", "--engine-endpont=tcp://127.0.0.1:5557"]);
    expect(run.code).not.toBe(0);
    expect(run.stderr).toContain("--engine-endpont");
  });

  test("an unknown key in the file and an unknown variable of ours", async () => {
    const path = join(folder, "bridge.json");
    writeFileSync(path, JSON.stringify({ engine: { endpont: "tcp://127.0.0.1:5557" } }));
    const run = await runCli(["bridge", "--config", path]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain("engine.endpont");
    const variable = await runCli(["gateway"], { KVGROUP_GATEWAY_LISTN_PORT: "1" });
    expect(variable.code).toBe(2);
    expect(variable.stderr).toContain("KVGROUP_GATEWAY_LISTN_PORT");
  });

  test("a listener beyond loopback without TLS or consent", async () => {
    for (const service of ["bridge", "gateway"]) {
      const run = await runCli([service, "--listen-host=0.0.0.0"]);
      expect(run.code).toBe(2);
      expect(run.stderr).toContain("listen_insecure");
    }
  });

  test("--print-config shows the effective values and masks the seed", async () => {
    const seed = "a seed that nobody must see";
    for (const [service, prefix] of [
      ["bridge", "KVGROUP_BRIDGE"],
      ["gateway", "KVGROUP_GATEWAY"],
    ]) {
      const run = await runCli([`${service}`, "--print-config"], { [`${prefix}_KEYS_SEED`]: seed });
      expect(run.code).toBe(0);
      expect(run.stdout).not.toContain(seed);
      expect(JSON.parse(run.stdout)).toHaveProperty("listen.port");
    }
  });

  test("a port that is taken is said and ends the process", async () => {
    const { createServer } = await import("node:net");
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new RangeError("no port");
    const run = await runCli(["gateway", `--listen-port=${address.port}`, "--health-port=0"]);
    server.close();
    expect(run.code).toBe(2);
    expect(run.stderr).toContain("listen_failed");
  });
});
