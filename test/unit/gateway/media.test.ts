import { expect, test } from "vitest";
import { MediaTable } from "../../../src/gateway/dist/media.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";

const at = (medium: string, locality = "", ownership = "") => ({ medium, locality, ownership });

test("only the rank's own local GPU is medium 0", () => {
  const media = new MediaTable();
  for (const own of [at(""), at("GPU"), at("", "LOCAL"), at("GPU", "LOCAL")]) {
    expect(media.intern(own)).toBe(0);
  }
  const others = [
    at("gpu"),
    at("CPU"),
    at("GPU", "REMOTE"),
    at("GPU", "", "somebody"),
    at("GPU", "local"),
  ];
  const ids = others.map((other) => media.intern(other));
  expect(ids).toEqual([1, 2, 3, 4, 5]);
});

test("a locality that is not said is local", () => {
  const media = new MediaTable();
  expect(media.intern(at("CPU"))).toBe(media.intern(at("CPU", "LOCAL")));
  expect(media.intern(at("CPU"))).not.toBe(media.intern(at("CPU", "REMOTE")));
});

test("names that would run together stay apart", () => {
  const media = new MediaTable();
  expect(media.intern(at("A", "B", "C"))).not.toBe(media.intern(at("A", 'B","C', "")));
});

test("a name stands for all of its localities and owners, and the empty one for GPU", () => {
  const media = new MediaTable();
  const remote = media.intern(at("GPU", "REMOTE"));
  const cpu = media.intern(at("CPU"));
  const owned = media.intern(at("CPU", "", "somebody"));
  expect(media.idsNamed("")).toEqual([0, remote]);
  expect(media.idsNamed("GPU")).toEqual([0, remote]);
  expect(media.idsNamed("CPU")).toEqual([cpu, owned]);
  expect(media.idsNamed("TAPE")).toEqual([]);
});

test("beyond the bound there is no id, and known ones stay", () => {
  const media = new MediaTable();
  const most = LIMITS.mediaPerRank.value;
  for (let i = 1; i < most; i++) expect(media.intern(at(`tier ${i}`))).toBe(i);
  expect(media.intern(at("one more"))).toBeUndefined();
  expect(media.intern(at("tier 1"))).toBe(1);
  expect(media.find(at("one more"))).toBeUndefined();
  media.reset();
  expect(media.intern(at("one more"))).toBe(1);
});
