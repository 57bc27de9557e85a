// Every BlockStored that a vLLM release, a connector or a proposal is known to send is read; the
// values are what the mirror will see.
import { describe, expect, test } from "vitest";
import { decodeBatch } from "../../../src/bridge/dist/validate.js";
import {
  byteHash,
  eventOf,
  eventsOf,
  integerHash,
  storeOf,
  unwrap,
} from "../../support/decoded-events.ts";
import {
  batchOf,
  digest,
  encodeWire,
  encodeWith,
  listStore,
  namedStore,
  raw,
  STORE_LENGTHS,
  tokens,
  without,
} from "../../support/wire-builder.ts";

const H = 15_760_518_052_499_183_552n;

describe("positional stores, 0.9.0 to 0.23.0", () => {
  test.each(Object.entries(STORE_LENGTHS))("%s sends %i elements", (_version, length) => {
    expect(storeOf(listStore({}, length))).toEqual({
      type: "stored",
      medium: "GPU",
      locality: "",
      ownership: "",
      groupId: undefined,
      kind: undefined,
      windowTokens: undefined,
      hashes: [integerHash(1)],
      parent: undefined,
      tokens: Uint32Array.of(1, 2, 3, 4),
      blockSizeTokens: 4,
      loraId: undefined,
      loraName: undefined,
      extraKeys: undefined,
      lookaheadTokens: undefined,
      notes: [],
    });
  });

  test("a list may end after its block size, and may have elements that we do not know", () => {
    expect(storeOf(listStore({}, 5)).blockSizeTokens).toBe(4);
    expect(storeOf([...listStore({}), "later", { a: 1 }]).notes).toEqual([]);
  });

  test("signed hashes (0.9.0) keep all their bits", () => {
    const store = storeOf(listStore({ block_hashes: [-3, 7], token_ids: tokens(8) }, 6));
    expect(store.hashes).toEqual([integerHash((1n << 64n) - 3n), integerHash(7n)]);
  });

  test("an unsigned hash and its parent", () => {
    const store = storeOf(listStore({ block_hashes: [H], parent_block_hash: H + 1n }, 6));
    expect(store.hashes).toEqual([integerHash(H)]);
    expect(store.parent).toBe(integerHash(H + 1n));
  });

  test("byte hashes and a byte parent", () => {
    const store = storeOf(
      listStore({ block_hashes: [digest(1)], parent_block_hash: digest(2) }, 7),
    );
    expect(store.hashes).toEqual([byteHash(digest(1))]);
    expect(store.parent).toBe(byteHash(digest(2)));
  });

  test("an offloaded chunk in bytes beside integers of the GPU (0.11 to 0.19)", () => {
    const offload = { block_hashes: [digest(1)], token_ids: [], block_size: 64, medium: "CPU" };
    const [cpu, gpu] = eventsOf(listStore(offload, 7), listStore({ block_hashes: [H] }, 7));
    expect(cpu).toMatchObject({ type: "stored", medium: "CPU", blockSizeTokens: 64 });
    expect(gpu).toMatchObject({ type: "stored", medium: "GPU", hashes: [integerHash(H)] });
  });

  test("a LoRA by number and name (0.14)", () => {
    const store = storeOf(listStore({ lora_id: 3, lora_name: "my-lora" }, 8));
    expect([store.loraId, store.loraName]).toEqual([3n, "my-lora"]);
  });

  test("a group without metadata (0.20)", () => {
    const store = storeOf(listStore({ extra_keys: [null], group_idx: 0 }, 10));
    expect(store).toMatchObject({ groupId: 0, kind: undefined, extraKeys: [undefined] });
  });

  test("joined digests of a coarse group (0.20 to 0.23) are known by the last one", () => {
    const joined = new Uint8Array([...digest(1), ...digest(2, { last: 9 })]);
    const store = storeOf(listStore({ block_hashes: [joined] }));
    expect(store.hashes).toEqual([byteHash(digest(2, { last: 9 }))]);
  });

  test("the digest size of another algorithm is taken from the options", () => {
    const joined = new Uint8Array([...digest(1, { size: 16 }), ...digest(2, { size: 16 })]);
    const bytes = encodeWire(batchOf(namedStore({ block_hashes: [joined] })));
    const hashes = (digestBytes: number) => {
      const [event] = unwrap(decodeBatch(bytes, { digestBytes })).events;
      return event?.type === "stored" ? event.hashes.map((hash) => hash.length) : [];
    };
    expect(hashes(16)).toEqual([16]);
    expect(hashes(32)).toEqual([32]);
  });

  test("kinds and windows (0.22)", () => {
    const mamba = { block_size: 4, group_idx: 3, kv_cache_spec_kind: "mamba" };
    const sliding = {
      group_idx: 1,
      kv_cache_spec_kind: "sliding_window",
      kv_cache_spec_sliding_window: 1024,
    };
    const [first, second] = eventsOf(listStore(mamba), listStore(sliding));
    expect(first).toMatchObject({ groupId: 3, kind: "mamba", windowTokens: undefined });
    expect(second).toMatchObject({ groupId: 1, kind: "sliding_window", windowTokens: 1024 });
  });

  test("a map in the place of the LoRA name is another engine's metadata (field case A9)", () => {
    const [bad, good] = eventsOf(
      ["BlockStored", [1], null, [1, 2, 3, 4], 4, null, "GPU", null, { cache_salt: "a" }],
      listStore({ block_hashes: [5] }, 7),
    );
    expect(bad).toMatchObject({ type: "refused", refusal: { reason: "extra_keys_invalid" } });
    expect(good?.type).toBe("stored");
    const atSeven = eventOf(["BlockStored", [1], null, [], 4, null, "GPU", { cache_salt: "a" }]);
    expect(atSeven).toMatchObject({
      type: "refused",
      refusal: { reason: "lora_invalid", path: "events[0].lora_name" },
    });
  });
});

