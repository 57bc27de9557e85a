// Goal: `kvgroup block-hashes` prints what an engine publishes. Method: real processes,
// digests that vLLM computed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runCli } from "../support/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "kvgroup-hashes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sixteen = Array.from({ length: 17 }, (_, i) => i + 1).join(",");
const block = ["block-hashes", "--block-size", "16"];

test("the default engine's first block: its integer and its digest", async () => {
  const run = await runCli([...block, "--tokens", sixteen]);
  expect(run.stdout.trim().split(/\s+/)).toEqual([
    "16",
    "1403909460543360175",
    "7b255da405e1d722823892e4fef187b4d8ac78215d7f0dd2137bb037547f4caf",
  ]);
  expect(run.code).toBe(0);
});

test("--json, a file of tokens, look-ahead, and vLLM's own digests with a LoRA adapter", async () => {
  const fixture: { named: { name: string; digests: Record<string, string[]> }[] } = JSON.parse(
    readFileSync(new URL("../fixtures/engine-hash-vllm-0.33.0.json", import.meta.url), "utf8"),
  );
  const path = join(folder, "tokens.json");
  writeFileSync(path, JSON.stringify(Array.from({ length: 40 }, (_, i) => i + 1)));
  const asked = [...block, "--tokens-file", path, "--seed", "0", "--json"];
  for (const [name, flags] of [
    ["LoRA", ["--lora", "sql", "--lora-path", "/adapters/sql"]],
    ["look-ahead 1", ["--lookahead", "1"]],
  ] as const) {
    const run = await runCli([...asked, "--algorithm", "xxhash", ...flags]);
    const lines = run.stdout.trim().split("\n");
    const row = fixture.named.find((one) => one.name === name);
    expect(lines.map((line) => JSON.parse(line).hex)).toEqual(row?.digests["xxhash"]);
  }
});

test("tokens that fill no block print nothing, and stderr says so", async () => {
  const run = await runCli([...block, "--tokens", "1,2,3"]);
  expect([run.code, run.stdout]).toEqual([0, ""]);
  expect(run.stderr).toContain("no block");
});

test("what is refused has exit code 2 and no token in its message", async () => {
  const run = await runCli([...block, "--tokens", "31337,x"]);
  expect(run.stderr).toBe(
    "kvgroup: config_invalid: --tokens: not a list of whole numbers up to 4294967295\n",
  );
  expect(run.code).toBe(2);
});

test("--help says where each value is found", async () => {
  const run = await runCli(["block-hashes", "--help"]);
  for (const word of ["PYTHONHASHSEED", "--prefix-caching-hash-algo", "Example"])
    expect(run.stdout).toContain(word);
});
