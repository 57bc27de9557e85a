// The fast reader against the general one, over every payload of every recording: it answers for what vLLM publishes, and
// what it says is what the general one says.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { readBoth } from "../support/both-readers.ts";

const fixtures = join(import.meta.dirname, "../fixtures/traces");
/** A folder of more recordings. */
const more = process.env["KVGROUP_TRACES"] ?? "";

interface Line {
  readonly frame?: readonly [string, number, string];
  readonly reply?: readonly (readonly string[])[];
}

function* payloadsOf(path: string): Generator<Buffer> {
  const raw = readFileSync(path);
  const text = (path.endsWith(".gz") ? gunzipSync(raw) : raw).toString();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const { frame, reply } = JSON.parse(line) as Line;
    const texts = frame === undefined ? (reply ?? []).map((frames) => frames.at(-1)) : [frame[2]];
    // The end marker of a reply has no payload.
    for (const one of texts) if (one !== undefined && one !== "") yield Buffer.from(one, "base64");
  }
}

function recordings(folder: string): readonly (readonly [string, string])[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => /\.jsonl(\.gz)?$/.test(name));
  return names.map((name) => [name, join(folder, name)] as const);
}

const known = new Set(readdirSync(fixtures));
const all = [...recordings(fixtures), ...recordings(more).filter(([name]) => !known.has(name))];

describe("what vLLM published is read by the fast reader, and by the general one alike", () => {
  test.each(all)("%s", (_name, path) => {
    let payloads = 0;
    let answers = 0;
    for (const payload of payloadsOf(path)) {
      payloads += 1;
      if (readBoth(payload)) answers += 1;
    }
    expect(payloads).toBeGreaterThan(0);
    expect(answers).toBe(payloads);
  });
});