describe("named stores, from 0.24.0", () => {
  test("the capture of 0.26.0", () => {
    const store = storeOf(
      namedStore({
        block_hashes: [H],
        token_ids: tokens(16),
        block_size: 16,
        extra_keys: [null],
        group_idx: 0,
        kv_cache_spec_kind: "full_attention",
      }),
    );
    expect(store).toMatchObject({ hashes: [integerHash(H)], groupId: 0, kind: "full_attention" });
    expect(store.tokens.length).toBe(16);
  });

  test("sparse: fewer hashes than blocks", () => {
    const fields = { token_ids: tokens(12), extra_keys: [null], group_idx: 1 };
    expect(storeOf(namedStore(fields))).toMatchObject({ hashes: [integerHash(1)] });
  });

  test("empty: tokens and no hash", () => {
    const fields = { block_hashes: [], parent_block_hash: H, token_ids: tokens(64), group_idx: 2 };
    const store = storeOf(namedStore({ ...fields, block_size: 64 }));
    expect(store).toMatchObject({ hashes: [], parent: integerHash(H), extraKeys: undefined });
    const looking = storeOf(namedStore({ ...fields, lookahead_token_ids: [], extra_keys: [] }));
    expect([looking.lookaheadTokens, looking.extraKeys]).toEqual([[], []]);
    expect(storeOf(namedStore({ ...fields, parent_block_hash: digest(1) })).hashes).toEqual([]);
  });

  test("partial: one hash unit below a parent that was never said", () => {
    const fields = { parent_block_hash: 99, group_idx: 0, kv_cache_spec_kind: "mla_attention" };
    expect(storeOf(namedStore(fields))).toMatchObject({ blockSizeTokens: 4, groupId: 0 });
  });

  test.each([
    ["a placeholder of an offload tier", { token_ids: [], block_size: 0, medium: "CPU" }],
    ["a placeholder with kind", { token_ids: [], block_size: 0, kv_cache_spec_kind: "mamba" }],
    ["a recurrent checkpoint", { token_ids: [], block_size: 1056, parent_block_hash: H }],
    ["a connector's nil tokens", { token_ids: null, block_size: 16, medium: "cpu" }],
  ])("%s has hashes and no tokens", (_name, fields) => {
    const store = storeOf(namedStore({ group_idx: 0, ...fields }));
    expect(store.tokens.length).toBe(0);
    expect(store.hashes.length).toBe(1);
    expect(store.notes).toEqual([]);
  });

  test("absent tokens are no tokens", () => {
    expect(storeOf(without(namedStore(), "token_ids")).tokens.length).toBe(0);
  });

  test("a described chunk", () => {
    const fields = { block_hashes: [1, 2, 3, H], token_ids: tokens(64), block_size: 16 };
    const store = storeOf(namedStore({ ...fields, medium: "CPU", group_idx: 0 }));
    expect([store.hashes.length, store.tokens.length, store.medium]).toEqual([4, 64, "CPU"]);
  });

  test("a tier's locality and ownership", () => {
    const fields = { medium: "STORAGE", locality: "REMOTE", ownership: "kvcr" };
    expect(storeOf(namedStore(fields))).toMatchObject(fields);
    const nil = storeOf(namedStore({ locality: null, ownership: null }));
    expect([nil.locality, nil.ownership]).toEqual(["", ""]);
  });

  test("look-ahead tokens, one list a hash", () => {
    const fields = { block_hashes: [1, 2], token_ids: tokens(8), lookahead_token_ids: [[5], [9]] };
    expect(storeOf(namedStore(fields)).lookaheadTokens).toEqual([
      Uint32Array.of(5),
      Uint32Array.of(9),
    ]);
    expect(storeOf(namedStore({ lookahead_token_ids: null })).lookaheadTokens).toBe(undefined);
  });

  test("names that we do not know are left alone", () => {
    const fields = {
      session_id: "s-1",
      origin: { a: [1, { b: 2 }] },
      event_version: 2,
      block_offsets: [0],
      skipped_parent_block_hash: H,
      skipped_token_ids: [1],
      skipped_extra_keys: [null],
    };
    expect(storeOf(namedStore(fields))).toEqual(storeOf(namedStore()));
  });

  test("the order of names does not matter", () => {
    const reversed = Object.fromEntries(Object.entries(namedStore()).reverse());
    expect(storeOf(reversed)).toEqual(storeOf(namedStore()));
  });
});

