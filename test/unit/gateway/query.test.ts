import { expect, test } from "vitest";
import { checkQuery, type Query } from "../../../src/gateway/dist/query.js";
import { LIMITS } from "../../../src/protocol/dist/index.js";
import { tokensTo } from "./messages.ts";

const codeOf = (query: Query): string => {
  try {
    checkQuery(query);
    return "";
  } catch (error) {
    if (error instanceof Error && "code" in error) return `${error.code}: ${error.message}`;
    throw error;
  }
};

test("plain prompts of every length up to the limit are taken, none included", () => {
  for (const tokens of [new Uint32Array(0), [], [0], [4294967295], tokensTo(9)]) {
    expect(codeOf({ tokens })).toBe("");
  }
  expect(codeOf({ tokens: new Uint32Array(LIMITS.promptTokens.value) })).toBe("");
  expect(codeOf({ tokens: new Uint32Array(LIMITS.promptTokens.value + 1) })).toBe(
    "prompt_invalid: tokens: too many",
  );
});

test("a token that is no uint32 is refused, and never shown", () => {
  for (const bad of [-1, 1.5, 2 ** 32, Number.NaN, -0]) {
    expect(codeOf({ tokens: [1, bad, 3] })).toBe("prompt_invalid: tokens: not uint32");
  }
});

test("items ascend strictly by offset, inside the prompt, with an identifier", () => {
  const tokens = tokensTo(10);
  const item = (offset: number, identifier = "image") => ({ identifier, offset });
  expect(codeOf({ tokens, multimodalItems: [item(0), item(1), item(9)] })).toBe("");
  for (const [items, problem] of [
    [[item(3), item(3)], "not ascending by offset"],
    [[item(3), item(2)], "not ascending by offset"],
    [[item(10)], "offset beyond the prompt"],
    [[item(-1)], "offset is not uint32"],
    [[item(1, "")], "empty identifier"],
    [[item(1, "x".repeat(LIMITS.textBytes.value + 1))], "identifier: too long"],
  ] as const) {
    expect(codeOf({ tokens, multimodalItems: items })).toBe(
      `prompt_invalid: multimodalItems: ${problem}`,
    );
  }
  const many = Array.from({ length: LIMITS.multimodalItems.value + 1 }, (_, i) => item(i));
  expect(codeOf({ tokens: tokensTo(many.length), multimodalItems: many })).toBe(
    "prompt_invalid: multimodalItems: too many",
  );
});

test("an item's length is a number of tokens that fits into a prompt; absent and 0 say nothing", () => {
  const most = LIMITS.promptTokens.value;
  const codeOfLength = (length: number | undefined) =>
    codeOf({
      tokens: tokensTo(10),
      multimodalItems: [{ identifier: "image", offset: 4, length }],
    });
  for (const length of [undefined, 0, 1, 6, most - 4]) expect(codeOfLength(length)).toBe("");
  for (const length of [-1, 1.5, Number.NaN, 2 ** 32]) {
    expect(codeOfLength(length)).toBe("prompt_invalid: multimodalItems: length is not uint32");
  }
  for (const length of [most - 3, 2 ** 32 - 1]) {
    expect(codeOfLength(length)).toBe("prompt_invalid: multimodalItems: ends beyond any prompt");
  }
});

test("names and salts are short texts, and never shown", () => {
  const long = "s".repeat(LIMITS.textBytes.value + 1);
  expect(codeOf({ tokens: [], cacheSalt: long })).toBe("prompt_invalid: cacheSalt: too long");
  expect(codeOf({ tokens: [], loraName: long })).toBe("prompt_invalid: loraName: too long");
});
