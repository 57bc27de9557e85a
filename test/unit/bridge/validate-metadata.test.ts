// Medium, locality, ownership, group, kind, window: absent and present-but-unusable are different.
import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { eventOf, eventsOf, refusalOf, storeOf } from "../../support/decoded-events.ts";
import {
  digest,
  namedRemoval,
  namedStore,
  type WireFields,
  without,
} from "../../support/wire-builder.ts";

const fieldRefusal = (fields: WireFields): string => refusalOf(eventOf(namedStore(fields)));
const notesOf = (fields: WireFields): string[] =>
  storeOf(namedStore(fields)).notes.map((note) => `${note.reason} at ${note.path}`);

describe("medium", () => {
  test.each([
    ["GPU", "GPU"],
    ["gpu", "GPU"],
    ["gPu", "GPU"],
    ["cpu", "CPU"],
    ["Storage", "STORAGE"],
    ["cuda:0", "CUDA:0"],
    ["CPU_PINNED", "CPU_PINNED"],
    [null, "GPU"],
    ["", ""],
    [" GPU", " GPU"],
  ])("%j is %j, for stores and removals", (published, medium) => {
    expect(storeOf(namedStore({ medium: published })).medium).toBe(medium);
    expect(eventOf(namedRemoval({ medium: published }))).toMatchObject({ type: "removed", medium });
  });

  test("an absent medium is the GPU (0.9.0 to 0.10.1)", () => {
    expect(storeOf(without(namedStore(), "medium")).medium).toBe("GPU");
    expect(eventOf(without(namedRemoval(), "medium"))).toMatchObject({ medium: "GPU" });
  });

  test.each([
    ["a number", 0],
    ["a boolean", false],
    ["a list", ["GPU"]],
    ["bytes", digest(1)],
  ])("%s is no medium", (_name, value) => {
    expect(fieldRefusal({ medium: value })).toBe("medium_invalid at events[0].medium");
  });
});

test.each(["locality", "ownership"])("%s is a text or absent", (field) => {
  for (const value of [1, true, ["x"], {}]) {
    expect(fieldRefusal({ [field]: value })).toBe(`${field}_invalid at events[0].${field}`);
  }
  expect(storeOf(namedStore({ [field]: "x" }))).toMatchObject({ [field]: "x" });
  expect(storeOf(namedStore({ [field]: null }))).toMatchObject({ [field]: "" });
});

test.each(["medium", "locality", "ownership", "lora_name"])(
  "%s at the limit is read, one character more is refused",
  (field) => {
    const text = "X".repeat(LIMITS.textBytes.value);
    expect(fieldRefusal({ [field]: text })).toBe("");
    expect(fieldRefusal({ [field]: `${text}X` })).toBe(`text_too_long at events[0].${field}`);
  },
);

describe("group", () => {
  test.each([
    ["negative", -1],
    ["2^32 (field case B2)", 2 ** 32],
    ["2^53 + 1", (1n << 53n) + 1n],
    ["2^64 − 1", (1n << 64n) - 1n],
    ["a float", 0.5],
    ["a boolean", false],
    ["a text", "0"],
    ["a list", [0]],
  ])("a group that is %s refuses the store, never files it under no group", (_name, value) => {
    const fields = { group_idx: value, kv_cache_spec_kind: "full_attention" };
    const [bad, good] = eventsOf(namedStore(fields), namedStore({ group_idx: 0 }));
    expect(bad).toMatchObject({
      type: "refused",
      refusal: { reason: "group_invalid", path: "events[0].group_idx" },
    });
    expect(good).toMatchObject({ type: "stored", groupId: 0 });
  });

  test("0 and 2^32 − 1 are groups, nil is none", () => {
    const groups = [0, 2 ** 32 - 1, null].map(
      (value) => storeOf(namedStore({ group_idx: value })).groupId,
    );
    expect(groups).toEqual([0, 2 ** 32 - 1, undefined]);
  });

  test("an absent group with nothing about it is silent: the old schema", () => {
    expect(notesOf({})).toEqual([]);
    const nil = { kv_cache_spec_kind: null, kv_cache_spec_sliding_window: null };
    expect(notesOf({ group_idx: null, ...nil })).toEqual([]);
  });

  test("kind and window without a group are dropped and noted", () => {
    const fields = { kv_cache_spec_kind: "sliding_window", kv_cache_spec_sliding_window: 8 };
    const store = storeOf(namedStore(fields));
    expect([store.kind, store.windowTokens]).toEqual([undefined, undefined]);
    expect(notesOf(fields)).toEqual([
      "group_missing at events[0].kv_cache_spec_kind",
      "group_missing at events[0].kv_cache_spec_sliding_window",
    ]);
  });
});

describe("kind", () => {
  test.each(["full_attention", "mla_attention", "chunked_local_attention", "unknown", "foo"])(
    "%s passes as published",
    (kind) => {
      const store = storeOf(namedStore({ group_idx: 0, kv_cache_spec_kind: kind }));
      expect(store).toMatchObject({ kind, notes: [] });
    },
  );

  test.each([
    ["empty", ""],
    ["a number", 1],
    ["a boolean", true],
    ["a list", ["mamba"]],
  ])("a kind that is %s is ignored and noted", (_name, value) => {
    const fields = { group_idx: 0, kv_cache_spec_kind: value };
    expect(storeOf(namedStore(fields))).toMatchObject({ groupId: 0, kind: undefined });
    expect(notesOf(fields)).toEqual(["kind_invalid at events[0].kv_cache_spec_kind"]);
  });

  test("a kind beyond the limit is ignored and noted", () => {
    const kind = "k".repeat(LIMITS.textBytes.value);
    expect(notesOf({ group_idx: 0, kv_cache_spec_kind: kind })).toEqual([]);
    expect(notesOf({ group_idx: 0, kv_cache_spec_kind: `${kind}k` })).toEqual([
      "text_too_long at events[0].kv_cache_spec_kind",
    ]);
  });
});

describe("window", () => {
  const sliding = { group_idx: 1, kv_cache_spec_kind: "sliding_window" };

  test.each(["sliding_window", "sliding_window_mla"])("%s has one, 1 … 2^32 − 1", (kind) => {
    for (const window of [1, 128, 2 ** 32 - 1]) {
      const fields = { ...sliding, kv_cache_spec_kind: kind, kv_cache_spec_sliding_window: window };
      expect(storeOf(namedStore(fields))).toMatchObject({ windowTokens: window, notes: [] });
    }
  });

  test.each([
    ["0", 0],
    ["negative", -1],
    ["2^32", 2 ** 32],
    ["2^64 − 1", (1n << 64n) - 1n],
    ["a float", 128.5],
    ["a boolean", true],
    ["a text", "128"],
  ])("a window that is %s is ignored and noted; the blocks are good", (_name, value) => {
    const fields = { ...sliding, kv_cache_spec_sliding_window: value };
    const store = storeOf(namedStore(fields));
    expect(store).toMatchObject({ kind: "sliding_window", windowTokens: undefined });
    expect(notesOf(fields)).toEqual(["window_invalid at events[0].kv_cache_spec_sliding_window"]);
  });

  test.each([["full_attention"], ["mamba"], [null], [""]])(
    "a window of kind %j is ignored and noted",
    (kind) => {
      const fields = { group_idx: 1, kv_cache_spec_kind: kind, kv_cache_spec_sliding_window: 8 };
      expect(storeOf(namedStore(fields)).windowTokens).toBe(undefined);
      expect(notesOf(fields)).toContain("window_invalid at events[0].kv_cache_spec_sliding_window");
    },
  );
});