describe("integers", () => {
  test("a hash has one identity in every width, for block and parent (field case A3)", () => {
    const widths: readonly (readonly number[])[] = [
      [100],
      [0xcc, 100],
      [0xcd, 0, 100],
      [0xce, 0, 0, 0, 100],
      [0xcf, 0, 0, 0, 0, 0, 0, 0, 100],
      [0xd0, 100],
      [0xd1, 0, 100],
      [0xd2, 0, 0, 0, 100],
      [0xd3, 0, 0, 0, 0, 0, 0, 0, 100],
    ];
    for (const width of widths) {
      const bytes = encodeWith(
        batchOf(namedStore({ block_hashes: [raw(0)] }), namedStore({ parent_block_hash: raw(1) })),
        width,
        width,
      );
      const [own, child] = unwrap(decodeBatch(bytes)).events;
      expect(own).toMatchObject({ hashes: [integerHash(100n)] });
      expect(child).toMatchObject({ parent: integerHash(100n) });
    }
  });

  test("neighbours above 2^53 stay apart (field case A4)", () => {
    const values = [1n << 53n, (1n << 53n) + 1n, (1n << 64n) - 2n, (1n << 64n) - 1n];
    const { hashes } = storeOf(namedStore({ block_hashes: values, token_ids: tokens(16) }));
    expect(new Set(hashes).size).toBe(4);
    expect(hashes).toEqual(values.map(integerHash));
  });

  test("0 is a hash, for blocks and parents", () => {
    expect(storeOf(namedStore({ block_hashes: [0] })).hashes).toEqual([integerHash(0)]);
    expect(storeOf(namedStore({ parent_block_hash: 0 })).parent).toBe(integerHash(0));
  });

  test("an encoder that writes every integer in 64 bits is read alike", () => {
    const wide = namedStore({
      block_hashes: [1n],
      token_ids: [1n, 2n, 3n, 4n],
      block_size: 4n,
      lora_id: 3n,
      group_idx: 2n,
      kv_cache_spec_kind: "sliding_window",
      kv_cache_spec_sliding_window: 8n,
      extra_keys: [[["image", -5n]]],
      lookahead_token_ids: [[5n]],
    });
    const narrow = JSON.parse(
      JSON.stringify(wide, (_key, value) => (typeof value === "bigint" ? Number(value) : value)),
    );
    expect(storeOf(wide)).toEqual(storeOf(narrow));
    expect(storeOf(wide).groupId).toBe(2);
  });

  test("a LoRA number may be any int64", () => {
    const values = [-(1n << 63n), (1n << 63n) - 1n, 0, -1];
    const ids = values.map((value) => storeOf(namedStore({ lora_id: value })).loraId);
    expect(ids).toEqual(values.map(BigInt));
  });

  test("the largest token id is a token", () => {
    expect(storeOf(namedStore({ token_ids: [0, 1, 2, 2 ** 32 - 1] })).tokens[3]).toBe(2 ** 32 - 1);
  });
});
