import { describe, expect, test } from "vitest";
import { NO_EXTRAS, readBlockExtras } from "../../../src/bridge/dist/block-extras.js";
import type { ExtraKey } from "../../../src/bridge/dist/vllm-event.js";

const first = { startTokens: 0, endTokens: 4, lookaheadTokens: 0, loraName: undefined };
const later = { ...first, startTokens: 4, endTokens: 8 };
const text = (value: string): ExtraKey => ({ type: "text", value });
const item = (identifier: string, offset: number | undefined): ExtraKey => ({
  type: "item",
  identifier,
  offset,
});

describe("a block's extra keys are read whole or not at all", () => {
  test("nothing extra is nothing extra", () => {
    expect(readBlockExtras(undefined, first)).toBe(NO_EXTRAS);
  });

  test("a bare text in a prompt's first block is its cache salt, in a later block it is not understood", () => {
    expect(readBlockExtras([text("tenant")], first)?.cacheSalt).toBe("tenant");
    expect(readBlockExtras([text("tenant")], later)).toBeUndefined();
  });

  test("the adapter's name comes first and must be the event's", () => {
    const lora = { ...first, loraName: "a" };
    expect(readBlockExtras([text("a"), text("tenant")], lora)?.cacheSalt).toBe("tenant");
    expect(readBlockExtras([text("a")], { ...later, loraName: "a" })).toEqual(NO_EXTRAS);
    expect(readBlockExtras([text("b")], lora)).toBeUndefined();
    expect(readBlockExtras(undefined, lora)).toBeUndefined();
  });

  test("an item counts where it starts; one that began before the block is in the parent already", () => {
    expect(readBlockExtras([item("img", 2)], later)?.items).toEqual([
      { identifier: "img", startTokens: 6 },
    ]);
    expect(readBlockExtras([item("img", -2)], later)?.items).toEqual([]);
  });

  test("an item may start in the look-ahead tokens, not beyond them", () => {
    const ahead = { ...later, lookaheadTokens: 2 };
    expect(readBlockExtras([item("img", 5)], ahead)?.items).toHaveLength(1);
    expect(readBlockExtras([item("img", 6)], ahead)).toBeUndefined();
    expect(readBlockExtras([item("img", 4)], later)).toBeUndefined();
  });

  test("an item without an offset, before the prompt, or two at one token are not understood", () => {
    expect(readBlockExtras([item("img", undefined)], first)).toBeUndefined();
    expect(readBlockExtras([item("img", -1)], first)).toBeUndefined();
    expect(readBlockExtras([item("a", 1), item("b", 1)], first)).toBeUndefined();
  });

  test("what is opaque makes the block unplaceable", () => {
    expect(readBlockExtras([{ type: "opaque" }], first)).toBeUndefined();
  });
});
