// Removals and clears are negative evidence: what cannot be read whole still says what it can of
// its scope, because that scope must be withdrawn.
import { LIMITS } from "@kv-group-bridge/protocol";
import { describe, expect, test } from "vitest";
import { byteHash, eventOf, eventsOf, integerHash } from "../../support/decoded-events.ts";
import {
  digest,
  namedRemoval,
  namedStore,
  type WireFields,
  without,
} from "../../support/wire-builder.ts";

const removal = (fields: WireFields) => eventOf(namedRemoval(fields));

describe("removals", () => {
  test.each([
    ["0.9.0", ["BlockRemoved", [1]], undefined],
    ["0.10.2", ["BlockRemoved", [1], "GPU"], undefined],
    ["0.20.0", ["BlockRemoved", [1], "GPU", 0], 0],
    ["a longer list", ["BlockRemoved", [1], "GPU", 0, "later"], 0],
    ["a nil group", ["BlockRemoved", [1], null, null], undefined],
    ["0.24.0", { type: "BlockRemoved", block_hashes: [1], medium: "GPU", group_idx: 0 }, 0],
    ["a reason that we do not know", namedRemoval({ reason: "eviction" }), undefined],
  ])("%s", (_name, event, groupId) => {
    expect(eventOf(event)).toEqual({
      type: "removed",
      medium: "GPU",
      locality: "",
      ownership: "",
      groupId,
      hashes: [integerHash(1)],
      remainingCopies: undefined,
      notes: [],
    });
  });

  test("an offload placeholder in bytes (0.20 to 0.23)", () => {
    expect(eventOf(["BlockRemoved", [digest(1)], "CPU", null])).toMatchObject({
      type: "removed",
      medium: "CPU",
      hashes: [byteHash(digest(1))],
    });
  });

  test("joined digests are the hash that the store of them was", () => {
    const joined = new Uint8Array([...digest(1), ...digest(2)]);
    expect(removal({ block_hashes: [joined] })).toMatchObject({ hashes: [byteHash(digest(2))] });
  });

  test("many hashes of one group, a repeated one, and none", () => {
    expect(removal({ block_hashes: [1, 2, 1] })).toMatchObject({
      type: "removed",
      hashes: [1, 2, 1].map(integerHash),
    });
    expect(removal({ block_hashes: [] })).toMatchObject({ type: "removed", hashes: [] });
  });

  test("a tier's locality and ownership", () => {
    const fields = { medium: "STORAGE", locality: "REMOTE", ownership: "kvcr" };
    expect(removal(fields)).toMatchObject({ type: "removed", ...fields });
  });

  test("copies that remain, one count a hash", () => {
    const fields = { block_hashes: [1, 2], remaining_copy_counts: [0, 3] };
    expect(removal(fields)).toMatchObject({ remainingCopies: [0, 3], notes: [] });
    expect(removal({ remaining_copy_counts: null })).toMatchObject({ remainingCopies: undefined });
  });

  test.each([
    ["too few", []],
    ["negative", [-1]],
    ["a number", 1],
    ["texts", ["1"]],
  ])("counts that are %s are ignored and noted", (_name, counts) => {
    expect(removal({ remaining_copy_counts: counts })).toMatchObject({
      type: "removed",
      remainingCopies: undefined,
      notes: [{ path: "events[0].remaining_copy_counts" }],
    });
  });
});

