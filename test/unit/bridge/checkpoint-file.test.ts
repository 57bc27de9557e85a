import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CheckpointFile } from "../../../src/bridge/dist/checkpoint-file.js";
import { KvEventsError, LIMITS, parseDpRank } from "../../../src/protocol/dist/index.js";

let directory = "";
let file = fileOf();

function fileOf(maxBytes?: number): CheckpointFile {
  const dpRank = parseDpRank(3);
  if (dpRank === undefined) throw new RangeError("no rank");
  return new CheckpointFile(directory, dpRank, maxBytes);
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "checkpoint-"));
  file = fileOf();
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

async function* pieces(...texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) {
    await Promise.resolve();
    yield Buffer.from(text);
  }
}

async function messageOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KvEventsError && error.code === "checkpoint_failed") return error.message;
    throw error;
  }
  return "";
}

test("what is written is read again, by its user alone, and nothing else is left", async () => {
  expect(await file.read()).toBeUndefined();
  expect(await file.write(pieces("one ", "and two"))).toBe(11);
  expect(Buffer.from((await file.read()) ?? []).toString()).toBe("one and two");
  await file.write(pieces("later"));
  expect(Buffer.from((await file.read()) ?? []).toString()).toBe("later");
  expect(readdirSync(directory)).toEqual(["rank-3.checkpoint"]);
  expect(statSync(file.path).mode & 0o777).toBe(0o600);
});

test("a source that fails leaves the old file and nothing else, and its error is passed on", async () => {
  await file.write(pieces("old"));
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield* pieces("half of it");
    throw new RangeError("the source's own");
  }
  await expect(file.write(failing())).rejects.toThrow("the source's own");
  expect(readFileSync(file.path, "utf8")).toBe("old");
  expect(readdirSync(directory)).toHaveLength(1);
});

test("a directory that goes away while it is written fails by name and leaves the old file", async () => {
  await file.write(pieces("old"));
  const elsewhere = `${directory}-elsewhere`;
  async function* moving(): AsyncGenerator<Uint8Array> {
    yield* pieces("new");
    renameSync(directory, elsewhere);
  }
  expect(await messageOf(file.write(moving()))).toContain("cannot be put in place (ENOENT)");
  expect(readFileSync(join(elsewhere, "rank-3.checkpoint"), "utf8")).toBe("old");
  expect(await messageOf(file.write(pieces("x")))).toContain("cannot be begun (ENOENT)");
  expect(await messageOf(file.read())).toContain("cannot be prepared (ENOENT)");
  renameSync(elsewhere, directory);
  await file.read();
  expect(readdirSync(directory)).toEqual(["rank-3.checkpoint"]);
});

test("a place that cannot be taken fails by name and leaves nothing temporary", async () => {
  mkdirSync(file.path);
  expect(await messageOf(file.write(pieces("new")))).toContain("cannot be put in place");
  expect(readdirSync(directory)).toEqual(["rank-3.checkpoint"]);
});

test("at the bound of bytes it is written and read, beyond it neither", async () => {
  file = fileOf(4);
  expect(await file.write(pieces("12", "34"))).toBe(4);
  expect(await messageOf(file.write(pieces("12", "345")))).toContain("checkpointBytes");
  expect((await file.read())?.length).toBe(4);
  writeFileSync(file.path, "12345");
  expect(await messageOf(file.read())).toContain("has 5 bytes");
  // The default bound, with a file that is all hole.
  truncateSync(file.path, LIMITS.checkpointBytes.value + 1);
  expect(await messageOf(fileOf().read())).toContain("more than allowed");
});

test("a link, a FIFO and a directory are not read", async () => {
  const target = join(directory, "target");
  writeFileSync(target, "foreign");
  symlinkSync(target, file.path);
  expect(await messageOf(file.read())).toContain("symbolic link");
  rmSync(file.path);
  execFileSync("mkfifo", [file.path]);
  expect(await messageOf(file.read())).toContain("no plain file");
  rmSync(file.path);
  mkdirSync(file.path);
  expect(await messageOf(file.read())).toContain("no plain file");
});

test("a link in the final place is replaced, never written through", async () => {
  const target = join(directory, "target");
  writeFileSync(target, "foreign");
  symlinkSync(target, file.path);
  await file.write(pieces("mine"));
  expect(readFileSync(target, "utf8")).toBe("foreign");
  expect(readFileSync(file.path, "utf8")).toBe("mine");
});

test("what an interrupted write left is removed, other ranks' files are not", async () => {
  const left = join(directory, "rank-3.checkpoint.writing-abcdef");
  mkdirSync(left);
  writeFileSync(join(left, "rank-3.checkpoint"), "half");
  const others = ["rank-30.checkpoint", "rank-30.checkpoint.writing-abcdef"];
  for (const name of others) writeFileSync(join(directory, name), "other");
  await file.read();
  expect(readdirSync(directory).sort()).toEqual(others);
});
