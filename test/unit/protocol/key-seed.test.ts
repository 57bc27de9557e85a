/**
 * What it is: tests of the rules of the seed.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: hash.
 */
import { expect, test } from "vitest";
import { chooseSeed, PUBLIC_SEED, SEED_MIN_CHARACTERS } from "../../../src/protocol/dist/index.js";

const seed = "x".repeat(SEED_MIN_CHARACTERS);

test("no source gives the public seed and says so; naming it is a choice", () => {
  expect(chooseSeed({ seed: undefined, fileText: undefined })).toEqual({
    ok: true,
    value: { seed: PUBLIC_SEED, isDefaulted: true },
  });
  expect(chooseSeed({ seed: PUBLIC_SEED, fileText: undefined })).toEqual({
    ok: true,
    value: { seed: PUBLIC_SEED, isDefaulted: false },
  });
});

test.each([
  ["", seed],
  ["\n", seed],
  ["\r\n", seed],
  ["\n\n", `${seed}\n`],
  [" ", `${seed} `],
])(
  "of a file, %j at the end: one newline is not part of the seed, all else is",
  (end, expected) => {
    const chosen = chooseSeed({ seed: undefined, fileText: seed + end });
    expect(chosen).toEqual({ ok: true, value: { seed: expected, isDefaulted: false } });
  },
);

test("a written seed is taken as it is", () => {
  expect(chooseSeed({ seed: `${seed}\n`, fileText: undefined })).toMatchObject({
    value: { seed: `${seed}\n` },
  });
});

test("one character too few is refused by the name of the source, without the seed", () => {
  const short = seed.slice(1);
  const written = chooseSeed({ seed: short, fileText: undefined });
  const read = chooseSeed({ seed: undefined, fileText: `${short}\n` });
  expect(written).toMatchObject({ ok: false, error: expect.stringMatching(/^keys\.seed has/) });
  expect(read).toMatchObject({ ok: false, error: expect.stringMatching(/^keys\.seed_file has/) });
  expect(JSON.stringify([written, read])).not.toContain(short);
  expect(chooseSeed({ seed: "", fileText: undefined }).ok).toBe(false);
  expect(chooseSeed({ seed: undefined, fileText: "" }).ok).toBe(false);
});

test("two sources are refused, even equal ones", () => {
  expect(chooseSeed({ seed, fileText: seed }).ok).toBe(false);
});