describe("removals that cannot be read whole", () => {
  test.each([
    ["no hash list", { block_hashes: 7 }, "hashes_invalid"],
    ["one bad hash among good ones", { block_hashes: [1, null, 3] }, "hash_invalid"],
    ["a float", { block_hashes: [1.5] }, "hash_invalid"],
    ["a boolean", { block_hashes: [true] }, "hash_invalid"],
    ["seven bytes", { block_hashes: [new Uint8Array(7)] }, "hash_invalid"],
    ["both encodings", { block_hashes: [1, digest(1)] }, "hashes_mixed"],
  ])("%s: group and medium are told, no hash is", (_name, fields, reason) => {
    expect(removal({ group_idx: 2, medium: "cpu", ...fields })).toEqual({
      type: "removal_unreadable",
      refusal: { reason, path: "events[0].block_hashes" },
      groupId: 2,
      medium: "CPU",
      hashes: undefined,
    });
  });

  test("without a group the medium is told", () => {
    expect(eventOf(["BlockRemoved", [null]])).toMatchObject({
      type: "removal_unreadable",
      groupId: undefined,
      medium: "GPU",
      hashes: undefined,
    });
  });

  test.each([
    ["negative", -1],
    ["2^32", 2 ** 32],
    ["a float", 0.5],
    ["a boolean", true],
    ["a text", "0"],
  ])("a group that is %s: medium and all hashes are told", (_name, group) => {
    expect(removal({ block_hashes: [1, 2], group_idx: group })).toEqual({
      type: "removal_unreadable",
      refusal: { reason: "group_invalid", path: "events[0].group_idx" },
      groupId: undefined,
      medium: "GPU",
      hashes: [integerHash(1), integerHash(2)],
    });
  });

  test("a bad group and a bad hash: the medium alone is told", () => {
    expect(removal({ block_hashes: [1, ""], group_idx: -1 })).toMatchObject({
      refusal: { reason: "group_invalid" },
      groupId: undefined,
      medium: "GPU",
      hashes: undefined,
    });
  });

  test("a bad medium: group and all hashes are told", () => {
    expect(removal({ medium: 7, group_idx: 3 })).toEqual({
      type: "removal_unreadable",
      refusal: { reason: "medium_invalid", path: "events[0].medium" },
      groupId: 3,
      medium: undefined,
      hashes: [integerHash(1)],
    });
    const long = "x".repeat(LIMITS.textBytes.value + 1);
    expect(removal({ medium: long, group_idx: 3 })).toMatchObject({
      refusal: { reason: "text_too_long" },
      groupId: 3,
      medium: undefined,
    });
  });

  test.each(["locality", "ownership"])("a bad %s: the rest is told", (field) => {
    expect(removal({ [field]: 7, group_idx: 3 })).toMatchObject({
      type: "removal_unreadable",
      refusal: { reason: `${field}_invalid`, path: `events[0].${field}` },
      groupId: 3,
      medium: "GPU",
      hashes: [integerHash(1)],
    });
  });

  test("no hashes at all", () => {
    expect(eventOf(["BlockRemoved"])).toEqual({
      type: "removal_unreadable",
      refusal: { reason: "event_arity", path: "events[0]" },
      groupId: undefined,
      medium: undefined,
      hashes: undefined,
    });
    expect(eventOf(without(namedRemoval({ group_idx: 1 }), "block_hashes"))).toMatchObject({
      type: "removal_unreadable",
      refusal: { reason: "hashes_invalid" },
      groupId: 1,
      medium: "GPU",
    });
  });

  test("more hashes than the limit", () => {
    const list = Array.from({ length: LIMITS.hashesPerEvent.value + 1 }, (_, index) => index);
    expect(removal({ block_hashes: list.slice(1), group_idx: 1 }).type).toBe("removed");
    expect(removal({ block_hashes: list, group_idx: 1 })).toMatchObject({
      type: "removal_unreadable",
      refusal: { reason: "too_many_hashes" },
      groupId: 1,
      hashes: undefined,
    });
  });

  test("costs its neighbours nothing", () => {
    const events = eventsOf(namedRemoval(), namedRemoval({ group_idx: "x" }), namedStore());
    expect(events.map((event) => event.type)).toEqual(["removed", "removal_unreadable", "stored"]);
  });
});

describe("clears", () => {
  test.each([
    ["a list", ["AllBlocksCleared"]],
    ["a map", { type: "AllBlocksCleared" }],
    ["nil fields", { type: "AllBlocksCleared", medium: null, group_idx: null }],
    ["a list of nils", ["AllBlocksCleared", null, null]],
    ["names that we do not know", { type: "AllBlocksCleared", session_id: "s" }],
  ])("%s clears everything", (_name, event) => {
    expect(eventOf(event)).toEqual({ type: "cleared", groupId: undefined, medium: undefined });
  });

  test("a scoped clear is not widened", () => {
    const clear = (fields: WireFields) => eventOf({ type: "AllBlocksCleared", ...fields });
    expect(clear({ medium: "cpu" })).toEqual({
      type: "cleared",
      groupId: undefined,
      medium: "CPU",
    });
    expect(clear({ group_idx: 0 })).toEqual({ type: "cleared", groupId: 0, medium: undefined });
    expect(clear({ group_idx: 1, medium: "" })).toEqual({
      type: "cleared",
      groupId: 1,
      medium: "",
    });
  });

  test.each([
    ["a bad medium", { medium: 7 }, "medium_invalid"],
    ["a bad group", { group_idx: -1 }, "group_invalid"],
    ["a group of 2^32", { group_idx: 2 ** 32 }, "group_invalid"],
    ["an owner, which we cannot honour", { ownership: "kvcr" }, "ownership_invalid"],
    ["a locality, which we cannot honour", { locality: "REMOTE" }, "locality_invalid"],
  ])("%s makes the scope unreadable", (_name, fields, reason) => {
    expect(eventOf({ type: "AllBlocksCleared", ...fields })).toMatchObject({
      type: "removal_unreadable",
      refusal: { reason },
      groupId: undefined,
      medium: undefined,
      hashes: undefined,
    });
  });

  test("what can be told of a scope is told", () => {
    const clear = { type: "AllBlocksCleared", medium: "CPU", group_idx: true };
    expect(eventOf(clear)).toMatchObject({ type: "removal_unreadable", medium: "CPU" });
  });

  test("a further element of a list could be a scope", () => {
    expect(eventOf(["AllBlocksCleared", "CPU"])).toMatchObject({
      type: "removal_unreadable",
      refusal: { reason: "event_arity", path: "events[0]" },
    });
  });
});
