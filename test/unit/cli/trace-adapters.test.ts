/**
 * What it is: claims about what a trace's file states of its engine beside groups: adapters' paths, recomputing.
 * Owns: a temporary folder.
 * Refuses: nothing.
 * Does not do: play traces.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { adapterPaths } from "../../../src/cli/dist/trace-adapters.js";
import { engineConfigOfTrace } from "../../../src/cli/dist/trace-engine.js";
import { openTrace } from "../../../src/cli/dist/trace-file.js";

const folder = mkdtempSync(join(tmpdir(), "kvgroup-trace-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const engine = {
  vllm: "0.33.0",
  groups: [{ id: 0, kind: "full_attention", block_size: 16 }],
  scheduler_block_size: 16,
  hash_block_size: 16,
  fine: false,
};

async function traceOf(header: object, ...lines: readonly unknown[]) {
  const file = join(folder, "trace.jsonl.gz");
  const all = [{ format: "kvtrace/1", engine: { ...engine, ...header } }, ...lines];
  writeFileSync(file, gzipSync(all.map((line) => JSON.stringify(line)).join("\n")));
  const trace = await openTrace(file);
  return { file, trace };
}

async function pathsOf(header: object, ...lines: readonly unknown[]) {
  const { file, trace } = await traceOf(header, ...lines);
  return Object.fromEntries(await adapterPaths(file, trace.engine));
}

const lookup = (more: object) => ({ lookup: { range: [1, 40], native: 0, ...more } });

test("a recorded engine's adapters lie under /adapters/, one for each name that a lookup has", async () => {
  const names = ["a", "b", "a", 'c"\\é'].map((lora) => lookup({ lora }));
  expect(await pathsOf({}, lookup({ lora: null }), ...names, lookup({}))).toEqual({
    a: "/adapters/a",
    b: "/adapters/b",
    'c"\\é': '/adapters/c"\\é',
  });
});

test("without adapters nothing is stated", async () => {
  const salt = lookup({ salt: '"lora": "x"', mm: [{ hash: '"lora":"y"', offset: 3, length: 1 }] });
  const { file, trace } = await traceOf({}, lookup({ lora: null }), salt);
  const loraPaths = await adapterPaths(file, trace.engine);
  expect(loraPaths.size).toBe(0);
  expect(engineConfigOfTrace(trace.engine, { loraPaths })).toEqual(
    engineConfigOfTrace(trace.engine),
  );
});

test("a header that lists paths is believed; a whole engine without a list has paths of its own", async () => {
  const lora_paths = { a: "/elsewhere/a" };
  expect(await pathsOf({ lora_paths }, lookup({ lora: "b" }))).toEqual(lora_paths);
  const source = "vllm serve";
  expect(await pathsOf({ lora_paths, source })).toEqual(lora_paths);
  expect(await pathsOf({ source }, lookup({ lora: "b" }))).toEqual({});
});

test("paths and the switch reach the engine's configuration", async () => {
  const { file, trace } = await traceOf({}, lookup({ lora: "a" }));
  const loraPaths = await adapterPaths(file, trace.engine);
  const { hashing } = engineConfigOfTrace(trace.engine, { loraPaths, isRecomputing: false });
  expect([hashing.isRecognised, hashing.loraPaths]).toEqual([
    false,
    new Map([["a", "/adapters/a"]]),
  ]);
  expect(engineConfigOfTrace(trace.engine).hashing.isRecognised).toBe(true);
});

test("an image keeps its length: engines hash where it ends", async () => {
  const mm = [
    { hash: "late", offset: 20, length: 4 },
    { hash: "early", offset: 2, length: 7 },
  ];
  const { trace } = await traceOf({}, lookup({ mm }));
  for await (const entry of trace.entries) {
    expect(entry.type === "lookup" && entry.prompt.multimodalItems).toEqual([
      { identifier: "early", offset: 2, length: 7 },
      { identifier: "late", offset: 20, length: 4 },
    ]);
  }
});
